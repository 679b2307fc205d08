package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n"

// callForm is a form that asks for a call with a session of this model.
func callForm(model string) (body, contentType string) {
	return "--b\r\nContent-Disposition: form-data; name=\"sdp\"\r\nContent-Type: application/sdp\r\n\r\n" + sdp +
		"\r\n--b\r\nContent-Disposition: form-data; name=\"session\"\r\nContent-Type: application/json\r\n\r\n" +
		`{"type":"realtime","model":"` + model + `"}` + "\r\n--b--\r\n", "multipart/form-data; boundary=b"
}

// ring asks for a call.
func ring(g *gatewaytest.Gateway, model string, h ...string) gatewaytest.Response {
	body, kind := callForm(model)
	return g.Post("/realtime/calls", body, append([]string{toChat, "", "Content-Type", kind}, h...)...)
}

// mustRing begins a call and returns its id at the gateway.
func mustRing(t *testing.T, g *gatewaytest.Gateway, model string, h ...string) (id string) {
	t.Helper()
	res := ring(g, model, h...)
	location := res.Header.Get("Location")
	id, ok := strings.CutPrefix(location, g.URL+"/realtime/calls/")
	if res.Status != 201 || !ok || id == "" || !strings.HasPrefix(string(res.Body), "v=0") || res.Header.Get("Content-Type") != "application/sdp" {
		t.Fatalf("status %d, location %q: %s", res.Status, location, res.Body)
	}
	return id
}

