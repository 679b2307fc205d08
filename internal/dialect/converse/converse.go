// Package converse is the dialect of Amazon Bedrock's Converse.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Streams are binary messages of
// package eventstream; their events are shown to it with the event or exception
// type as Type and the payload as Data. Embeddings, images and reranking go by
// InvokeModel in the form of each model family. Which provider answers is left to the
// provider table and the pipeline.
package converse

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/eventstream"
	"modelgate/internal/llm"
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

// own is whose signatures the protocol carries raw between a client and the
// gateway: clients replay reasoning of Claude far more than of others, and a
// request's model is unknown where it is read.
const own = llm.Anthropic

// Headers are none: the protocol has all in the body and the path.
func (Dialect) Headers() []string { return nil }

// ContentType is that of binary event streams.
func (Dialect) ContentType() string { return eventstream.ContentType }

// Terminator is nil: a stream is over after its metadata.
func (Dialect) Terminator() []byte { return nil }
