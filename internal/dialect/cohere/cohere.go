// Package cohere is the dialect of Cohere's chat, embeddings and rerank,
// version 2.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. It does not choose a
// provider; see the provider table and pipeline.
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
