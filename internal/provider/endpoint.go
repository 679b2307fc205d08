package provider

import (
	"bytes"
	"net/http"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
)

// OtherDialect returns the dialect whose endpoint may serve a request that the
// provider refused in d: chat and responses stand for each other where the
// provider offers both. It is empty if there is none.
func (s *Spec) OtherDialect(d api.Dialect) api.Dialect {
	var other api.Dialect
	switch d {
	case api.DialectChat:
		other = api.DialectResponses
	case api.DialectResponses:
		other = api.DialectChat
	}
	if !s.converses(other) {
		return ""
	}
	return other
}

// WrongEndpoint says what a provider's error means for the choice of an
// endpoint.
type WrongEndpoint uint8

// Meanings of an error.
const (
	NotWrongEndpoint      WrongEndpoint = iota
	WrongEndpointForModel               // the endpoint does not serve the model
	WrongEndpointForTools               // the endpoint does not serve the model with function tools
)

// wrongEndpoints are the errors with which providers refuse a request that
// their other endpoint serves.
var wrongEndpoints = []struct {
	text   string // in the body
	means  WrongEndpoint
	source string
	read   string
}{
	{"is only supported in v1/responses", WrongEndpointForModel, "https://github.com/aaif-goose/goose/issues/2564", "2026-11-23"},
	{"This is not a chat model", WrongEndpointForModel, "https://github.com/micz/ThunderAI/issues/570", "2026-11-23"},
	{"with the Responses API", WrongEndpointForModel, "https://github.com/Laisky/one-api/issues/88", "2026-11-23"},
	{"Function tools with reasoning_effort are not supported", WrongEndpointForTools, "https://github.com/openai/openai-openapi/issues/541",
		"2026-11-23"},
	{"unsupported_api_for_model", WrongEndpointForModel, "https://github.com/farion1231/cc-switch/issues/1681", "2026-11-23"},
	{"is not accessible via the /", WrongEndpointForModel, "https://github.com/github/copilot-cli/issues/4337", "2026-11-23"},
	{"operation does not work with the specified model", WrongEndpointForModel, "https://github.com/langchain-ai/langchain/issues/35050",
		"2026-11-23"},
}

// wrongEndpointLimit is the length of an error that is read for its meaning.
const wrongEndpointLimit = 16 << 10

// ReadWrongEndpoint returns what a provider's error means for the choice of an
// endpoint. A host that lacks an endpoint returns 404 or 405 without an error
// object.
func ReadWrongEndpoint(status int, body []byte) WrongEndpoint {
	if status != http.StatusBadRequest && status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		return NotWrongEndpoint
	}
	body = body[:min(len(body), wrongEndpointLimit)]
	for _, w := range wrongEndpoints {
		if bytes.Contains(body, []byte(w.text)) {
			return w.means
		}
	}
	if status != http.StatusBadRequest && !holdsError(body) {
		return WrongEndpointForModel
	}
	return NotWrongEndpoint
}

// holdsError reports whether a body is an object with a member error.
func holdsError(body []byte) bool {
	var doc jsonedit.Doc
	if doc.Scan(body) != nil {
		return false
	}
	_, ok := doc.Find("error")
	return ok
}
