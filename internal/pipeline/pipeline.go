// Package pipeline sends an admitted request to providers.
//
// A [Handler] returns the response to a [Request]; a [attempt.TargetHandler] calls one
// target. It guarantees that a response is returned only when it is usable: a
// JSON body is complete, a stream has its first event. Until then retry and
// fallback still work. It does not read client requests or write responses (see
// dataplane) or manage connections (see upstream).
//
// Package exchange has what is passed on between its parts. This package repeats
// those of its names that callers need.
package pipeline

import (
	"modelgate/internal/pipeline/exchange"
)

// The request.
type (
	Request     = exchange.Request
	Received    = exchange.Received
	Upload      = exchange.Upload
	FormFields  = exchange.FormFields
	Limiting    = exchange.Limiting
	Leaf        = exchange.Leaf
	PromptEdits = exchange.PromptEdits
	Guards      = exchange.Guards
	CheckCall   = exchange.CheckCall
)

// What handles a request, and what it returns and records.
type (
	Bounds          = exchange.Bounds
	Handler         = exchange.Handler
	Response        = exchange.Response
	Stream          = exchange.Stream
	HookResults     = exchange.HookResults
	Trail           = exchange.Trail
	Attempt         = exchange.Attempt
	DryRunRequest   = exchange.DryRunRequest
	LimitState      = exchange.LimitState
	PromptCachePlan = exchange.PromptCachePlan
)
