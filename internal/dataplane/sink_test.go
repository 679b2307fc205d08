package dataplane_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	reach "modelgate/internal/upstream"
)

// canaries are credentials that may be seen nowhere but at their provider.
var canaries = map[string]string{
	"gateway key":    gatewaytest.Key,
	"bearer":         "sk-canary-bearer-51",
	"environment":    "sk-canary-environment-52",
	"sealed":         "sk-canary-sealed-53",
	"config api_key": "sk-canary-config-54",
	"query":          "sk-canary-query-55",
	"broken config":  "sk-canary-broken-56",
	"custom host":    "sk-canary-host-57",
	"cookie":         "sk-canary-cookie-58",
	"wrong key":      "sk-canary-wrong-59",
}

func TestCredentialsAreSeenNowhere(t *testing.T) {
	t.Setenv("MODELGATE_CANARY", canaries["environment"])
	const master = "a master key for this test, long enough for any box"
	box, err := secret.NewBox(secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	handler, seen := asked(t)
	fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	})
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: fails, Data: data, MasterKey: master, Settings: "timeouts: {connect: 200ms}\nproviders:\n" +
		"  - {slug: env, provider: openai-compatible, custom_host: SIMULATOR, api_key: \"${MODELGATE_CANARY}\"}\n" +
		"  - {slug: sealed, provider: openai-compatible, custom_host: SIMULATOR, api_key: " + box.Seal(secret.New(canaries["sealed"])) + "}\n" +
		"  - {slug: dead, provider: openai-compatible, custom_host: \"http://127.0.0.1:1/v1\", api_key: \"${MODELGATE_CANARY}\"}\n"})
	bearer, wrong := "Bearer "+canaries["bearer"], "Bearer "+canaries["wrong key"]
	inline := fmt.Sprintf(`{"provider":"openai","api_key":%q,"custom_host":%q}`, canaries["config api_key"], g.Upstream)
	var all bytes.Buffer
	for i, tt := range []struct {
		path   string
		status int
		at     string // the credential that the provider gets, empty when it is not reached
		header []string
	}{
		{"/chat/completions", 200, "environment", []string{"x-gateway-provider", "@env"}},
		{"/chat/completions", 200, "sealed", []string{"x-gateway-provider", "@sealed"}},
		{"/chat/completions", 200, "bearer", []string{"x-gateway-provider", "openai", "x-gateway-custom-host", g.Upstream, "authorization", bearer}},
		{"/chat/completions", 200, "config api_key", []string{"x-gateway-provider", "", "x-gateway-config", inline}},
		{"/any/path?key=" + canaries["query"], 200, "environment", []string{"x-gateway-provider", "@env", "cookie", "c=" + canaries["cookie"]}},
		// from here on something goes wrong
		{"/chat/completions", 502, "", []string{"x-gateway-provider", "@env", "x-fail", "1", "x-gateway-forward-headers", "x-fail"}},
		{"/any/path?key=" + canaries["query"], 502, "", []string{"x-gateway-provider", "@sealed", "x-fail", "1"}},
		{"/chat/completions?key=" + canaries["query"], 502, "", []string{"x-gateway-provider", "@dead"}},
		{"/chat/completions", 502, "", []string{"x-gateway-provider", "openai", "x-gateway-custom-host", "http://127.0.0.1:1/v1", "authorization", bearer}},
		{"/chat/completions", 400, "", []string{"x-gateway-config", inline[:len(inline)-3]}},
		{"/chat/completions", 400, "", []string{"x-gateway-config", fmt.Sprintf(`{"provider":"openai","api_key":[%q]}`, canaries["broken config"])}},
		{"/chat/completions", 400, "", []string{"x-gateway-config", fmt.Sprintf(`{"provider":"openai","apikey":%q,"retry":{"attempts":%[1]q}}`, canaries["broken config"])}},
		{"/chat/completions", 400, "", []string{"x-gateway-config", fmt.Sprintf(`{"api_key":%q,"custom_host":"http://u:%s@10.0.0.1/?k=%[2]s","provider":"openai"}`, canaries["config api_key"], canaries["custom host"])}},
		{"/chat/completions", 400, "", []string{"x-gateway-provider", "openai", "x-gateway-custom-host", "https://u:" + canaries["custom host"] + "@example.com/v1", "authorization", bearer}},
		{"/chat/completions", 400, "", []string{"x-gateway-provider", "openai", "x-gateway-custom-host", "https://example.com/v1?k=" + canaries["custom host"], "authorization", bearer}},
		{"/chat/completions", 400, "", []string{"x-gateway-provider", "openai", "x-gateway-custom-host", "https://exa%" + canaries["custom host"], "authorization", bearer}},
		{"/chat/completions", 401, "", []string{"x-gateway-api-key", "", "authorization", wrong}},
		{"/chat/completions", 401, "", []string{"x-gateway-api-key", canaries["wrong key"]}},
		{"/chat/completions", 400, "", []string{"x-gateway-provider", "openai", "authorization", "Bearer " + gatewaytest.Key}},
		{"/chat/completions", 400, "", []string{"x-gateway-forward-headers", "x-api-key", "x-api-key", gatewaytest.Key}},
		{"/chat/completions", 404, "", []string{"x-gateway-provider", "@nobody", "authorization", bearer}},
		{"/chat/completions", 400, "", []string{"x-gateway-provider", "nobody", "authorization", bearer}},
	} {
		res := g.Post(tt.path, plainChat, tt.header...)
		if res.Status != tt.status {
			t.Errorf("request %d: status %d, want %d: %s", i, res.Status, tt.status, res.Body)
		}
		fmt.Fprintf(&all, "%d %v %s\n", res.Status, res.Header, res.Body)
		if tt.at != "" {
			if got, want := receive(t, seen, "the request at the provider").Get("Authorization"), "Bearer "+canaries[tt.at]; got != want {
				t.Errorf("request %d: the provider got Authorization %q, want %q", i, got, want)
			}
		}
	}
	g.Server.Reload(t.Context())
	g.WriteSettings("providers: [{slug: env, provider: openai, api_key: " + canaries["environment"] + "}]\n")
	g.Server.Reload(t.Context())

	sinks := map[string]string{"answers": all.String(), "log lines": g.Log.String()}
	sinks["GET /v1/logs"] = string(g.Get("/logs?limit=100").Body)
	res, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	figures, _ := io.ReadAll(res.Body)
	sinks["/metrics"] = string(figures)
	g.Stop()
	sinks["options"] = fmt.Sprintf("%+v %#v", g.Server.Options, g.Server.Options)
	files, _ := filepath.Glob(filepath.Join(data, "*.db*"))
	if len(files) < 2 {
		t.Fatalf("no database files in %s", data)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sinks[filepath.Base(f)] = string(b)
	}
	for name, text := range sinks {
		for kind, canary := range canaries {
			if i := strings.Index(text, canary); i >= 0 {
				t.Errorf("%s hold the %s: …%s…", name, kind, text[max(0, i-200):i])
			}
		}
	}
	if !strings.Contains(sinks["GET /v1/logs"], "/any/path") || !strings.Contains(sinks["/metrics"], "modelgate_requests_total") {
		t.Error("the sinks hold nothing: the search proves nothing")
	}
}

