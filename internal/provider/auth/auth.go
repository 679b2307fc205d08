// Package auth signs requests and fetches tokens for the providers that take
// more than a key in a header.
//
// It promises that a token is fetched once however many requests wait for it,
// that it is renewed before it ends, and that no credential shows in an error.
// Which provider wants which is data of the provider table.
package auth