// joins waits until there are n connections, those of the gateway included.
func joins(t *testing.T, g *gatewaytest.Gateway, n int) {
	t.Helper()
	waittest.Until(t, "the gateway's own connection", func() bool {
		res, err := http.Get(g.AdminURL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return strings.Contains(string(text), fmt.Sprintf("modelgate_websocket_connections %d\n", n))
	})
}

// arrived counts the requests that the provider got.
func arrived(g *gatewaytest.Gateway, method, end string) (n int) {
	for _, r := range g.Sim.Requests() {
		if path, _, _ := strings.Cut(r.URI, "?"); r.Method == method && strings.HasSuffix(path, end) {
			n++
		}
	}
	return n
}

func TestACallIsCountedByAConnectionOfTheGateway(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key := mustScopedKey(t, g, `"scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":100000}`)
	id := mustRing(t, g, "@chat/gpt-realtime", "x-gateway-api-key", key)
	joins(t, g, 1)
	c := dialSocket(t, g, "/realtime?call_id="+id, toChat, "", "x-gateway-api-key", key)
	for range 2 {
		c.send(`{"type":"response.create"}`)
		c.until("response.done")
	}
	own := c.head.Get("x-gateway-request-id")
	res := g.Post("/realtime/calls/"+id+"/hangup", "", toChat, "", "x-gateway-api-key", key)
	if res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	if code, reason, _ := c.closed(); code != websocket.StatusNormalClosure || reason != "the call has ended" {
		t.Errorf("closed with %d %q", code, reason)
	}
	entryByID(t, g, own)
	sum := func() (input, output float64) {
		for _, one := range g.Get("/logs?limit=100").JSON(t)["data"].([]any) {
			usage, _ := one.(map[string]any)["usage"].(map[string]any)
			in, _ := usage["prompt_tokens"].(float64)
			out, _ := usage["completion_tokens"].(float64)
			input, output = input+in, output+out
		}
		return input, output
	}
	waittest.Until(t, "the usage of the call", func() bool { in, out := sum(); return in == 264 && out == 242 })
	if e := entryByID(t, g, own); fmt.Sprint(e["usage"]) != "<nil>" && e["usage"].(map[string]any)["prompt_tokens"] != nil && e["usage"].(map[string]any)["prompt_tokens"] != 0.0 {
		t.Errorf("the client's connection is counted too: %v", e["usage"])
	}
	if c, res := tryDial(t, g, "/realtime?call_id="+id, nil, toChat, "", "x-gateway-api-key", key); c != nil || res.StatusCode != 404 {
		t.Errorf("joining an ended call: status %d, want 404", res.StatusCode)
	}
	for _, r := range g.Sim.Requests() {
		if strings.Contains(fmt.Sprint(r.Header), key) {
			t.Errorf("the provider gets the gateway key: %v", r.Header)
		}
	}
}

func TestACallEndsWhenItsLimitIsReached(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key := mustScopedKey(t, g, `"scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":300}`)
	id := mustRing(t, g, "@chat/gpt-realtime", "x-gateway-api-key", key)
	joins(t, g, 1)
	c := dialSocket(t, g, "/realtime?call_id="+id, toChat, "", "x-gateway-api-key", key)
	for range 2 {
		c.send(`{"type":"response.create"}`)
		c.until("response.done")
	}
	if code, reason, _ := c.closed(); code != websocket.StatusNormalClosure || reason != "the call has ended" {
		t.Errorf("closed with %d %q, want the end of the call", code, reason)
	}
	if n := arrived(g, http.MethodPost, "/"+id+"/hangup"); n != 1 {
		t.Errorf("%d requests to end the call, want 1", n)
	}
	if res := ring(g, "@chat/gpt-realtime", "x-gateway-api-key", key); res.Status != 412 {
		t.Errorf("another call: status %d, want 412", res.Status)
	}
}

func TestARevokedKeyEndsItsCalls(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key, keyID := mustKeyWithID(t, g, `"scopes":["completions.write"]`)
	id := mustRing(t, g, "@chat/gpt-realtime", "x-gateway-api-key", key)
	joins(t, g, 1)
	if res := g.Do(g.Request(http.MethodDelete, "/api-keys/"+keyID, "")); res.Status > 299 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	waittest.Until(t, "the end of the call", func() bool { return arrived(g, http.MethodPost, "/"+id+"/hangup") == 1 })
}

func TestCallsOfOtherWorkspacesAreUnknown(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	workspace := g.Post("/admin/workspaces", `{"name":"other"}`).JSON(t)["id"].(string)
	other, _ := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"`+workspace+`","scopes":["completions.write","providers.update"]}`).JSON(t)["key"].(string)
	waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", other).Status != 401 })
	id := mustRing(t, g, "@chat/gpt-realtime")
	joins(t, g, 1)
	before := len(g.Sim.Requests())
	for _, to := range []string{"", "@chat"} {
		h := []string{toChat, to, "x-gateway-api-key", other}
		for _, verb := range []string{"accept", "refer", "reject", "hangup"} {
			foreign, unknown := g.Post("/realtime/calls/"+id+"/"+verb, `{}`, h...), g.Post("/realtime/calls/rtc_unknown/"+verb, `{}`, h...)
			if foreign.Status != 404 || unknown.Status != 404 || string(foreign.Body) != string(unknown.Body) {
				t.Errorf("%s with %q: %d %s and %d %s", verb, to, foreign.Status, foreign.Body, unknown.Status, unknown.Body)
			}
		}
		var bodies []string
		for _, one := range []string{id, "rtc_unknown"} {
			c, res := tryDial(t, g, "/realtime?call_id="+one, nil, h...)
			if c != nil || res.StatusCode != 404 {
				t.Fatalf("joining %s: status %d, want 404", one, res.StatusCode)
			}
			body := make([]byte, 1000)
			n, _ := res.Body.Read(body)
			bodies = append(bodies, string(body[:n]))
		}
		if bodies[0] != bodies[1] || !strings.Contains(bodies[0], "this workspace has no call") {
			t.Errorf("joining tells foreign calls from unknown ones: %q", bodies)
		}
	}
	if after := len(g.Sim.Requests()); after != before {
		t.Errorf("the provider got %d requests", after-before)
	}
	if res := g.Post("/realtime/calls/"+id+"/refer", `{"target_uri":"tel:+1"}`, toChat, ""); res.Status != 200 {
		t.Errorf("its own workspace: status %d: %s", res.Status, res.Body)
	}
}

func TestCallsThatNobodyCountsNeedAKeyWithoutLimits(t *testing.T) {
	t.Parallel()
	const limited = `,"usage_limits":{"type":"tokens","credit_limit":300}`
	for _, tt := range []struct {
		settings, members string
		want              int
	}{
		{"realtime: {meter_calls: false}\n", `"scopes":["completions.write","providers.update"]` + limited, 403},
		{"realtime: {meter_calls: false, unmetered_calls: true}\n", `"scopes":["completions.write","providers.update"]` + limited, 201},
		{"realtime: {meter_calls: false}\n", `"scopes":["completions.write","providers.update"]`, 201},
		{"realtime: {meter_calls: false}\n", `"scopes":["completions.write"]`, 403},
		{"", `"scopes":["completions.write"]` + limited, 201},
	} {
		g := newRealtime(t, tt.settings)
		key := mustScopedKey(t, g, tt.members)
		if res := ring(g, "@chat/gpt-realtime", "x-gateway-api-key", key); res.Status != tt.want {
			t.Errorf("%q %q: status %d, want %d: %s", tt.settings, tt.members, res.Status, tt.want, res.Body)
		}
	}
}

func TestCallsWithTheCredentialsOfTheClientAreNotCounted(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "upstream: {trusted_hosts: [127.0.0.1]}\n")
	key := mustScopedKey(t, g, `"scopes":["completions.write","providers.update"],"usage_limits":{"type":"tokens","credit_limit":300}`)
	own := `{"provider":"openai","api_key":"` + gatewaytest.SimulatorKey + `","custom_host":"` + g.Upstream + `"}`
	for _, h := range [][]string{
		{"x-gateway-config", own},
		{toChat, "openai", "x-gateway-custom-host", g.Upstream, "Authorization", "Bearer " + gatewaytest.SimulatorKey},
	} {
		res := ring(g, "gpt-realtime", append([]string{"x-gateway-api-key", key}, h...)...)
		if res.Status != 403 || !strings.Contains(string(res.Body), "call_unmetered") {
			t.Errorf("%v: status %d: %s", h, res.Status, res.Body)
		}
	}
	if n := arrived(g, http.MethodPost, "/realtime/calls"); n != 0 {
		t.Errorf("the provider got %d calls", n)
	}
}

func TestACallWithoutAnAddressIsNotAnswered(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	res := ring(g, "@chat/gpt-realtime%2Bnowhere")
	if res = ring(g, "@chat/gpt-realtime+nowhere"); res.Status != 502 || strings.Contains(string(res.Body), "s=answer") {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
}

func TestOffersAreChecked(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	if res := g.Post("/realtime/calls?model=@chat/gpt-realtime", sdp, toChat, "", "Content-Type", "application/sdp"); res.Status != 201 {
		t.Errorf("an offer alone: status %d: %s", res.Status, res.Body)
	}
	const checked = `{"provider":"@chat","input_guardrails":[{"deny":true,"default.contains":{"operator":"none","words":["secret"]}}]}`
	if res := ring(g, "gpt-realtime", "x-gateway-config", checked); res.Status != 403 || !strings.Contains(string(res.Body), "guardrails_unsupported") {
		t.Errorf("with guardrails: status %d: %s", res.Status, res.Body)
	}
	few := newListed(t, "openai", "gpt-realtime")
	for _, model := range []string{"@few/other", "@nobody/gpt-realtime", "gpt-realtime"} {
		if res := ring(few, model); res.Status < 400 || res.Status > 404 {
			t.Errorf("%s: status %d: %s", model, res.Status, res.Body)
		}
	}
	for name, body := range map[string]string{
		"large":      strings.Repeat("x", 300<<10),
		"incomplete": "--b\r\nContent-Disposition: form-data; name=\"session\"\r\n\r\n{",
	} {
		res := g.Post("/realtime/calls", body, "Content-Type", "multipart/form-data; boundary=b", toChat, "@chat")
		if res.Status != 400 && res.Status != 413 {
			t.Errorf("%s: status %d: %s", name, res.Status, res.Body)
		}
	}
}
