// Package pipeline sends an admitted request to providers ([Serve]), through the tree of
// targets that its config compiles to ([Compiler], [Tree]) or through its only target
// ([OneLeaf]).
//
// Its parts are packages that do not know one another: routing chooses targets, guarding
// runs hooks, caching shares responses, attempt calls a target and metering enforces
// limits. This package puts them together: compile.go has their order around a call, and
// serve.go their order around a request. It guarantees that a response is returned only
// when it is usable, so that retry and fallback work until then; see
// [attempt.TargetHandler]. It does not read requests of clients or write responses, which
// is the job of dataplane.
//
// Package exchange has what is passed on between the parts: an [exchange.Handler] returns
// the [exchange.Response] to an [exchange.Request] and records in an [exchange.Trail] what
// it did.
package pipeline
