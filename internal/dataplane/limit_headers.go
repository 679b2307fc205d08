package dataplane

import (
	"net/http"
	"strconv"
	"time"

	"modelgate/internal/base/apierr"
)

// setRateLimitHeaders sets the headers that describe a rate limit in the client's
// dialect, messages or another: those of OpenAI, whose reset is the time until then, or of Anthropic,
// whose reset is a time. Google and Bedrock have none of their own and get those
// of OpenAI.
//
// https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
// https://docs.claude.com/en/api/rate-limits#response-headers
func setRateLimitHeaders(h http.Header, messages bool, l *apierr.RateLimit, now time.Time) {
	if l == nil || l.Limit == 0 {
		return
	}
	limit, remaining := strconv.FormatInt(l.Limit, 10), strconv.FormatInt(l.Remaining, 10)
	if messages {
		name := "Anthropic-Ratelimit-" + l.Measure + "-"
		h.Set(name+"Limit", limit)
		h.Set(name+"Remaining", remaining)
		h.Set(name+"Reset", l.Reset.UTC().Format(time.RFC3339))
		return
	}
	h.Set("X-Ratelimit-Limit-"+l.Measure, limit)
	h.Set("X-Ratelimit-Remaining-"+l.Measure, remaining)
	h.Set("X-Ratelimit-Reset-"+l.Measure, max(l.Reset.Sub(now), 0).Round(time.Millisecond).String())
}
