package dataplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
)

// mintSecret makes a client secret.
func mintSecret(t *testing.T, g *gatewaytest.Gateway, body string, h ...string) (value string, made map[string]any) {
	t.Helper()
	res := g.Post("/realtime/client_secrets", body, h...)
	if res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	made = res.JSON(t)
	value, _ = made["value"].(string)
	if !strings.HasPrefix(value, "ek_") || strings.Contains(string(res.Body), gatewaytest.Key) || strings.ContainsAny(value, "+/=") {
		t.Fatalf("the secret is %q", value)
	}
	return value, made
}

// browse opens a session as a browser does.
func browse(t *testing.T, g *gatewaytest.Gateway, path, value string, h ...string) (*socketClient, int) {
	t.Helper()
	c, res := tryDial(t, g, path, []string{"realtime", "openai-insecure-api-key." + value}, append([]string{"x-gateway-api-key", "", toChat, ""}, h...)...)
	return c, res.StatusCode
}

func TestAClientSecretBeginsOneSessionWithItsRights(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	value, made := mintSecret(t, g, `{"session":{"type":"realtime","model":"@chat/gpt-realtime","instructions":"Be brief."}}`, toChat, "")
	session := made["session"].(map[string]any)
	if left := time.Until(time.Unix(int64(made["expires_at"].(float64)), 0)); left < 500*time.Second || left > 600*time.Second || session["instructions"] != "Be brief." {
		t.Errorf("made %v", made)
	}
	for path, h := range map[string][]string{
		"/realtime?model=other":        nil,
		"/realtime?model=gpt-realtime": {toChat, "@messages"},
	} {
		if c, status := browse(t, g, path, value, h...); c != nil || status != 403 {
			t.Errorf("%s with %v: status %d, want 403", path, h, status)
		}
	}
	c, status := browse(t, g, "/realtime", value)
	if c == nil {
		t.Fatalf("status %d", status)
	}
	c.until("session.created")
	updated, _ := c.until("session.updated") // by the gateway
	if s := updated["session"].(map[string]any); s["instructions"] != "Be brief." || s["model"] != "gpt-realtime" {
		t.Errorf("the session is %v", s)
	}
	for _, field := range []string{`"instructions":"Talk."`, `"model":"other"`, `"type":"transcription"`} {
		c.send(`{"type":"session.update","session":{` + field + `}}`)
		if _, code := faultOf(t, c.event()); code != "session_field_fixed" {
			t.Errorf("%s is refused with %q", field, code)
		}
	}
	c.send(`{"type":"session.update","session":{"voice":"x","instructions":"Be brief."}}`)
	c.until("session.updated")
	id := c.head.Get("x-gateway-request-id")
	c.conn.Close(websocket.StatusNormalClosure, "")
	if e := entryByID(t, g, id); fmt.Sprint(e["api_key"]) != "map[id:bootstrap name:bootstrap]" || e["provider_slug"] != "chat" || strings.Contains(fmt.Sprint(e), value) {
		t.Errorf("recorded %v", e)
	}
	if c, status := browse(t, g, "/realtime", value); c != nil || status != 401 {
		t.Errorf("used again: status %d, want 401", status)
	}
}

func TestAClientSecretIsRefusedElsewhere(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	value, _ := mintSecret(t, g, `{"session":{"model":"@chat/gpt-realtime"}}`, toChat, "")
	for _, path := range []string{"/chat/completions", "/realtime/client_secrets", "/realtime/calls"} {
		if res := g.Post(path, plainChat, "x-gateway-api-key", "", "Authorization", "Bearer "+value); res.Status != 401 {
			t.Errorf("%s: status %d: %s", path, res.Status, res.Body)
		}
	}
	other := newRealtime(t, "") // with another key to seal
	for name, wrong := range map[string]string{"another gateway's": value, "cut off": value[:len(value)-4], "empty": "ek_"} {
		if c, status := browse(t, other, "/realtime", wrong); c != nil || status != 401 {
			t.Errorf("%s: status %d, want 401", name, status)
		}
	}
}

func TestClientSecretsAreCheckedWhenTheyAreMade(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	models := mustScopedKey(t, g, `"scopes":["models.list"]`)
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
	}{
		{"too short", `{"expires_after":{"anchor":"created_at","seconds":9},"session":{"model":"@chat/m"}}`, nil, 400},
		{"too long", `{"expires_after":{"seconds":7201},"session":{"model":"@chat/m"}}`, nil, 400},
		{"no number", `{"expires_after":{"seconds":"60"},"session":{"model":"@chat/m"}}`, nil, 400},
		{"another anchor", `{"expires_after":{"anchor":"now"},"session":{"model":"@chat/m"}}`, nil, 400},
		{"an unknown member", `{"ttl":60,"session":{"model":"@chat/m"}}`, nil, 400},
		{"a session that is none", `{"session":"x"}`, nil, 400},
		{"a long session", `{"session":{"model":"@chat/m","instructions":"` + strings.Repeat("x", 9000) + `"}}`, nil, 400},
		{"an unknown provider", `{"session":{"model":"@nobody/m"}}`, nil, 404},
		{"no provider", `{"session":{"model":"m"}}`, nil, 400},
		{"a provider with the client's key", `{"session":{"model":"m"}}`, []string{toChat, "openai", "Authorization", "Bearer sk-x"}, 400},
		{"a custom host", `{"session":{"model":"m"}}`, []string{toChat, "openai", "x-gateway-custom-host", "https://example.com"}, 400},
		{"no key", `{}`, []string{"x-gateway-api-key", ""}, 401},
		{"no scope", `{"session":{"model":"@chat/m"}}`, []string{"x-gateway-api-key", models}, 403},
		{"the shortest", `{"expires_after":{"seconds":10},"session":{"model":"@chat/m"}}`, nil, 200},
		{"the longest", `{"expires_after":{"anchor":"created_at","seconds":7200},"session":{"model":"@chat/m"}}`, nil, 200},
	} {
		if res := g.Post("/realtime/client_secrets", tt.body, append([]string{toChat, ""}, tt.headers...)...); res.Status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, res.Status, tt.status, res.Body)
		}
	}
	if res := g.Post("/realtime/client_secrets", `{}`, "x-gateway-pass-through", "true"); res.Status != 200 || !strings.Contains(string(res.Body), "body_sha256") {
		t.Errorf("to the provider: status %d: %s", res.Status, res.Body)
	}
}

func TestAClientSecretBeginsOneSessionOnAllNodes(t *testing.T) {
	t.Parallel()
	o := gatewaytest.Options{Database: storetest.Postgres(t), MasterKey: "a master key of a test", Settings: pairSettings}
	nodes := []*gatewaytest.Gateway{gatewaytest.New(t, o), gatewaytest.New(t, o)}
	for i := range nodes {
		value, _ := mintSecret(t, nodes[0], `{"session":{"model":"@chat/gpt-realtime"}}`, toChat, "")
		c, status := browse(t, nodes[i], "/realtime", value)
		if c == nil {
			t.Fatalf("node %d: status %d", i, status)
		}
		for j := range nodes {
			if again, status := browse(t, nodes[j], "/realtime", value); again != nil || status != 401 {
				t.Errorf("used by node %d and then by node %d: status %d, want 401", i, j, status)
			}
		}
	}
}
