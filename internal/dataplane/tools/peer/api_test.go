package peer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/waittest"
)

const apiDocument = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/get":{"get":{"operationId":"echo"},"head":{"operationId":"head"},"post":{"operationId":"post",
	"requestBody":{"content":{"application/json":{}}}}}}}`

// mustAPI returns the tool server that an API is by its document.
func mustAPI(t *testing.T, serve http.HandlerFunc) *toolserver.Server {
	t.Helper()
	web := httptest.NewServer(serve)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	s := mustServer(t, web.URL)
	s.Transport, s.Document = toolserver.OpenAPI, apiDocument
	return s
}

func TestAPIThatIsAwayIsNotAskedForAWhile(t *testing.T) {
	for status, breaks := range map[int]bool{500: false, 501: false, 404: false, 502: true, 503: true, 504: true} {
		var asked atomic.Int32
		s := mustAPI(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(status) })
		p := mustPeers(t, peer.Options{})
		var last error
		for range 8 {
			_, last = send(t.Context(), p, modernCall(s, "echo", `{}`))
		}
		if (last != nil) != breaks || breaks && (failureOf(t, last).Kind != peer.Unavailable || asked.Load() != 5) || !breaks && asked.Load() != 8 {
			t.Errorf("status %d: asked %d times, then %v", status, asked.Load(), last)
		}
		if !breaks {
			continue
		}
		if state := p.State(s.ID); state.Condition != peer.Broken || !strings.Contains(state.Reason, "unavailable") {
			t.Errorf("status %d: the state is %+v", status, state)
		}
	}
}

func TestCallsThatMakeNoRequestDoNotBreakAnAPI(t *testing.T) {
	s := mustAPI(t, func(http.ResponseWriter, *http.Request) {})
	p := mustPeers(t, peer.Options{})
	for range 8 {
		if got := mustSend(t, p, modernCall(s, "echo", `{"path":{"x":1}}`)); !strings.Contains(got[0], `"isError":true`) {
			t.Fatalf("Send = %s", got)
		}
	}
	if state := p.State(s.ID); state.Condition != peer.Working {
		t.Errorf("the state is %+v", state)
	}
}

func TestCallOfAnAPIEndsWithItsCaller(t *testing.T) {
	began, left := make(chan struct{}), make(chan struct{})
	s := mustAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
		close(left)
	})
	p := mustPeers(t, peer.Options{})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := send(ctx, p, modernCall(s, "post", `{"body":{"a":1}}`))
		ended <- err
	}()
	waittest.Receive(t, began, "the call at the API")
	leave()
	if f := failureOf(t, waittest.Receive(t, ended, "the end of the call")); f.Kind != peer.Cancelled {
		t.Errorf("a call whose client left: %+v", f)
	}
	waittest.Receive(t, left, "the end of the call at the API")
}

func TestAPIThatIsSilentTimesOut(t *testing.T) {
	for name, before := range map[string]func(http.ResponseWriter){
		"before its headers": func(http.ResponseWriter) {},
		"in its body": func(w http.ResponseWriter) {
			io.WriteString(w, "{")
			http.NewResponseController(w).Flush()
		},
	} {
		s := mustAPI(t, func(w http.ResponseWriter, r *http.Request) {
			before(w)
			<-r.Context().Done()
		})
		s.IdleTimeout = 50 * time.Millisecond
		if _, err := send(t.Context(), mustPeers(t, peer.Options{}), modernCall(s, "echo", `{}`)); failureOf(t, err).Kind != peer.TimedOut {
			t.Errorf("silent %s: %v", name, err)
		}
	}
}

func TestUnusualResponsesOfAnAPI(t *testing.T) {
	for name, tt := range map[string]struct {
		tool  string
		serve http.HandlerFunc
		want  string
	}{
		"HEAD": {"head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9999999") }, `"text":"HTTP 200 OK"`},
		"compressed": {"echo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte{31, 139})
		}, "compressed its response"},
		"an announced size": {"echo", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9999999") }, "larger than 4 MB"},
		"cut off": {"echo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			io.WriteString(w, "{")
		}, "ended early"},
		"no JSON": {"echo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"a":`)
		}, `"text":"{\"a\":"`},
		"JSON of a kind": {"echo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json; x")
			io.WriteString(w, `{"a":1}`)
		}, `"structuredContent":{"a":1}`},
		"bytes as text": {"echo", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Write([]byte{'a', 0xff})
		}, `"blob":"Yf8="`},
		"unknown redirect": {"echo", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(399) }, "redirects"},
	} {
		got, err := send(t.Context(), mustPeers(t, peer.Options{}), modernCall(mustAPI(t, tt.serve), tt.tool, `{}`))
		if text := fmt.Sprint(got, err); !strings.Contains(text, tt.want) || err == nil && !json.Valid([]byte(got[0])) {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}

func TestMessagesForAPIsAreReadStrictly(t *testing.T) {
	s := mustAPI(t, func(http.ResponseWriter, *http.Request) { t.Error("the API was asked") })
	p := mustPeers(t, peer.Options{})
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}`:                 "-32602",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"post"}}`:   "-32602",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                                          "-32602",
		`{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{}}`:                          "-32601",
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`:                                   "different names",
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`:                                "no stream",
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:                                    "[] <nil>",
		`{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{}}`:                       `"supportedVersions":["2026-07-28"]`,
		`{"jsonrpc":"2.0","id":"a\u0062","method":"tools/list","params":{"cursor":"of another"}}`: `"id":"a\u0062","result":{"resultType":"complete","tools":[{"name":"echo"`,
	} {
		got, err := send(t.Context(), p, &peer.Call{Server: s, Message: []byte(message)})
		if text := fmt.Sprint(got, err); !strings.Contains(text, want) {
			t.Errorf("%s: %s, want %s", message, text, want)
		}
	}
	s.Document = `{"openapi":"2"}`
	if _, err := send(t.Context(), p, modernCall(s, "echo", `{}`)); failureOf(t, err).Kind != peer.Unavailable {
		t.Errorf("a document that cannot be read: %v", err)
	}
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Modern || err != nil {
		t.Errorf("Era = %d, %v", era, err)
	}
	if _, _, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{}); err == nil {
		t.Error("a session with an API began")
	}
}

