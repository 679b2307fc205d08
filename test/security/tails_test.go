package security

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// tail opens a log tail that stays open until the test ends, and returns the
// status of its response.
func (g *gateway) tail(t *testing.T, key string) int {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/logs/tail", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		res.Body.Close()
	})
	return res.StatusCode
}

func TestOneWorkspaceDoesNotTakeAllLogTails(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	second := g.create(t, rootKey, "/v1/workspaces", `{"name":"Second"}`, "id")
	scopes := []string{"logs.list", "logs.view"}
	first, other := g.key(t, rootKey, "default", scopes, ""), g.key(t, rootKey, second, scopes, "")
	opened := 0
	for opened < 64 && g.tail(t, first) == http.StatusOK {
		opened++
	}
	attack(t, "exhaustion", "a workspace opens more log tails than its share", func(t *testing.T) {
		if opened != 16 {
			t.Errorf("one workspace opened %d tails, want 16", opened)
		}
		got := g.as(t, first, "GET", "/v1/logs/tail", "")
		if got.status != http.StatusTooManyRequests || !strings.Contains(string(got.body), "too_many_watchers") {
			t.Errorf("one more tail: %d %.300s", got.status, got.body)
		}
	})
	attack(t, "exhaustion", "a workspace takes the log tails of another", func(t *testing.T) {
		if status := g.tail(t, other); status != http.StatusOK {
			t.Errorf("the other workspace's first tail: %d, want 200", status)
		}
	})
}
