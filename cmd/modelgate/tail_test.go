package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	tailedOld = `{"id":"1","created_at":"2026-05-01T12:00:00.000Z","status":200,"provider":"openai","model":"m","usage":{"prompt_tokens":3,"completion_tokens":4},"timing":{"total_ms":12.4},"attempts":[{}],"decisions":[]}`
	tailedNew = `{"id":"2","created_at":"2026-05-01T12:00:01.000Z","status":502,"operation":"chat","provider":null,"model":"a\u001b[2Jb","usage":null,"error":{"code":"upstream_failed"},"timing":{"total_ms":7},` +
		`"attempts":[{"target":"config.targets[0]","provider":"openai","status":503,"took_ms":1.2},{"target":"config.targets[1]","provider":"groq","status":0,"error":"reset","took_ms":2}],"decisions":[{"path":"config","text":"the first"}]}`
)

func TestTailPrintsWhatWasAndWhatEnds(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI()+" "+r.Header.Get("x-gateway-api-key"))
		if r.Header.Get("x-gateway-api-key") != "k" {
			w.WriteHeader(401)
			io.WriteString(w, `{"message":"no key"}`)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/tail") {
			io.WriteString(w, ": watching\n\nevent: exchange\ndata: "+tailedOld+"\n\nevent: exchange\ndata: "+tailedNew+"\n\nevent: dropped\ndata: {\"dropped\":5}\n\n")
			return
		}
		io.WriteString(w, `{"data":[`+tailedOld+`]}`)
	}))
	t.Cleanup(s.Close)
	code, out, errs := invoke(t, nil, "", "tail", "--url", s.URL, "--key", "k", "--status", "5xx", "--explain")
	if code != 1 || !strings.Contains(errs, "ended the stream") {
		t.Errorf("exit code %d, %q; want 1, since the stream ended", code, errs)
	}
	if got := fmt.Sprint(asked); got != "[/v1/logs/tail?status=5xx k /v1/logs?limit=10&status=5xx k]" {
		t.Errorf("asked %s", got)
	}
	for _, want := range []string{"  200  openai  m  3>4  12ms\n", "  502  -  a\uFFFD[2Jb  -  7ms  +1  upstream_failed\n  2 chat\n  config: the first\n  → config.targets[0]: openai, 503 in 1 ms\n  → config.targets[1]: groq, 0 in 2 ms: reset\n", "… 5 requests"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("printed %q, want once %q", out, want)
		}
	}
	if code, out, errs := invoke(t, nil, "", "tail", "--url", s.URL, "--key", "k", "--follow=false"); code != 0 || strings.Count(out, "\n") != 1 || errs != "" {
		t.Errorf("without following: %d %q %q", code, out, errs)
	}
	if code, _, errs := invoke(t, nil, "", "tail", "--url", s.URL); code != 1 || !strings.Contains(errs, "401: no key; sign in with `modelgate login`") {
		t.Errorf("without a key: %d %q", code, errs)
	}
	if code, _, _ := invoke(t, nil, "", "tail", "--lines", "-1"); code != 2 {
		t.Errorf("--lines -1: exit code %d, want 2", code)
	}
}
