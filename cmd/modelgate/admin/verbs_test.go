package admin_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/cmd/modelgate/admin"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// masterKey is a key for the credentials of integrations.
var masterKey = strings.Repeat("A", 43) + "="

// TestEveryVerbCallsTheGateway runs the calls of testdata/verbs.txt, which has every verb.
func TestEveryVerbCallsTheGateway(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: masterKey,
		Settings: "secrets:\n  environment: [OTHER_KEY]\n"})
	s := newShell(t, g)
	text, err := os.ReadFile("testdata/verbs.txt")
	if err != nil {
		t.Fatal(err)
	}
	module, err := base64.StdEncoding.DecodeString("AGFzbQEAAAABBAFgAAADAgEABwoBBl9zdGFydAAACgQBAgAL") // with _start alone
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{"UPSTREAM": g.Upstream, "CREDENTIAL": mustWrite(t, "key.txt", gatewaytest.SimulatorKey+"\n"),
		"MODULE": mustWrite(t, "module.wasm", string(module)),
		"LINES":  mustWrite(t, "lines.jsonl", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"@simulator/sim-1","messages":[{"role":"user","content":"Hello"}]}}`)}
	called := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case line == "@accept":
			mustAccept(t, g, values["LINK"])
			continue
		}
		name, call, kept := strings.Cut(line, " <- ")
		if !kept {
			name, call = "", line
		}
		called[s.check(os.Expand(call, func(name string) string { return values[name] }), name, values)] = true
	}
	for _, noun := range admin.Commands(admin.Env{}) {
		for _, verb := range noun.Commands() {
			if !called[noun.Name()+" "+verb.Name()] {
				t.Errorf("testdata/verbs.txt does not call %s %s", noun.Name(), verb.Name())
			}
		}
	}
}

// check runs a call of the file, and returns its noun and verb.
func (s *shell) check(call, name string, values map[string]string) string {
	s.t.Helper()
	call, must, refused := strings.Cut(call, " ! ")
	call, may, open := strings.Cut(call, " ? ")
	args := splitWords(call)
	out, warnings, err := s.try(args...)
	if name != "" && err == nil && out == "" { // such as a request that has not ended
		waittest.Until(s.t, "modelgate "+call+" prints something", func() bool {
			out, warnings, err = s.try(args...)
			return err != nil || out != ""
		})
	}
	switch {
	case refused && (err == nil || !strings.Contains(err.Error(), must)):
		s.t.Errorf("modelgate %s: %v, want an error with %q\n%s", call, err, must, out)
	case open && err != nil && !strings.Contains(err.Error(), may):
		s.t.Errorf("modelgate %s: %v, want success or an error with %q", call, err, may)
	case !refused && !open && err != nil:
		s.t.Errorf("modelgate %s: %v", call, err)
	case err == nil && !open && out+warnings == "": // a batch that was cancelled may have written nothing
		s.t.Errorf("modelgate %s prints nothing", call)
	}
	if name != "" {
		values[name] = strings.TrimSpace(out)
	}
	return strings.Join(args[:min(2, len(args))], " ")
}

// splitWords splits a command line at spaces outside of single quotes.
func splitWords(line string) []string {
	var list []string
	word, quoted, any := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any || word != "" {
				list = append(list, word)
			}
			word, any = "", false
		default:
			word += string(r)
		}
	}
	if any || word != "" {
		list = append(list, word)
	}
	return list
}

func mustWrite(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustAccept accepts an invite by its link, and returns the token of the session.
func mustAccept(t *testing.T, g *gatewaytest.Gateway, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Query().Get("token") == "" {
		t.Fatalf("the link of the invite is %q", link)
	}
	body := fmt.Sprintf(`{"token": %q, "password": "a long password of Sam", "first_name": "Sam", "last_name": "Roe"}`, u.Query().Get("token"))
	res, err := http.Post(g.URL+"/auth/invites/accept", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	var session struct{ Token string }
	if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(bytes.TrimSpace(text), &session) != nil {
		t.Fatalf("accepting the invite: %d %s", res.StatusCode, text)
	}
	return session.Token
}
