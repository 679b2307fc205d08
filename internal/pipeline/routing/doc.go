// Package routing passes a request to the branches of its config: strategies, retries,
// circuit breakers, hedges and streams that another target continues ([Nodes]).
//
// It guarantees that a request makes no more attempts and takes no longer than its limits
// allow, and that every response but the one it returns is closed. What requests write
// about targets outlives the compiled config ([State]). Calling a target is the job of
// package attempt, whose handlers are like any other here.
package routing
