package exchange

import (
	"net/http"

	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
)

// DryRunRequest is one request that would be sent. It contains no credential.
type DryRunRequest struct {
	Path     string // JSON path of the leaf
	Provider string
	Slug     string
	Model    string
	Price    *catalog.Price // nil if unknown
	Method   string
	URL      string // for a managed provider only the path: its address is not shown to callers
	Header   http.Header
	Body     []byte
	Params   []string // items of x-gateway-params
	Timeout  int64    // milliseconds; zero means only the engine's limits
	Limits   []LimitState

	PromptCache *PromptCachePlan // nil if the config does not help the provider's cache
}

// LimitState is a limit that a request would be checked against.
type LimitState struct {
	Limit *quota.Limit
	quota.State
	Amount  int64 // what the request may use, as estimated
	Claimed int64 // what the request would reserve
	Fits    bool
}

// PromptCachePlan is what the provider's prompt cache may save for a request.
type PromptCachePlan struct {
	Path   string // of the node that helps
	Tokens int64  // estimate of the tokens of the prefix

	// Read is what reading the prefix from the cache saves, compared with input
	// without a cache, and Written what writing it costs more. Both are nil if the
	// price is unknown.
	Read, Written *catalog.NanoDollars
}
