package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/records/logstore"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const storeTimeout = time.Minute

const chat = `{"model":"sim-1","messages":[{"role":"user","content":"hi"}]}`

// status asks for a URL and returns the status, 0 when nothing answers.
func status(url string) int {
	res, err := http.Get(url)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// stream is a provider whose stream goes on until the test ends it.
type stream struct {
	begun chan struct{}
	end   chan struct{}
}

func newStream() *stream { return &stream{make(chan struct{}, 8), make(chan struct{})} }

const event = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
const last = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"data":[]}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, event)
	http.NewResponseController(w).Flush()
	s.begun <- struct{}{}
	select {
	case <-s.end:
		io.WriteString(w, last)
	case <-r.Context().Done():
	}
}

// open begins a stream through g and returns a reader that has had its first event.
func open(t *testing.T, g *gatewaytest.Gateway) (*http.Response, *bufio.Reader) {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", strings.Replace(chat, `"model"`, `"stream":true,"model"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	r := bufio.NewReader(res.Body)
	first := make([]byte, len(event))
	if _, err := io.ReadFull(r, first); err != nil || string(first) != event {
		t.Fatalf("the first event = %q, %v", first, err)
	}
	return res, r
}

func TestADrainSaysSoThenServesOnThenEnds(t *testing.T) {
	t.Parallel()
	up := newStream()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up, Settings: "drain: {min: 10s, max: 60s}\n"})
	_, r := open(t, g)
	if got := status(g.Root + "/ready"); got != 200 {
		t.Fatalf("before the drain /ready = %d, want 200", got)
	}
	g.Drain()
	waittest.Until(t, "/ready says 503", func() bool { return status(g.Root+"/ready") == 503 })
	if got := status(g.AdminURL + "/ready"); got != 503 {
		t.Errorf("in the drain /ready of the admin listener = %d, want 503", got)
	}
	if got := status(g.Root + "/health"); got != 200 {
		t.Errorf("in the drain /health = %d, want 200", got)
	}
	res, err := http.DefaultTransport.RoundTrip(g.Request("GET", "/models", ""))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 || !res.Close {
		t.Errorf("a request in the first phase: status %d, connection closed %t; want 200, true", res.StatusCode, res.Close)
	}
	waittest.Until(t, "connections are refused", func() bool { return status(g.Root+"/health") == 0 })
	close(up.end)
	rest, err := io.ReadAll(r)
	if string(rest) != last || err != nil {
		t.Errorf("the stream that was open ended in %q, %v; want its own end", rest, err)
	}
	g.Stop()
}

func TestAStreamThatOutlastsTheDrainEndsInAnError(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(g *gatewaytest.Gateway){
		"by the end of the drain": func(g *gatewaytest.Gateway) { g.Drain() },
		"by a second signal":      func(g *gatewaytest.Gateway) { g.Drain(); g.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			limit := "300ms"
			if strings.Contains(name, "second") {
				limit = "1h"
			}
			data := t.TempDir()
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: newStream(), Data: data, Settings: "drain: {min: 0s, max: " + limit + "}\n"})
			res, r := open(t, g)
			end(g)
			rest, err := io.ReadAll(r)
			if err != nil || !strings.Contains(string(rest), `"code":"shutting_down"`) || strings.Contains(string(rest), "[DONE]") {
				t.Errorf("the stream ended in %q, %v; want the error shutting_down", rest, err)
			}
			g.Stop()
			recorded(t, data, res.Header.Get("x-gateway-request-id"), "shutting_down")
		})
	}
}

