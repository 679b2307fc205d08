package exchange

import (
	"sync/atomic"

	"modelgate/internal/base/apierr"
)

// Codes of errors that the strategies above a leaf know.
const (
	// CodeAttempts is the code of a request that may make no further attempt.
	CodeAttempts = "attempts_exhausted"
	// CodeLimits is the code of a request whose limits cannot be checked.
	CodeLimits = "limits_unavailable"
)

// CountAttempt counts one more attempt, or request of a hook, before it is made. The error
// ends retries, fallbacks and hedges, and is not a fault of a provider.
func CountAttempt(used *atomic.Uint32, limit int) error {
	if int64(used.Add(1)) <= int64(limit) {
		return nil
	}
	return apierr.New(apierr.Unavailable,
		"the request has made the %d attempts that one request may make, at providers and by hooks of its config, and none of them served it; use fewer retries, fallbacks and hooks, or raise limits.attempts in the gateway's settings", limit).
		WithCode(CodeAttempts)
}
