package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// The largest event of a stream counts against the memory of bodies, and where a
// stream is translated, all that is kept of it. What counted is returned.
func TestStreamsCountAgainstTheMemoryOfBodies(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	settings := strings.Replace(pairSettings, "limits: {event: 1 MB}", "limits: {event: 8 MB, body_memory: 14 MB}", 1)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s, Settings: settings})
	text := func(kb int) string { return strings.Repeat("x", kb<<10) }
	for _, tt := range []struct {
		name, target, body string
		full               bool
	}{
		{"an event that fits", "chat", chunk(text(1024)) + finish + done, false},
		{"an event that does not", "chat", chunk(text(4096)) + finish + done, true},
		{"many events that fit one by one", "chat", strings.Repeat(chunk(text(1024)), 12) + finish + done, false},
		{"an event that does not fit behind small ones", "chat", chunk("a") + chunk(text(4096)) + finish + done, true},
		{"a translated event that fits", "messages", messageStart + messageDelta(text(1024)) + messageEnd, false},
		{"a translated event that does not", "messages", messageStart + messageDelta(text(2560)) + messageEnd, true},
		{"translated events that do not fit together", "messages", messageStart + strings.Repeat(messageDelta(text(1024)), 5) + messageEnd, true},
		{"small translated events", "messages", messageStart + strings.Repeat(messageDelta("x"), 1000) + messageEnd, false},
		{"a translated event that fits, again", "messages", messageStart + messageDelta(text(1024)) + messageEnd, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.set(map[string]targetScript{"m": {body: tt.body}})
			res := clientFormats[0].send(t, g, "@"+tt.target, "m", true)
			e := g.Entry(res)
			code := fmt.Sprint(e["error"])
			if full := strings.Contains(code, "body_memory_full"); full != tt.full || !full && (e["error"] != nil || clientFormats[0].readResponse(t, res).end != "done") {
				t.Errorf("status %d, error %.200s; want the memory full: %t; the client got %.200q", res.Status, code, tt.full, res.Body)
			}
		})
	}
}
