package vendortune_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/stateplane/vendortune"
)

// vendor is a scripted vendor: a response by "METHOD SERVICE/path?query", or by the same
// without the query.
type vendor struct {
	script   map[string]string // a body, or a status and a body
	requests []string          // as in the script
	bodies   []string
}

func (v *vendor) Call(_ context.Context, r *vendorcall.Request) (*vendorcall.Response, error) {
	name := r.Method + " " + r.Service + r.Path
	full := name
	if r.Query != "" {
		full += "?" + r.Query
	}
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.Length {
			return nil, fmt.Errorf("a body of %d bytes, not %d: %w", len(b), r.Length, err)
		}
		body = string(b)
	}
	v.requests, v.bodies = append(v.requests, full), append(v.bodies, body)
	text, ok := v.script[full]
	if !ok {
		text, ok = v.script[name]
	}
	if !ok {
		text = "404 {}"
	}
	status := 200
	if n, rest, cut := strings.Cut(text, " "); cut && len(n) == 3 {
		if _, err := fmt.Sscan(n, &status); err == nil {
			text = rest
		}
	}
	return &vendorcall.Response{Status: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// options are those of the accounts in tests.
var options = map[string]string{"project_id": "p1", "region": "europe-west4", "account_id": "acme", "api_version": "v1"}

func account(script map[string]string) (vendortune.Account, *vendor) {
	v := &vendor{script: script}
	return vendortune.Account{Caller: v, Options: options}, v
}

func mustFor(t *testing.T, id string) *vendortune.Vendor {
	t.Helper()
	v, ok := vendortune.For(id)
	if !ok {
		t.Fatalf("For(%q) = none", id)
	}
	return v
}

func mustParse(t *testing.T, body string) *vendortune.Input {
	t.Helper()
	in, err := vendortune.Parse([]byte(body))
	if err != nil {
		t.Fatalf("Parse(%s) = %v", body, err)
	}
	in.OwnID = "ftjob_Own1"
	return in
}

// compareJSON compares values and not their spelling.
func compareJSON(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Errorf("%s: %s is not JSON: %v", what, got, err)
		return
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: the expected %s is not JSON: %v", what, want, err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkError checks kind and parameter, and that the message holds words.
func checkError(t *testing.T, what string, err error, kind apierr.Kind, param string, words ...string) {
	t.Helper()
	e := apierr.From(err)
	if e == nil || e.Kind != kind || e.Param != param {
		t.Errorf("%s: error %#v, want kind %d and param %q", what, e, kind, param)
		return
	}
	for _, word := range words {
		if !strings.Contains(e.Message, word) {
			t.Errorf("%s: message %q lacks %q", what, e.Message, word)
		}
	}
}