// handlerOnly is a plane without a server around it, for rows that no table has.
func handlerOnly(t *testing.T, spec *provider.Spec, log io.Writer, entries chan<- *reqlog.Entry) http.Handler {
	t.Helper()
	snap, err := snapshot.Build(snapshot.Input{Specs: []*provider.Spec{spec},
		Keys: []*access.Identity{{KeyID: "k", Hash: access.HashKey(gatewaytest.Key), Scopes: []access.Scope{access.ScopeAll}}}})
	if err != nil {
		t.Fatal(err)
	}
	holder := new(snapshot.Holder)
	holder.Publish(snap)
	return dataplane.New(dataplane.Options{
		Snapshot: holder,
		Engine:   &attempt.Engine{Client: reach.New(reach.Options{}), Bounds: exchange.Bounds{Pool: newPool(), MaxEvent: 1 << 20, MaxDecoded: 1 << 20}},
		Recorder: recorderFunc(func(e *reqlog.Entry) { entries <- e }),
		Logger:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
}

type recorderFunc func(e *reqlog.Entry)

func (f recorderFunc) Record(_ context.Context, e *reqlog.Entry) { f(e) }

func TestAPanicShowsNoCredential(t *testing.T) {
	t.Parallel()
	spec := &provider.Spec{ID: "faulty", BaseURL: "https://example.com/v1", Auth: provider.Bearer(),
		Paths: map[api.Operation]string{api.Chat: "/chat"},
		URL: func(target *provider.Target, _ *provider.Call, _ *url.URL) error {
			panic("a row is broken: " + target.Key.Reveal())
		}}
	log, entries := new(gatewaytest.Buffer), make(chan *reqlog.Entry, 1)
	srv := httptest.NewServer(handlerOnly(t, spec, log, entries))
	defer srv.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/v1/chat/completions", strings.NewReader(plainChat))
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-provider", "faulty")
	req.Header.Set("Authorization", "Bearer "+canaries["bearer"])
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	e := receive(t, entries, "the entry")
	if res.StatusCode != 500 || errorOf(t, string(body))["code"] != "internal_error" || e.Status != 500 || e.ErrorCode != "internal_error" {
		t.Errorf("answer %d %s, recorded %d %s; want 500 internal_error", res.StatusCode, body, e.Status, e.ErrorCode)
	}
	if !strings.Contains(log.String(), "panic while serving") || !strings.Contains(log.String(), "sink_test.go") {
		t.Errorf("the log does not say where the panic was: %s", log)
	}
	for name, text := range map[string]string{"log": log.String(), "body": string(body), "entry": fmt.Sprintf("%+v", *e)} {
		for kind, canary := range canaries {
			if strings.Contains(text, canary) {
				t.Errorf("the %s holds the %s:\n%s", name, kind, text)
			}
		}
	}
}
