package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheEvaluationIsThatOfTheDocuments(t *testing.T) {
	code, out, errs := invoke(t, nil, "", "cache", "evaluate")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if page := mustRead(t, "../../docs/semantic-cache.md"); !strings.Contains(page, strings.TrimSpace(out)) {
		t.Errorf("docs/semantic-cache.md does not have this output:\n%s", out)
	}
}

func TestAnEmbedderIsEvaluatedByEnvironment(t *testing.T) {
	calls := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		var in struct{ Model, Input string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Model != "m" || in.Input == "" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("got %+v, %v, %q", in, err, r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, `{"data":[{"embedding":[1,0]}]}`)
	}))
	defer provider.Close()
	env := []string{"MODELGATE_EMBEDDING_URL=" + provider.URL, "MODELGATE_EMBEDDING_MODEL=m", "MODELGATE_EMBEDDING_KEY=k"}
	code, out, errs := invoke(t, env, "", "cache", "evaluate", "--least-precision", "1")
	if code != 1 || !strings.Contains(out, "embedder m, threshold 0.95") || !strings.Contains(out, "false hit (") || !strings.Contains(errs, "less than 1") || calls < 800 {
		t.Errorf("exit %d, %d calls\n%s%s", code, calls, out, errs)
	}
}

func TestAnEvaluationThatCannotRunSaysWhy(t *testing.T) {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no quota", http.StatusTooManyRequests) }))
	defer down.Close()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"cache"}, 2, "missing subcommand: evaluate"},
		{[]string{"cache", "clear"}, 2, `unknown subcommand "clear"; use evaluate`},
		{[]string{"cache", "evaluate", "--embedding-url", "http://x"}, 2, "--embedding-model is required"},
		{[]string{"cache", "evaluate", "--embedding-url", down.URL, "--embedding-model", "m"}, 1, "status 429: no quota"},
	} {
		if code, _, errs := invoke(t, nil, "", tt.args...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%q: exit %d, %s; want %d, %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}
