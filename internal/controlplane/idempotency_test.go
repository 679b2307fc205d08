package controlplane_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/testing/routetest"
)

func TestCreatesWithAnIdempotencyKeyAreMadeOnce(t *testing.T) {
	b := routetest.New(t, configs.Add, keys.Add)
	root := b.Root()
	const path, body = "/api-keys/workspace/service", `{"name":"a","scopes":["completions.write"]}`
	with := func(key string) http.Header { return http.Header{"Idempotency-Key": {key}} }
	first := root.CallWith("POST", path, body, with("one"))
	if first.Status != http.StatusOK {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	again := root.CallWith("POST", path, body, with("one"))
	if again.Status != http.StatusOK || again.Body != first.Body || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same again: %d %v %s, want %s", again.Status, again.Header, again.Body, first.Body)
	}
	if other := root.CallWith("POST", path, body, with("two")); other.Body == first.Body || other.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("with another key: %s", other.Body)
	}
	if foreign := b.Root().CallWith("POST", path, body, with("one")); foreign.Status != http.StatusOK || foreign.Body == first.Body {
		t.Errorf("of another caller: %d %s", foreign.Status, foreign.Body)
	}
	if changed := root.CallWith("POST", path, strings.Replace(body, `"a"`, `"b"`, 1), with("one")); changed.Status != http.StatusBadRequest || !strings.Contains(changed.Body, "Idempotency-Key") {
		t.Errorf("another request with the key: %d %s, want 400", changed.Status, changed.Body)
	}
	if n := len(b.Query(`SELECT id FROM gateway_keys`)); n != 3 {
		t.Errorf("%d keys were made, want 3", n)
	}
	_, secret, _ := strings.Cut(first.Body, `"key":"`)
	if secret, _, _ = strings.Cut(secret, `"`); secret == "" || strings.Contains(strings.Join(b.Query(`SELECT id || request || response FROM idempotency_keys`), " "), secret) {
		t.Errorf("the database has the secret %q", secret)
	}
	if failed := root.CallWith("POST", path, `{"name":""}`, with("three")); failed.Status != http.StatusBadRequest {
		t.Errorf("an invalid request: %d", failed.Status)
	}
	if right := root.CallWith("POST", path, body, with("three")); right.Status != http.StatusOK {
		t.Errorf("the key of a request that failed: %d %s", right.Status, right.Body)
	}
	b.Exec(`UPDATE idempotency_keys SET response = ''`)
	if lost := root.CallWith("POST", path, body, with("one")); lost.Status != http.StatusConflict {
		t.Errorf("a response that was lost: %d %s, want 409", lost.Status, lost.Body)
	}
	b.Clock = b.Clock.Add(24 * time.Hour)
	if late := root.CallWith("POST", path, body, with("one")); late.Status != http.StatusOK || late.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("after a day: %d %s", late.Status, late.Body)
	}
	if n := len(b.Query(`SELECT id FROM idempotency_keys`)); n != 1 {
		t.Errorf("%d requests are stored, want those of the last day", n)
	}
	if err := b.API.Minute(t.Context(), b.Clock.Add(24*time.Hour), false); err != nil || len(b.Query(`SELECT id FROM idempotency_keys`)) != 0 {
		t.Errorf("a day later: %v, %q, want none", err, b.Query(`SELECT id FROM idempotency_keys`))
	}
	for _, key := range []string{"", strings.Repeat("k", 256), "é"} {
		if bad := root.CallWith("POST", path, body, with(key)); bad.Status != http.StatusBadRequest {
			t.Errorf("the key %.20q: %d, want 400", key, bad.Status)
		}
	}
}
