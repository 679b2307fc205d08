package dataplane_test

import (
	"slices"
	"testing"

	"github.com/coder/websocket"

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
