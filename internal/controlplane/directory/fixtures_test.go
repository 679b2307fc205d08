package directory_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/controlplane/directory"
)

// step is a request of a fixture with the exact response.
type step struct {
	line    string // method and path
	header  http.Header
	body    string
	status  string
	capture string // name that the id in the response gets
	want    string // body, empty for none
}

// readFixture reads the steps of a file. A step begins with "> METHOD PATH", followed by headers
// and a body; its response begins with "< STATUS", perhaps with a name for the id.
func readFixture(t *testing.T, name string) (steps []step) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var to *string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			steps = append(steps, step{line: line[2:], header: http.Header{}})
			to = &steps[len(steps)-1].body
		case strings.HasPrefix(line, "< "):
			s := &steps[len(steps)-1]
			s.status, s.capture, _ = strings.Cut(line[2:], " ")
			to = &s.want
		case strings.HasPrefix(line, "@"):
			name, value, _ := strings.Cut(line[1:], ": ")
			steps[len(steps)-1].header.Set(name, value)
		case to != nil:
			*to += line + "\n"
		}
	}
	if len(steps) < 5 {
		t.Fatalf("%s has %d steps", name, len(steps))
	}
	return steps
}

// ids replaces the names of captured ids by them.
type ids map[string]string

func (i ids) in(s string) string {
	for name, id := range i {
		s = strings.ReplaceAll(s, "{"+name+"}", id)
	}
	return s
}

// TestRequestsOfDirectoriesHaveExactResponses replays what Okta and Entra send.
func TestRequestsOfDirectoriesHaveExactResponses(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		steps := readFixture(t, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			routes := directory.Routes{UserMode: strings.Contains(file, "usermode")}
			onBoth(t, routes, func(b *bench) { b.replay(steps) })
		})
	}
}

func (b *bench) replay(steps []step) {
	known := ids{}
	for _, s := range steps {
		method, path, _ := strings.Cut(known.in(s.line), " ")
		w := b.send(call{method: method, path: "/v1/scim/v2" + path, body: strings.TrimSpace(known.in(s.body)), header: s.header})
		if got := http.StatusText(w.Code); s.status != strings.TrimSpace(statusOf(w.Code)) {
			b.Fatalf("%s %s: %d %s %s, want %s", s.line, s.body, w.Code, got, w.Body, s.status)
		}
		var got, want any
		if w.Body.Len() > 0 {
			if kind := w.Header().Get("Content-Type"); kind != "application/scim+json" {
				b.Errorf("%s: content type %q", s.line, kind)
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				b.Fatalf("%s: %v: %s", s.line, err, w.Body)
			}
		}
		if o, ok := got.(map[string]any); ok && s.capture != "" {
			known[s.capture], _ = o["id"].(string)
		}
		if text := strings.TrimSpace(known.in(s.want)); text != "" {
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				b.Fatalf("%s: the fixture is not JSON: %v: %s", s.line, err, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Fatalf("%s %s: %s\n%s", s.line, s.body, w.Body, diff)
		}
	}
}

func statusOf(code int) string { b, _ := json.Marshal(code); return string(b) }
