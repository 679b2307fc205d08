// Package oracle is the dialect of Oracle's generative AI service: chat in the
// GENERIC format, and in the COHERE format for Cohere's models.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. It does not sign requests
// (provider/auth) or choose a provider (provider table and pipeline).
package oracle

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var _ dialect.ProviderCodec = Dialect{}

const name = string(api.DialectOracle)
