// Package oracle is the dialect of Oracle's generative AI service: its chat in
// the GENERIC format, and in the COHERE format for the models of Cohere.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Signatures of requests and which
// provider answers are left to others.
package oracle

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var _ dialect.ProviderCodec = Dialect{}

const name = string(api.DialectOracle)
