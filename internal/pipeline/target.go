package pipeline

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/provider"
	"modelgate/internal/reqlog"
	"modelgate/internal/upstream"
)

// Engine is what all targets share.
type Engine struct {
	Client *upstream.Client
	Pool   *bytepool.Pool

	// Codecs are those of the dialects that providers speak.
	Codecs map[api.Dialect]dialect.ProviderCodec

	// Signer signs the requests of targets whose authentication needs a clock
	// or I/O. Nil signs none.
	Signer Signer

	Limits upstream.Timeouts

	// MaxEvent bounds one event of a stream and MaxDecoded a compressed
	// answer after decoding, in bytes.
	MaxEvent   int
	MaxDecoded int64

	// MaxAttempts is how many requests to providers one request may make, those
	// of retries, fallbacks, hedges, continuations and split inputs included.
	// Zero means DefaultAttempts.
	MaxAttempts int

	// Ledger records attempts. Nil records none.
	Ledger Ledger

	// Trace returns a span id for an attempt of a request in the trace with this id
	// and these flags, and the traceparent that its provider is sent. Nil sends none.
	Trace func(id reqlog.ID, trace, flags string) (span, parent string)

	// UserAgent is sent on unified routes.
	UserAgent string

	// SkipGuardrails calls targets whose configs want checks to deny, although nothing
	// checks: the operator turned guardrails off.
	SkipGuardrails bool

	// Random returns a number in [0, 1) for draws and jitter. Nil takes
	// math/rand/v2.
	Random func() float64
}

func (e *Engine) random() float64 {
	if e.Random != nil {
		return e.Random()
	}
	return rand.Float64()
}

// Signer adds to a request what its target's way of authentication asks for.
// body is what the request sends, nil when it streams through. An error is an
// *apierr.Error where a client may see it.
type Signer interface {
	Sign(ctx context.Context, t *provider.Target, req *http.Request, body []byte) error
}

// TargetHandler calls one target. It is immutable and safe for concurrent use.
type TargetHandler struct {
	*Engine
	// Target is who is called. Nil takes that of the request's leaf.
	Target *provider.Target
	Path   string // JSON path of the target in its config
	leaf   int    // index in Request.Leaves; for a nil Target

	// Timeout bounds an attempt until its response is usable: a JSON body is
	// complete, a stream has its first event. Zero leaves the engine's limits.
	Timeout time.Duration

	// Forward lists request headers that go to the provider as they are.
	Forward []string

	// Defaults fill what a JSON body lacks, Override replaces and Drop removes,
	// in this order. Model repeats the model in Override and DefaultModel that in
	// Defaults; empty for none.
	Defaults     []jsonedit.Edit
	Override     []jsonedit.Edit
	Drop         []jsonedit.Path
	Model        string
	DefaultModel string

	// Lenient lets responses hold what goes beyond the client's dialect, as
	// strict_vendora_compliance false asks. OnUnsupported says how to handle
	// parameters that the target does not support; empty announces them.
	Lenient       bool
	OnUnsupported config.UnsupportedPolicy
}

// Handle makes one attempt.
func (h *TargetHandler) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	a, err := h.newAttempt(r, t)
	if err != nil {
		return nil, err
	}
	t.Outcome = a
	if r.DryRun {
		return a.dryRun(ctx)
	}
	return a.run(ctx)
}
