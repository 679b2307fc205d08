package dataplane_test

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

func TestAnIdleSessionHoldsNoReservation(t *testing.T) {
	t.Parallel()
	g := newRealtime(t, "")
	key := mustScopedKey(t, g, `"scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":300}`)
	own := []string{toChat, "", "x-gateway-api-key", key}
	var idle []*socketClient
	for range 3 { // each would reserve all that is left
		c := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime", own...)
		c.until("session.created")
		idle = append(idle, c)
	}
	speaking := dialSocket(t, g, "/realtime?model=@chat/gpt-realtime%2Bsilent", own...)
	speaking.send(`{"type":"response.create"}`)
	speaking.until("response.output_audio.delta")
	if c, res := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", nil, own...); c != nil || res.StatusCode != 412 {
		t.Errorf("during a turn, which holds what is left: status %d, want 412", res.StatusCode)
	}
	idle[0].send(`{"type":"response.create"}`)
	code, _, before := idle[0].closed()
	if code != websocket.StatusPolicyViolation || !slices.Equal(before, []string{"response.created", "error budget_exhausted"}) {
		t.Errorf("a second turn: closed with %d after %q, want 1008 and an error before any output", code, before)
	}
	speaking.conn.CloseNow()
	waittest.Until(t, "what the turn held", func() bool {
		c, _ := tryDial(t, g, "/realtime?model=@chat/gpt-realtime", nil, own...)
		return c != nil
	})
	idle[1].send(`{"type":"response.create"}`)
	idle[1].until("response.done")
}

func TestTheBetaOfSessionsIsAMatterOfTheProvider(t *testing.T) {
	t.Parallel()
	upstream := recorder.New(recorder.Options{Record: 50})
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	managed := func(slug, kind string, options map[string]string) snapshot.ManagedProvider {
		return snapshot.ManagedProvider{Slug: slug, Provider: kind,
			Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: server.URL + "/v1", Options: options}}
	}
	g := gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{
		managed("present", "openai", nil), managed("beta", "openai", map[string]string{"beta": "realtime=v1"}),
		managed("other", "openai", map[string]string{"beta": "assistants=v2"}), managed("beta-host", "openai-compatible", map[string]string{"beta": "realtime=v1"}),
	}})
	sent := func() []string {
		var all []string
		for _, r := range upstream.Requests() {
			all = append(all, r.Header.Get("OpenAI-Beta"))
		}
		return all
	}
	for i, tt := range []struct{ slug, client, want string }{
		{"present", "realtime=v1", ""},
		{"beta", "realtime=v1", "realtime=v1"},
		{"beta", "", "realtime=v1"},
		{"other", "realtime=v1", "assistants=v2"},
		{"beta-host", "realtime=v1", "realtime=v1"},
	} {
		c, _ := tryDial(t, g, "/live/sessions", nil, toChat, "@"+tt.slug, "OpenAI-Beta", tt.client)
		if c != nil {
			c.conn.CloseNow()
		}
		waittest.Until(t, "the handshake at the provider", func() bool { return len(sent()) == i+1 })
		if got := sent()[i]; got != tt.want {
			t.Errorf("@%s with %q gets %q, want %q", tt.slug, tt.client, got, tt.want)
		}
	}
}