// recorded reads the log of a gateway that has stopped.
func recorded(t *testing.T, data, id, code string) {
	t.Helper()
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(data, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close(context.Background())
	page, err := logs.List(t.Context(), logstore.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.ID.String() == id {
			if e.ErrorCode != code {
				t.Errorf("recorded code = %q, want %q", e.ErrorCode, code)
			}
			return
		}
	}
	t.Errorf("the exchange %s was not recorded", id)
}

// A client that reads nothing must not keep its exchange out of the log.
func TestAStuckClientIsRecordedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var sent atomic.Int64 // events
	flood := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		big := strings.Replace(event, `"a"`, `"`+strings.Repeat("a", 64<<10)+`"`, 1)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, big); err != nil {
				return
			}
			sent.Add(1)
		}
	})
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: flood, Data: data, Settings: "drain: {max: 100ms}\n"})
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := g.Request("POST", "/chat/completions", strings.Replace(chat, `"model"`, `"stream":true,"model"`, 1))
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatal(err)
	}
	// The client is stuck once every buffer on the way to it is full.
	for last := int64(-1); sent.Load() != last; {
		last = sent.Load()
		time.Sleep(time.Second)
	}
	g.Drain()
	g.Stop()
	recorded(t, data, res.Header.Get("x-gateway-request-id"), "client_closed_request")
}

