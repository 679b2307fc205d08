package dataplane

import "modelgate/internal/pipeline"

// stages are what an admitted request passes on its way to a provider, in this
// order, and its response on the way back in the reverse one. Admission comes
// before them, where a key without permission or budget is refused without
// reading the body, and recording after them, when the response has been sent;
// see Plane.ServeHTTP. docs/architecture.md explains the order.
func stages() []pipeline.Stage {
	return []pipeline.Stage{
		limits{},         // before anything costs money or time
		requestChecks{},  // before the cache: a denied request is not answered from it
		cache{},          // before a target is chosen: a hit costs none
		responseChecks{}, // within the cache: what is stored has passed
		// pipeline.Routing: strategies, retries, breakers and hedges, ending in attempts
	}
}

// limits reserves the estimated cost of a request and settles it when the response
// is closed.
//
// It reads the identity, the requested model and the estimate of tokens. It changes
// nothing. It ends a request with 429 for a rate and 412 for a budget, naming the
// limit. It counts a stream as it passes and may end it with the length stop. It
// notes which limits were consulted.
//
// No rate limit exists yet; exhausted budgets are refused at admission.
type limits struct{}

// Wrap implements [pipeline.Stage].
func (limits) Wrap(next pipeline.Handler) pipeline.Handler { return next }

// requestChecks are the guardrails on requests.
//
// They read the text of the request through the reader of its dialect. They may
// change the body, by edits of a copy. They end a request with 446, or let it pass
// and mark it. They see no stream. They note each check and its verdict.
//
// No check exists yet: a config that wants a request denied is refused at its
// target, and what else it asks of checks is announced as ignored.
type requestChecks struct{}

// Wrap implements [pipeline.Stage].
func (requestChecks) Wrap(next pipeline.Handler) pipeline.Handler { return next }

// cache answers a request from a stored response, and stores those that ended well.
//
// It reads the tenant, the dialect, the namespace and the body, which make the key.
// It changes nothing. It ends a request with the stored response, as JSON or as a
// stream. It copies a stream into the store as it is pulled, and drops the copy of one
// that broke, was denied or was cut. It sets the cache status of the log entry.
//
// No cache exists yet: the config's cache property is announced as ignored.
type cache struct{}

// Wrap implements [pipeline.Stage].
func (cache) Wrap(next pipeline.Handler) pipeline.Handler { return next }

// responseChecks are the guardrails on responses.
//
// They read the text of the response. They may change it. They end a request with
// 446, or a stream that has begun with the in-band error of its dialect. They see a
// stream through a window and hold back a stated amount of it. They note each check
// and its verdict, and what of the response they did not cover.
//
// No check exists yet; see requestChecks.
type responseChecks struct{}

// Wrap implements [pipeline.Stage].
func (responseChecks) Wrap(next pipeline.Handler) pipeline.Handler { return next }
