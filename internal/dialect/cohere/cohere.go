// Package cohere is the dialect of Cohere's chat, embeddings and rerank, version 2.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Which provider answers is left
// to the provider table and the pipeline.
package cohere

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var (
	_ dialect.ProviderCodec       = Dialect{}
	_ dialect.OperationTranslator = Dialect{}
)

const name = string(api.DialectCohere)
