package dataplane_test

import (
	"strings"
	"testing"
)

// A hedge ends at the limit of attempts as a fallback does.
func TestHedgeEndsAtTheLimitOfAttempts(t *testing.T) {
	t.Parallel()
	g, p := newFailing(t)
	for _, tt := range []struct {
		targets, attempts int
		status            int
		code              any
	}{{2, 2, 500, nil}, {3, 3, 500, nil}, {4, 3, 503, "attempts_exhausted"}, {9, 3, 503, "attempts_exhausted"}} {
		p.chats.Store(0)
		config := `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":20000},"targets":[` + strings.Repeat(`{"provider":"@chat"},`, tt.targets-1) + `{"provider":"@chat"}]}`
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
		if e := errorOf(t, string(res.Body)); res.Status != tt.status || e["code"] != tt.code || p.chats.Load() != int64(tt.attempts) {
			t.Errorf("a hedge over %d targets: status %d, code %v after %d requests; want %d, %v after %d",
				tt.targets, res.Status, e["code"], p.chats.Load(), tt.status, tt.code, tt.attempts)
		}
	}
}
