// Package converse is the dialect of Amazon Bedrock's Converse.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. Streams are binary messages
// of package eventstream: a frame's Type is the event or exception type and its
// Data the payload. Embeddings, images and reranking use InvokeModel in the
// format of each model family. It does not choose a provider; see the provider
// table and pipeline.
package converse

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/model/llm"
)

// Dialect is the dialect as clients and providers see it.
type Dialect struct{}

var (
	_ dialect.ClientDialect       = Dialect{}
	_ dialect.ProviderCodec       = Dialect{}
	_ dialect.OperationTranslator = Dialect{}
	_ dialect.ProviderCounter     = Dialect{}
)

const name = string(api.DialectConverse)

// own is the vendor whose signatures are exchanged with clients unmarked.
// Clients send back reasoning of Claude far more often than of other models,
// and the model is unknown when a request is read.
const own = llm.Anthropic

// Headers returns nil: the protocol has everything in the body and the path.
func (Dialect) Headers() []string { return nil }

// ContentType returns the type of binary event streams.
func (Dialect) ContentType() string { return eventstream.ContentType }

// ModelField returns no field: responses do not name their model.
func (Dialect) ModelField() dialect.ModelField { return dialect.ModelField{} }

// Terminator returns nil: a stream ends with its metadata.
func (Dialect) Terminator() []byte { return nil }
