// Package responses is the dialect of the responses protocol of OpenAI.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Which provider answers is left
// to the provider table and the pipeline.
package responses

// Dialect is the dialect as clients and providers see it.
type Dialect struct{}
