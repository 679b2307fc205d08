package server_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// usesOf returns what the audit log says of the uses of secret references: the
// action and the body of each, the oldest first.
func usesOf(t *testing.T, g *gatewaytest.Gateway) (list []string) {
	t.Helper()
	res := g.Get("/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z&user_type=gateway")
	var out struct {
		Records []struct {
			Action string `json:"action"`
			Body   string `json:"request_body"`
		}
	}
	if err := json.Unmarshal(res.Body, &out); res.Status != http.StatusOK || err != nil {
		t.Fatalf("%d %s, %v", res.Status, res.Body, err)
	}
	for _, r := range out.Records {
		list = append([]string{r.Action + " " + r.Body}, list...)
	}
	return list
}

func TestUsesOfSecretReferencesAreAuditedOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "key")
	mustPut(t, file, "sk-first-canary")
	g, k := referring(t, t.TempDir(), folder)
	refer(t, g, "kept", file, "")
	waittest.Until(t, "the first value is used", func() bool { sendChat(g, "@kept"); return strings.Contains(k.sent(), "sk-first-canary") })
	for range 20 {
		sendChat(g, "@kept")
	}
	uses := func(n int) (list []string) {
		t.Helper()
		waittest.Until(t, "the use is in the audit log", func() bool { list = usesOf(t, g); return len(list) >= n })
		if len(list) != n {
			t.Fatalf("%d uses, want %d: %q", len(list), n, list)
		}
		return list
	}
	if got := uses(1)[0]; !strings.HasPrefix(got, "secret_use ") || !strings.Contains(got, strings.TrimPrefix(origin(g), "http://")) || !strings.Contains(got, "openai-compatible") {
		t.Errorf("the first use: %s", got)
	}
	mustPut(t, file, "sk-second-canary")
	waittest.Until(t, "the second value is used", func() bool { sendChat(g, "@kept"); return strings.Contains(k.sent(), "sk-second-canary") })
	if got := uses(2)[1]; !strings.HasPrefix(got, "secret_changed ") {
		t.Errorf("another value: %s", got)
	}
	refer(t, g, "lost", filepath.Join(folder, "nothing"), "")
	if got := uses(3)[2]; !strings.HasPrefix(got, "secret_failed ") || !strings.Contains(got, "secret_not_found") {
		t.Errorf("a reference to nothing: %s", got)
	}
	mustPost(t, g, "/secret-references/kept/test", "")
	all := string(g.Get("/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z").Body)
	if strings.Contains(all, "canary") || !strings.Contains(all, "secret_test") {
		t.Errorf("the audit log holds a value, or no test: %s", all)
	}
}