func TestCredentialThatAnAPIRefusesIsRenewed(t *testing.T) {
	for name, tt := range map[string]struct {
		status       int
		challenge    string
		token        string // that renewing returns
		err          error
		want         string
		asked, tried int32
	}{
		"token":              {401, `Bearer`, "Bearer new", nil, `"text":"{\"a\": 1}"`, 2, 1},
		"token is refused":   {401, `Bearer`, "Bearer other", nil, "refused the credential", 3, 2},
		"no other token":     {401, `Bearer`, "", nil, "refused the credential", 1, 1},
		"sign in again":      {401, `Bearer`, "", errors.New("sign in"), "refused the credential", 1, 1},
		"scope":              {403, `Basic, Bearer error="insufficient_scope", scope="w"`, "Bearer new", nil, `"text":"{\"a\": 1}"`, 2, 1},
		"not about a scope":  {403, `Bearer error="invalid_request"`, "Bearer new", nil, "HTTP 403", 1, 0},
		"without challenges": {403, ``, "Bearer new", nil, "HTTP 403", 1, 0},
	} {
		var asked, tried atomic.Int32
		s := mustAPI(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.Header.Get("Authorization") == "Bearer new" {
				io.Copy(w, r.Body)
				return
			}
			w.Header().Set("WWW-Authenticate", tt.challenge)
			w.WriteHeader(tt.status)
		})
		c := modernCall(s, "post", `{"body":{"a": 1}}`)
		c.Credential = peer.Credential{Header: http.Header{"Authorization": {"Bearer old"}}, Renew: func(_ context.Context, sent string, f *peer.Failure, n int) (string, error) {
			if tried.Add(1) == 1 && (sent != "Bearer old" || n != 0) || f.Status != tt.status || !strings.HasSuffix(f.Challenge, tt.challenge) {
				t.Errorf("%s: renewed %s after %+v", name, sent, f)
			}
			return tt.token, tt.err
		}}
		got, err := send(t.Context(), mustPeers(t, peer.Options{}), c)
		if text := fmt.Sprint(got, err); !strings.Contains(text, tt.want) || asked.Load() != tt.asked || tried.Load() != tt.tried {
			t.Errorf("%s: %s, want %s; asked %d times, renewed %d times", name, text, tt.want, asked.Load(), tried.Load())
		}
		if tt.err != nil && !errors.Is(err, tt.err) {
			t.Errorf("%s: the cause is lost: %v", name, err)
		}
	}
	s := mustAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		w.WriteHeader(403)
	})
	if got := mustSend(t, mustPeers(t, peer.Options{}), modernCall(s, "echo", `{}`)); !strings.Contains(got[0], "HTTP 403") {
		t.Errorf("a credential that cannot be renewed: %s", got)
	}
}

func TestDocumentsOfAPIsAreBoundedAndSharedOut(t *testing.T) {
	read := func(d peer.APIDocuments, organisation, id string) {
		s := mustServer(t, "https://api.example.com")
		s.ID, s.Organisation, s.Document = id, organisation, apiDocument
		d.Read(s)
	}
	one := peer.NewAPIDocuments(1 << 30)
	read(one, "a", "a")
	weight, _ := one.Weight()
	d := peer.NewAPIDocuments(5*weight + weight/2)
	read(d, "small", "first")
	for i := range 20 {
		read(d, "large", fmt.Sprint(i))
		read(d, "large", "0") // which is used again and again
		if counted, real := d.Weight(); counted != real || real > 5*weight+weight/2 {
			t.Fatalf("after %d documents they weigh %d, counted as %d", i, real, counted)
		}
	}
	if !d.Has("first") || !d.Has("0") || d.Has("16") || !d.Has("17") || !d.Has("18") || !d.Has("19") {
		t.Error("documents of the organisation with the most are not removed first, those before that were not used for longer")
	}
	read(peer.NewAPIDocuments(1), "a", "a") // one that is in use stays
}
