package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// loggedEntry is the part of an entry that says what was kept.
type loggedEntry struct {
	Logging           string
	UserAgent         *string `json:"user_agent"`
	Request, Response *struct {
		ContentType string `json:"content_type"`
		Body        *string
		Size        int
		Truncated   bool
	}
}

func keptOf(t *testing.T, g *gatewaytest.Gateway, h ...string) (res gatewaytest.Response, e loggedEntry) {
	t.Helper()
	res = g.Post("/chat/completions", chat, h...)
	if res.Status != 200 {
		t.Fatalf("asking: %d %s", res.Status, res.Body)
	}
	var got gatewaytest.Response
	waittest.Until(t, "the exchange is in the log", func() bool {
		got = g.Get("/logs/" + res.Header.Get("x-gateway-request-id"))
		return got.Status == 200
	})
	if err := json.Unmarshal(got.Body, &e); err != nil {
		t.Fatalf("the entry: %s: %v", got.Body, err)
	}
	return res, e
}

func mustDo(t *testing.T, g *gatewaytest.Gateway, method, path, body string) gatewaytest.Response {
	t.Helper()
	res := g.Do(g.Request(method, path, body))
	if res.Status != 200 && res.Status != 201 {
		t.Fatalf("%s %s %s: %d %s", method, path, body, res.Status, res.Body)
	}
	return res
}

func TestTheNearestWordOnLoggingDecides(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "log: {level: info}\n"})
	made := mustDo(t, g, "POST", "/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`)
	var key struct{ ID, Key string }
	if err := json.Unmarshal(made.Body, &key); err != nil {
		t.Fatal(err)
	}
	api := func(method, path, body string) func() {
		return func() { mustDo(t, g, method, path, body) }
	}
	organisation := func(said string) func() { return api("PUT", "/organisation", `{"settings":`+said+`}`) }
	workspace := func(said string) func() {
		return api("PUT", "/workspaces/default", `{"settings":{"request_logging":`+said+`}}`)
	}
	own := func(said string) func() {
		return api("PUT", "/api-keys/"+key.ID, `{"defaults":{"request_logging":`+said+`}}`)
	}
	settings := func(text string) func() {
		return func() {
			g.WriteSettings(text)
			if err := g.Server.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name        string
		do          func()
		others, key string // the levels of keys that say nothing, and of the key
	}{
		{"nobody says anything", func() {}, "metadata", "metadata"},
		{"the installation keeps all", settings("logs: {level: full}\n"), "full", "full"},
		{"the organisation keeps metadata", organisation(`{"request_logging":"metadata"}`), "metadata", "metadata"},
		{"the organisation lets workspaces decide", organisation(`{"request_logging_override":true}`), "metadata", "metadata"},
		{"the workspace has more", workspace(`"full"`), "full", "full"},
		{"the organisation overrides its workspaces", organisation(`{"request_logging_override":false}`), "metadata", "metadata"},
		{"a key that wants more", own(`"full"`), "metadata", "metadata"},
		{"a key that wants less", own(`"none"`), "metadata", "none"},
		{"workspaces are asked", organisation(`{"request_logging_override":true}`), "full", "none"},
		{"a key that may have more", own(`"full"`), "full", "full"},
		{"the workspace has less", workspace(`"none"`), "none", "full"},
		{"the key says nothing again", own(`null`), "none", "none"},
		{"the workspace neither", workspace(`null`), "metadata", "metadata"},
		{"the organisation neither", organisation(`{"request_logging":null}`), "full", "full"},
		{"the installation neither", settings("logs: {body_size: 1 KB}\n"), "metadata", "metadata"},
	} {
		step.do()
		waittest.Until(t, step.name, func() bool {
			_, a := keptOf(t, g)
			_, b := keptOf(t, g, "x-gateway-api-key", key.Key)
			return a.Logging == step.others && b.Logging == step.key
		})
	}
}

func TestBodiesAreReadWithTheirEntryAlone(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "logs: {level: full, redact: {fields: [content]}}\n"})
	res, e := keptOf(t, g)
	id := res.Header.Get("x-gateway-request-id")
	if e.Request == nil || e.Response == nil {
		t.Fatalf("the entry has no bodies: %+v", e)
	}
	if got := *e.Request.Body; !strings.Contains(got, `"content":"[redacted:field]"`) || e.Request.Size != len(chat) || e.Request.Truncated {
		t.Errorf("request %s of %d", got, e.Request.Size)
	}
	if got := *e.Response.Body; !strings.Contains(got, `"content":"[redacted:field]"`) || e.Response.Size != len(res.Body) || e.Response.ContentType != "application/json" {
		t.Errorf("answer %s of %d", got, e.Response.Size)
	}
	if got := string(g.Get("/logs?limit=5").Body); !strings.Contains(got, id) || strings.Contains(got, "redacted:field") || strings.Contains(got, `"response":`) || !strings.Contains(got, `"logging":"full"`) {
		t.Errorf("a listing has bodies: %s", got)
	}
	if got := string(g.Get("/explain/" + id).Body); !strings.Contains(got, "redacted:field") {
		t.Errorf("explaining has none: %s", got)
	}
	if got := string(g.Get("/logs/"+id, "x-gateway-api-key", mustKey(t, g, "logs.list")).Body); strings.Contains(got, "redacted:field") {
		t.Errorf("a key that may only list reads %s", got)
	}
	if _, e := keptOf(t, g, "x-gateway-debug", "false"); e.Request != nil || e.Response != nil || e.Logging != "metadata" || e.UserAgent == nil {
		t.Errorf("without debug: %+v", e)
	}
	if res := g.Post("/chat/completions", chat, "x-gateway-debug", "yes"); res.Status != http.StatusBadRequest || !strings.Contains(string(res.Body), "x-gateway-debug") {
		t.Errorf("x-gateway-debug: yes is answered %d %s", res.Status, res.Body)
	}
	g.WriteSettings("logs: {level: none}\n")
	if err := g.Server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, e := keptOf(t, g, "user-agent", "x"); e.Request != nil || e.Logging != "none" || e.UserAgent != nil {
		t.Errorf("at the level none: %+v", e)
	}
}

// mustKey makes a key with one scope.
func mustKey(t *testing.T, g *gatewaytest.Gateway, scope string) string {
	t.Helper()
	var key struct{ Key string }
	made := mustDo(t, g, "POST", "/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":"default","scopes":[%q]}`, scope))
	if err := json.Unmarshal(made.Body, &key); err != nil {
		t.Fatal(err)
	}
	return key.Key
}

func TestTheTailShowsNoBodies(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "logs: {level: full}\n"})
	w := watch(t, g, gatewaytest.Key, "")
	keptOf(t, g)
	if got := w.next(); !strings.Contains(got, `"logging":"full"`) || strings.Contains(got, `"response"`) || strings.Contains(got, "hello") {
		t.Errorf("the tail tells %s", got)
	}
}
