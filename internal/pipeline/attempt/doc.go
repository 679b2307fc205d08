// Package attempt calls one target of a request: it builds the upstream request, sends it,
// and reads the response ([TargetHandler]). What all attempts share is in [Engine].
//
// It guarantees that a response is returned only when it is usable: a JSON body is complete
// or larger than what is held, a stream has its first event. Until then another target can
// be asked. It also guarantees that the ledger has the intent before anything is sent, and
// that no stored credential reaches the client. Choosing the target, and trying
// again, is the job of package routing; connections are the job of upstream.
package attempt