func TestTheFirstKeyIsMadeWhenNothingCanFailAnyMore(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	data := t.TempDir()
	config := filepath.Join(data, "modelgate.yaml")
	bad := "providers: [{slug: a, provider: no-such-provider}]\n"
	if err := os.WriteFile(config, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]server.Options{
		"a taken port":       {Data: data, Listen: taken.Addr().String()},
		"a taken admin port": {Data: data, Listen: "127.0.0.1:0", AdminListen: taken.Addr().String()},
		"broken settings":    {Data: data, Listen: "127.0.0.1:0", Config: config},
	} {
		if s, err := server.New(t.Context(), o); err == nil {
			s.Close()
			t.Fatalf("%s: New succeeded", name)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has more than one line: %v", name, err)
		}
	}
	s, err := server.New(t.Context(), server.Options{Data: data, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.FirstKey().Empty() {
		t.Error("a start after starts that did not succeed shows no key: nobody could ever log in")
	}
}

func TestAStartThatCannotSucceedSaysWhyInOneLine(t *testing.T) {
	t.Parallel()
	write := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	write(filepath.Join(dir, "corrupt", "modelgate.db"), strings.Repeat("this is not a database. ", 500))
	write(filepath.Join(dir, "corruptlog", "logs.db"), strings.Repeat("this is not a database. ", 500))
	for _, tt := range []struct {
		name, want string
		o          server.Options
	}{
		{"taken port", taken.Addr().String(), server.Options{Listen: taken.Addr().String()}},
		{"no port", "nonsense", server.Options{Listen: "nonsense"}},
		{"data folder is a file", "afile", server.Options{Data: write(filepath.Join(dir, "afile"), "x")}},
		{"data folder below a file", "afile", server.Options{Data: filepath.Join(dir, "afile", "data")}},
		{"corrupt database", "modelgate.db", server.Options{Data: filepath.Join(dir, "corrupt")}},
		{"corrupt log", "logs.db", server.Options{Data: filepath.Join(dir, "corruptlog")}},
		{"no settings file", "absent.yaml", server.Options{Config: filepath.Join(dir, "absent.yaml")}},
		{"unknown setting", "a.yaml:2:1", server.Options{Config: write(filepath.Join(dir, "a.yaml"), "version: 1\nprovders: []\n")}},
		{"wrong value", "b.yaml:2", server.Options{Config: write(filepath.Join(dir, "b.yaml"), "timeouts:\n  idle: soon\n")}},
		{"plain credential", "c.yaml:3", server.Options{Config: write(filepath.Join(dir, "c.yaml"), "providers:\n  - {slug: a, provider: openai,\n     api_key: sk-canary}\n")}},
		{"unset variable", "MODELGATE_TEST_UNSET", server.Options{Config: write(filepath.Join(dir, "d.yaml"), "providers: [{slug: a, provider: openai, api_key: \"${MODELGATE_TEST_UNSET}\"}]\n")}},
		{"unknown provider", "nobody", server.Options{Config: write(filepath.Join(dir, "e.yaml"), "providers: [{slug: a, provider: nobody}]\n")}},
		{"sealed without a master key", "MODELGATE_MASTER_KEY", server.Options{Config: write(filepath.Join(dir, "f.yaml"), "providers: [{slug: a, provider: openai, api_key: "+sealValue(t, "k", "x")+"}]\n")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.Data == "" {
				tt.o.Data = t.TempDir()
			}
			if tt.o.Listen == "" {
				tt.o.Listen = "127.0.0.1:0"
			}
			s, err := server.New(t.Context(), tt.o)
			if err == nil {
				s.Close()
				t.Fatal("New succeeded")
			}
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, tt.want) || strings.Contains(text, "canary") {
				t.Errorf("New() = %q; want one line with %q and no credential", text, tt.want)
			}
		})
	}
}

func sealValue(t *testing.T, master, key string) string {
	t.Helper()
	box, err := secret.NewBox(secret.New(strings.Repeat(master, 40)))
	if err != nil {
		t.Fatal(err)
	}
	return box.Seal(secret.New(key))
}

func TestTwoGatewaysShareADataFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	a := gatewaytest.New(t, gatewaytest.Options{Data: data})
	b := gatewaytest.New(t, gatewaytest.Options{Data: data})
	const each = 50
	for range each {
		for _, g := range []*gatewaytest.Gateway{a, b} {
			if res := g.Post("/chat/completions", chat); res.Status != 200 {
				t.Fatalf("status %d: %s", res.Status, res.Body)
			}
		}
	}
	a.Stop()
	b.Stop()
	logs, err := logstore.Open(t.Context(), logstore.Options{Path: filepath.Join(data, "logs.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close(context.Background())
	n := 0
	for q := (logstore.Query{Limit: 30}); ; {
		page, err := logs.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(page.Entries); page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	if n != 2*each {
		t.Errorf("%d entries recorded by two gateways, want %d", n, 2*each)
	}
}

func TestKeyMadeByAnotherProcessCounts(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data})
	db, err := store.Open(t.Context(), "file:"+filepath.Join(data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, made, err := server.CreateKey(t.Context(), db, store.Key{Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() int {
		return g.Post("/chat/completions", chat, "x-gateway-api-key", key.Reveal()).Status
	}
	waittest.Until(t, "the new key is taken", func() bool { return ask() == 200 })
	if err := db.RevokeKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the revoked key is refused", func() bool { return ask() == 401 })
}

func TestSettingsAreReloadedOrStay(t *testing.T) {
	t.Parallel()
	const first = "providers: [{slug: one, provider: openai-compatible, custom_host: SIMULATOR, models: [m]}]\n"
	g := gatewaytest.New(t, gatewaytest.Options{Settings: first})
	models := func() string { return string(g.Get("/models", "x-gateway-provider", "").Body) }
	ok := func() string {
		res, err := http.Get(g.AdminURL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		for line := range strings.Lines(string(b)) {
			if value, found := strings.CutPrefix(line, "modelgate_settings_ok "); found {
				return strings.TrimSpace(value)
			}
		}
		return "absent"
	}
	if !strings.Contains(models(), `"@one/m"`) || ok() != "1" {
		t.Fatalf("at the start: settings_ok %s, models %s", ok(), models())
	}
	g.WriteSettings(strings.ReplaceAll(first, "one", "two"))
	waittest.Until(t, "the new provider is there", func() bool { return strings.Contains(models(), `"@two/m"`) })
	if strings.Contains(models(), `"@one/m"`) {
		t.Error("the provider that left the file is still there")
	}
	g.WriteSettings("providers: [{slug: three, provider: nobody}]\n")
	waittest.Until(t, "the gauge falls", func() bool { return ok() == "0" })
	if !strings.Contains(models(), `"@two/m"`) {
		t.Errorf("a broken file changed what is served: %s", models())
	}
	g.WriteSettings(first)
	if err := g.Server.Reload(t.Context()); err != nil { // as SIGHUP does
		t.Fatal(err)
	}
	if !strings.Contains(models(), `"@one/m"`) || ok() != "1" {
		t.Errorf("after the repair: settings_ok %s, models %s", ok(), models())
	}
}

func TestOptionsPrintNoCredential(t *testing.T) {
	t.Parallel()
	o := server.Options{BootstrapKey: secret.New("canary-1"), MasterKey: secret.New("canary-2"), Logger: slog.New(slog.DiscardHandler)}
	for _, format := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(format, o); strings.Contains(text, "canary") {
			t.Errorf("%s prints a credential: %s", format, text)
		}
	}
}
