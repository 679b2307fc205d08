// Package exchange has the types that a request and its response are passed on in: the
// [Request] and its settings, the [Handler], the [Response] and its [Stream], and the
// [Trail], which records what happened.
//
// It has types and records only. What sends, routes, checks and stores requests is in
// package pipeline, which says in which order.
package exchange
