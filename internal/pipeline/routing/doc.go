// Package routing passes a request to the branches of its config: strategies, retries,
// circuit breakers, hedges and streams that another target continues ([Nodes]).
//
// It guarantees that no branch is begun once a limit of attempts or of time has ended the
// request, and that every response but the one it returns is closed. What requests write
// about targets outlives the compiled config ([State]). Calling a target is the job of
// package attempt, whose handlers are like any other here.
package routing
