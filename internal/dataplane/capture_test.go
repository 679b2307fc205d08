package dataplane_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/redact"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	reach "modelgate/internal/upstream"
)

// recordingGateway is a gateway of which a test sees what it keeps of exchanges.
type recordingGateway struct {
	t       *testing.T
	url     string
	entries chan *reqlog.Entry
}

// newRecordingGateway starts a gateway before a provider. The key is the installation's, or
// says by itself what is kept.
func newRecordingGateway(t *testing.T, logs snapshot.LogPolicy, own access.Logging, provides http.HandlerFunc) *recordingGateway {
	t.Helper()
	up := httptest.NewServer(provides)
	t.Cleanup(up.Close)
	snap, err := snapshot.Build(snapshot.Input{
		Specs: table.All(), Logs: logs, HeaderPrefixes: []string{"X-Mirror-"},
		Keys: []*access.Identity{{KeyID: "k", Hash: access.HashKey(gatewaytest.Key), Scopes: []access.Scope{access.ScopeAll}, Workspace: "w",
			Metadata: map[string]string{"team": "of the key"}, Logging: own}},
		Providers: []snapshot.ManagedProvider{{Workspace: "w", Slug: "up", Provider: "openai-compatible",
			Settings: provider.Settings{Key: secret.New("sk-provider"), CustomHost: up.URL + "/v1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	holder := new(snapshot.Holder)
	holder.Publish(snap)
	k := &recordingGateway{t: t, entries: make(chan *reqlog.Entry, 8)}
	srv := httptest.NewServer(dataplane.New(dataplane.Options{
		Snapshot: holder,
		Engine:   &attempt.Engine{Client: reach.New(reach.Options{TrustLoopback: true}), Bounds: exchange.Bounds{Pool: newPool(), MaxEvent: 1 << 20, MaxDecoded: 1 << 20}},
		Recorder: recorderFunc(func(e *reqlog.Entry) { k.entries <- e }),
		Logger:   slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(srv.Close)
	k.url = srv.URL
	return k
}

// ask sends a request for the provider and returns its response and its entry.
func (k *recordingGateway) ask(method, path string, body io.Reader, h ...string) (string, *reqlog.Entry) {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, body)
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-provider", "@up")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return string(text), receive(k.t, k.entries, "the entry")
}

// respondWith answers everything with a body of a type.
func respondWith(media, body string, h ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", media)
		for i := 0; i < len(h); i += 2 {
			w.Header().Set(h[i], h[i+1])
		}
		io.WriteString(w, body)
	}
}

var full = snapshot.LogPolicy{Level: access.LogFull}

func wholeBody(media, text string) reqlog.Body {
	return reqlog.Body{Type: media, Data: []byte(text), Size: int64(len(text))}
}

func unreadBody(media string, size int) reqlog.Body {
	return reqlog.Body{Type: media, Size: int64(size), Cut: true}
}

func TestBodiesAreKeptAsTheClientKnowsThem(t *testing.T) {
	t.Parallel()
	stream := chunk("he") + chunk("llo") + finish + done
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, `{"a":1}`)
	z.Close()
	for _, tt := range []struct {
		name              string
		provides          http.HandlerFunc
		method, path      string
		body              string
		header            []string
		request, response reqlog.Body // an empty type of a response with data takes what was sent
	}{
		{name: "a response", provides: respondWith("application/json", chatBody), method: "POST", path: "/v1/chat/completions", body: plainChat,
			request: wholeBody("application/json", plainChat), response: wholeBody("application/json", chatBody)},
		{name: "a stream", provides: respondWith("text/event-stream", stream), method: "POST", path: "/v1/chat/completions", body: streamChat,
			request: wholeBody("application/json", streamChat), response: wholeBody("text/event-stream", stream)},
		{name: "a pass-through", provides: respondWith("text/plain; charset=utf-8", "any"), method: "PUT", path: "/v1/any/thing", body: "x y",
			header: []string{"content-type", "text/csv"}, request: wholeBody("text/csv", "x y"), response: wholeBody("text/plain", "any")},
		{name: "a refusal of the provider", provides: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 400) }, method: "POST", path: "/v1/any", body: "{}",
			request: wholeBody("application/json", "{}"), response: wholeBody("text/plain", "no\n")},
		{name: "a refusal of the gateway", provides: respondWith("text/plain", ""), method: "POST", path: "/v1/chat/completions", body: `{"model":1}`,
			request: wholeBody("application/json", `{"model":1}`)},
		{name: "no body", provides: respondWith("application/json", "{}"), method: "GET", path: "/v1/files",
			request: reqlog.Body{Type: "application/json"}, response: wholeBody("application/json", "{}")},
		{name: "an upload with files", provides: respondWith("application/json", "{}"), method: "POST", path: "/v1/files", body: "--b\r\n\r\nsecret\r\n--b--",
			header: []string{"content-type", "multipart/form-data; boundary=b"}, request: unreadBody("multipart/form-data", 20), response: wholeBody("application/json", "{}")},
		{name: "sound", provides: respondWith("audio/mpeg", "\xff\xfbdata"), method: "GET", path: "/v1/sound", request: reqlog.Body{Type: "application/json"}, response: unreadBody("audio/mpeg", 6)},
		{name: "what is compressed", provides: respondWith("application/json", zipped.String(), "Content-Encoding", "gzip"), method: "GET", path: "/v1/zip",
			header: []string{"accept-encoding", "gzip"}, request: reqlog.Body{Type: "application/json"}, response: unreadBody("application/json", zipped.Len())},
		{name: "a dry run, which may hold credentials", provides: respondWith("text/plain", ""), method: "POST", path: "/v1/explain",
			body: `{"request":{"headers":{"authorization":"Bearer x"}}}`, request: unreadBody("application/json", 52)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newRecordingGateway(t, full, access.Logging{}, tt.provides)
			got, e := k.ask(tt.method, tt.path, strings.NewReader(tt.body), tt.header...)
			if tt.response.Type == "" {
				tt.response = wholeBody("application/json", got)
			}
			if e.Level != reqlog.LevelFull {
				t.Errorf("level %v", e.Level)
			}
			if diff := cmp.Diff(&reqlog.Bodies{Request: tt.request, Response: tt.response}, e.Bodies); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestWithoutAValidKeyIsCutShort(t *testing.T) {
	t.Parallel()
	k := newRecordingGateway(t, full, access.Logging{Organisation: access.LogNone}, respondWith("text/plain", ""))
	_, e := k.ask("POST", "/v1/"+strings.Repeat("a", 8000), strings.NewReader(plainChat), "x-gateway-api-key", "mg-unknown",
		"x-gateway-metadata", `{"a":"b"}`, "baggage", "c=d", "x-gateway-trace-id", "t1", "user-agent", strings.Repeat("u", 8000))
	if e.Status != 401 || e.Level != reqlog.LevelMetadata || e.Bodies != nil || e.Metadata != nil || e.TraceID == "t1" {
		t.Errorf("status %d, level %v, bodies %v, metadata %v, trace %s; want a 401 without any of them", e.Status, e.Level, e.Bodies, e.Metadata, e.TraceID)
	}
	if len(e.Path) > reqlog.KeylessPath+3 || len(e.UserAgent) > reqlog.KeylessUserAgent+3 || e.ErrorCode != "invalid_api_key" {
		t.Errorf("path of %d bytes, user agent of %d, code %s", len(e.Path), len(e.UserAgent), e.ErrorCode)
	}
}

func TestBodiesAreCutAtTheSizeOfTheSettings(t *testing.T) {
	t.Parallel()
	long := `{"model":"m","choices":[{"index":0,"text":"a response too"}],"messages":[{"role":"user","content":"` + strings.Repeat("a", 9000) + `"}]}`
	for _, size := range []int{1, 4096, 5000, len(long) - 1, len(long), len(long) + 1} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			k := newRecordingGateway(t, snapshot.LogPolicy{Level: access.LogFull, BodySize: size}, access.Logging{}, respondWith("application/json", long))
			for _, path := range []string{"/v1/chat/completions", "/v1/any"} {
				header := []string{"x-a", "b"}
				if path == "/v1/any" {
					header = []string{"content-type", "text/plain"} // which streams through
				}
				_, e := k.ask("POST", path, strings.NewReader(long), header...)
				for name, b := range map[string]reqlog.Body{"request": e.Bodies.Request, "response": e.Bodies.Response} {
					if want := long[:min(size, len(long))]; string(b.Data) != want || b.Size != int64(len(long)) || b.Cut != (size < len(long)) {
						t.Errorf("%s of %s: %d bytes of %d, cut %t", name, path, len(b.Data), b.Size, b.Cut)
					}
				}
			}
		})
	}
	k := newRecordingGateway(t, full, access.Logging{}, respondWith("text/plain", strings.Repeat("b", 1<<20)))
	if _, e := k.ask("GET", "/v1/any", nil); len(e.Bodies.Response.Data) != 128<<10 || !e.Bodies.Response.Cut || e.Bodies.Response.Size != 1<<20 {
		t.Errorf("without a setting: %d bytes of %d", len(e.Bodies.Response.Data), e.Bodies.Response.Size)
	}
}

func TestPartialResponsesOfBrokenStreamsAreCaptured(t *testing.T) {
	t.Parallel()
	k := newRecordingGateway(t, full, access.Logging{}, func(w http.ResponseWriter, r *http.Request) {
		respondWith("text/event-stream", chunk("he"))(w, r)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	got, e := k.ask("POST", "/v1/chat/completions", strings.NewReader(streamChat))
	if b := e.Bodies.Response; string(b.Data) != got || !strings.HasPrefix(got, chunk("he")) || !strings.Contains(got, "error") || b.Cut {
		t.Errorf("sent %q, kept %q", got, b.Data)
	}
	if got, e = k.ask("POST", "/v1/any", strings.NewReader("{}")); string(e.Bodies.Response.Data) != chunk("he") || got != chunk("he") {
		t.Errorf("passed through %q, kept %q", got, e.Bodies.Response.Data)
	}
}

func TestPartialResponsesToClientsThatLeftAreCaptured(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	k := newRecordingGateway(t, full, access.Logging{}, func(w http.ResponseWriter, r *http.Request) {
		respondWith("text/event-stream", chunk("he"))(w, r)
		http.NewResponseController(w).Flush()
		<-gone
	})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", k.url+"/v1/chat/completions", strings.NewReader(streamChat))
	req.Header = http.Header{"X-Gateway-Api-Key": {gatewaytest.Key}, "X-Gateway-Provider": {"@up"}, "Content-Type": {"application/json"}}
	res, r := open(t, req)
	event(t, r)
	res.Body.Close()
	e := receive(t, k.entries, "the entry")
	close(gone)
	if string(e.Bodies.Response.Data) != chunk("he") || e.Status != 499 || string(e.Bodies.Request.Data) != streamChat {
		t.Errorf("status %d, kept %q", e.Status, e.Bodies.Response.Data)
	}
}

func TestARequestMayLowerItsLevelAndNotRaiseIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own    access.LogLevel
		header []string
		want   reqlog.RecordLevel
	}{
		{access.LogFull, nil, reqlog.LevelFull},
		{access.LogFull, []string{"x-gateway-debug", "true"}, reqlog.LevelFull},
		{access.LogFull, []string{"x-gateway-debug", "false"}, reqlog.LevelMetadata},
		{access.LogFull, []string{"x-mirror-debug", "FALSE"}, reqlog.LevelMetadata},
		{access.LogMetadata, []string{"x-gateway-debug", "true"}, reqlog.LevelMetadata},
		{access.LogNone, []string{"x-gateway-debug", "true"}, reqlog.LevelNone},
		{access.LogNone, []string{"x-gateway-debug", "false"}, reqlog.LevelNone},
	} {
		k := newRecordingGateway(t, snapshot.LogPolicy{}, access.Logging{Organisation: tt.own}, respondWith("application/json", chatBody))
		_, e := k.ask("POST", "/v1/chat/completions", strings.NewReader(plainChat), tt.header...)
		if e.Level != tt.want || (e.Bodies != nil) != (tt.want == reqlog.LevelFull) || e.Status != 200 {
			t.Errorf("level %v with %v: recorded %v, bodies %v, status %d", tt.own, tt.header, e.Level, e.Bodies != nil, e.Status)
		}
	}
	k := newRecordingGateway(t, full, access.Logging{}, respondWith("application/json", chatBody))
	for _, name := range []string{"x-gateway-debug", "x-mirror-debug"} {
		got, e := k.ask("POST", "/v1/chat/completions", strings.NewReader(plainChat), name, "0")
		if e.Status != 400 || errorOf(t, got)["param"] != "x-gateway-debug" {
			t.Errorf("%s: 0 is answered %d %s", name, e.Status, got)
		}
	}
}

func TestTheLevelNoneKeepsNoTextOfTheClient(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	refuses := respondWith("application/json", `{"error":{"message":"canary"}}`)
	k := newRecordingGateway(t, snapshot.LogPolicy{Level: access.LogNone}, access.Logging{}, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "any") {
			w.WriteHeader(400)
			refuses(w, r)
			return
		}
		respondWith("application/json", chatBody)(w, r)
	})
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/v1/chat/completions", "/v1/chat/completions"},
		{"POST", "/v1/any/canary", "/v1/…"},
		{"POST", "/v1beta/models/canary:generateContent", "/v1beta/…"},
		{"CANARY", "/v1/canary", "/v1/…"},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"canary"}],"user":"canary","canary":1}`
		_, e := k.ask(tt.method, tt.path, strings.NewReader(body), "x-gateway-metadata", `{"canary":"canary"}`, "user-agent", canary,
			"x-gateway-span-name", canary, "x-gateway-trace-id", "t-1", "x-gateway-span-id", "s-1")
		e.Model = "" // which the ledger needs
		if text := strings.ToLower(fmt.Sprintf("%+v", *e)); strings.Contains(text, canary) {
			t.Errorf("%s %s: %s", tt.method, tt.path, text)
		}
		if e.Path != tt.want || e.TraceID != "t-1" || e.SpanID != "s-1" || e.Level != reqlog.LevelNone || e.Bodies != nil || e.Metadata["team"] != "of the key" {
			t.Errorf("%s %s: recorded %+v", tt.method, tt.path, *e)
		}
		if tt.path == "/v1/chat/completions" && (e.Usage.Total() != 5 || e.Finish != "stop" || e.Status != 200 || e.Attempts[0].Provider == "") {
			t.Errorf("the figures are %+v", *e)
		}
	}
}

func TestCapturedBodiesAreRedactedAndSentOnesAreNot(t *testing.T) {
	t.Parallel()
	rules, err := redact.New(redact.Rules{Patterns: []string{"email"}, Fields: []string{"user"}})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 1)
	k := newRecordingGateway(t, snapshot.LogPolicy{Level: access.LogFull, Redact: rules}, access.Logging{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked <- string(b)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		io.WriteString(w, `{"error":{"message":"who is a@b.org?"}}`)
	})
	got, e := k.ask("POST", "/v1/chat/completions", strings.NewReader(`{"model":"m","user":"u","messages":[{"role":"user","content":"I am a@b.org"}]}`),
		"x-gateway-metadata", `{"mail":"a@b.org"}`)
	if !strings.Contains(receive(t, asked, "the request at the provider"), "a@b.org") || !strings.Contains(got, "a@b.org") {
		t.Errorf("the client was answered %s", got)
	}
	if want := `{"model":"m","user":"[redacted:field]","messages":[{"role":"user","content":"I am [redacted:email]"}]}`; string(e.Bodies.Request.Data) != want {
		t.Errorf("kept of the request: %s", e.Bodies.Request.Data)
	}
	if strings.Contains(string(e.Bodies.Response.Data)+e.ErrorMessage+e.Attempts[0].Error, "a@b.org") || !strings.Contains(string(e.Bodies.Response.Data), "[redacted:email]") {
		t.Errorf("kept of the response: %s, %+v", e.Bodies.Response.Data, *e)
	}
	if e.Metadata["mail"] != "a@b.org" {
		t.Errorf("metadata %v", e.Metadata)
	}
	if e.Bodies.Request.Cut || e.Bodies.Response.Cut || e.Bodies.Response.Size != int64(len(got)) {
		t.Errorf("sizes %+v", e.Bodies)
	}
}

func TestErrorsOfAttemptsAreRedacted(t *testing.T) {
	t.Parallel()
	rules, err := redact.New(redact.Rules{Patterns: []string{"email"}})
	if err != nil {
		t.Fatal(err)
	}
	k := newRecordingGateway(t, snapshot.LogPolicy{Redact: rules}, access.Logging{}, respondWith("text/event-stream", `data: {"error":{"message":"who is a@b.org?"}}`+"\n\n"))
	_, e := k.ask("POST", "/v1/chat/completions", strings.NewReader(streamChat))
	const want = "who is [redacted:email]?"
	if got := e.Attempts[0].Error; !strings.Contains(got, want) || !strings.Contains(e.ErrorMessage, want) {
		t.Errorf("the attempt says %q, the entry %q; want both with %q", got, e.ErrorMessage, want)
	}
}
