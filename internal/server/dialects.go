package server

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/dialect/responses"
)

// clients returns the dialects of clients.
func clients() map[api.Dialect]dialect.ClientDialect {
	return map[api.Dialect]dialect.ClientDialect{
		api.DialectChat:      chat.Dialect{},
		api.DialectMessages:  messages.Dialect{},
		api.DialectResponses: responses.Dialect{},
		api.DialectGemini:    gemini.Dialect{},
		api.DialectConverse:  converse.Dialect{},
		api.DialectInvoke:    messages.Invoke{Outer: converse.Dialect{}},
	}
}

// codecs returns the codecs of providers.
func codecs() map[api.Dialect]dialect.ProviderCodec {
	return map[api.Dialect]dialect.ProviderCodec{
		api.DialectChat:      chat.Dialect{},
		api.DialectMessages:  messages.Dialect{},
		api.DialectResponses: responses.Dialect{},
		api.DialectGemini:    gemini.Dialect{},
		api.DialectConverse:  converse.Dialect{},
		api.DialectInvoke:    messages.Dialect{},
		api.DialectCohere:    cohere.Dialect{},
		api.DialectOllama:    ollama.Dialect{},
		api.DialectOracle:    oracle.Dialect{},
		api.DialectReplicate: replicate.Dialect{},
	}
}
