package peer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/dataplane/tools/peer"
)

// FuzzReplies sends whatever a server may answer: each reply ends, with messages that are
// objects, or with a failure whose text quotes nothing of it.
func FuzzReplies(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":"c-1","result":{}}`, `{"id":1,"error":{"code":-32001,"message":"session"}}`, `[]`, `{"`, "",
		"data: {\"id\":1,\"result\":{}}\n\n", "event: message\r\ndata: {\r\ndata: }\r\n\r\n", ":\n\n", "data: {}", "event: x\ndata: {}\n\n",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`, `{"id":1,"error":{"data":{"supported":["2024-11-05"]}}}`,
		`{"id":1,"result":{"supportedVersions":["2026-07-28",1,null]}}`,
	} {
		for _, status := range []uint16{200, 202, 400, 404, 405, 429} {
			f.Add(status, true, []byte(body))
			f.Add(status, false, []byte(body))
		}
	}
	type answer struct {
		status int
		stream bool
		body   []byte
	}
	var next answer
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if next.stream {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.WriteHeader(next.status)
		w.Write(next.body)
	}))
	f.Cleanup(web.Close)
	f.Fuzz(func(t *testing.T, status uint16, stream bool, body []byte) {
		next = answer{200 + int(status)%300, stream, body}
		p := mustPeers(t, peer.Options{MaxMessage: 1 << 10})
		s := mustServer(t, web.URL)
		for _, c := range []*peer.Call{modernCall(s, "echo", `{}`), legacyCall(s, peer.Session{ID: "s", Version: "2025-06-18"}, "echo", `{}`)} {
			messages, err := send(t.Context(), p, c)
			for _, m := range messages {
				if !strings.HasPrefix(strings.TrimLeft(m, " \t\r\n"), "{") || len(m) > 1<<10 {
					t.Errorf("the message %q was returned", m)
				}
			}
			checkFailure(t, err)
		}
		_, err := p.Era(t.Context(), s, peer.Credential{})
		checkFailure(t, err)
		_, result, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
		checkFailure(t, err)
		if err == nil && !json.Valid(result) {
			t.Errorf("the result of initialize is %q", result)
		}
	})
}

// checkFailure checks an error of a server that answers.
func checkFailure(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		if f := failureOf(t, err); f.Reason == "" || f.Unsent && f.Kind != peer.Unavailable {
			t.Errorf("the failure is %+v", f)
		}
	}
}

// FuzzEnvelope compares what is read of a message with the standard library, and checks that
// ids and tokens are put in place without another change.
func FuzzEnvelope(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p"}}}`,
		`{"params":{"_meta":{"progressToken":1}},"method":"m","id":"a"}`, `{"id":1,"result":null}`, `{"id":{"a":[1]},"method":"m"} `, `{`, `[]`, `{}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		id, token, replaced, ok := peer.Replace(text, []byte("12345"))
		var want struct {
			ID     json.RawMessage `json:"id"`
			Method json.RawMessage `json:"method"`
		}
		if !ok || !json.Valid(text) || json.Unmarshal(text, &want) != nil || hasRepeatedOrFoldedKeys(text) {
			return
		}
		if len(want.ID) > 0 && !bytes.Equal(want.ID, id) {
			t.Errorf("the id of %s is read as %s", text, id)
		}
		if !json.Valid(replaced) {
			t.Errorf("%s became %s", text, replaced)
		}
		if size := len(text) - len(id) + 5; token == nil && len(replaced) != size || token != nil && len(replaced) != size-len(token)+5 {
			t.Errorf("%s became %s", text, replaced)
		}
	})
}

// hasRepeatedOrFoldedKeys reports whether the standard library may take another member.
func hasRepeatedOrFoldedKeys(text []byte) bool {
	return bytes.Contains(text, []byte(`\`)) || bytes.Count(bytes.ToLower(text), []byte(`"id"`)) > 1 || bytes.ContainsAny(text, "ıſK") ||
		!bytes.Contains(text, []byte(`"id"`)) || bytes.Contains(text, []byte(`"ID"`)) || bytes.Contains(text, []byte(`"Id"`)) || bytes.Contains(text, []byte(`"iD"`))
}

// FuzzNames checks that each name arrives in the header, whatever it is.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "", " a", "ü", "a\r\nX-Evil: 1", "=?base64?YQ==?=", "=?base64?", "\x7f"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := peer.EncodeName(name)
		for i := range len(got) {
			if got[i] < ' ' || got[i] > '~' {
				t.Fatalf("%q is encoded as %q", name, got)
			}
		}
		if encoded, ok := strings.CutPrefix(got, "=?base64?"); ok {
			plain, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, "?="))
			if err != nil {
				t.Fatal(err)
			}
			got = string(plain)
		}
		if got != name {
			t.Errorf("%q arrives as %q", name, got)
		}
	})
}
