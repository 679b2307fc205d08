package attempt

import (
	"context"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/dialect"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/upstream"
)

// Engine holds what all targets share.
type Engine struct {
	Client *upstream.Client
	Bounds exchange.Bounds

	// Codecs are the codecs of providers by dialect.
	Codecs map[api.Dialect]dialect.ProviderCodec

	// Signer signs requests whose authentication needs a clock or I/O. Nil
	// signs none.
	Signer Signer

	Limits upstream.Timeouts

	// HeadDelay is how long a stream may be silent before its first event until
	// the client gets the response headers, if no other attempt can follow; at
	// least 900 ms. Zero: they wait for the first event.
	HeadDelay time.Duration

	// Ledger records attempts. Nil records none.
	Ledger Ledger

	// Quota holds the counters of limits. Nil enforces none.
	Quota quota.Store

	// Trace returns a span id for an attempt of a request in this trace, and
	// the traceparent for its provider. Nil sends none.
	Trace func(id reqlog.ID, trace, flags string) (span, parent string)

	// UserAgent is sent on unified routes.
	UserAgent string

	refused       refusedEndpoints
	refusedParams recentSet[refusedParam]
	seenThinking  recentSet[thinkingMember]
}

// Signer adds the authentication of a target to a request. body is the request
// body, nil if it streams through. An error is an *apierr.Error if a client may
// see it.
type Signer interface {
	Sign(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error
}

// TargetHandler calls the target of one leaf. It is immutable and safe for concurrent use.
type TargetHandler struct {
	Engine *Engine
	Path   string // JSON path of the target in its config
	Name   string // of the target in its config; empty without one
	Leaf   int    // index in Request.Leaves

	// Timeout is the time until the response must be usable: a JSON body is
	// complete, a stream has its first event. Zero means only the engine's
	// limits.
	Timeout time.Duration

	// Forward lists request headers that are forwarded unchanged.
	Forward []string

	Params exchange.ConfigParams

	// Lenient allows responses to exceed the client's dialect
	// (strict_vendora_compliance false). OnUnsupported says what happens to
	// parameters that the target does not support; empty means that they are
	// dropped and announced.
	Lenient       bool
	OnUnsupported config.UnsupportedPolicy

	// PromptCache marks the prefix of requests for the provider's prompt cache.
	PromptCache bool

	// ResponseModel says which name responses give their model. Empty leaves it
	// to the key and the dialect.
	ResponseModel api.ResponseModel
}

// Handle makes one attempt.
func (h *TargetHandler) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	a, err := h.newAttempt(r, t)
	if err != nil {
		return nil, err
	}
	t.Outcome = &a.plan.record
	if r.DryRun {
		return a.dryRun(ctx)
	}
	res, err := a.run(ctx)
	if err == nil && a.wrongEndpoint != provider.NotWrongEndpoint {
		a, res, err = h.tryOtherEndpoint(ctx, a, res)
	}
	if err == nil && len(a.refusedParams) > 0 {
		return h.repeatRequest(ctx, a, res)
	}
	return res, err
}
