package attempt

import (
	"testing"

	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/sse"
)

func messagesRenamer(name string) *modelRenamer {
	d := messages.Dialect{}
	return &modelRenamer{field: d.ModelField(), name: name, tap: d.NewTap("messages")}
}

var (
	startEvent = sse.Event{Type: []byte("message_start"), Data: []byte(`{"type":"message_start","message":{"id":"m","model":"served","content":[]}}`)}
	deltaEvent = sse.Event{Type: []byte("content_block_delta"), Data: []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)}
)

// A stream is searched for its model until its only place has been seen.
func TestEventsAfterTheNameAreNotRead(t *testing.T) {
	startEvent.Raw = append([]byte("data: "), startEvent.Data...)
	for _, name := range []string{"served", "asked"} {
		m := messagesRenamer(name)
		m.tap.Event(startEvent)
		got := m.event(startEvent)
		if same := &got.Raw[0] == &startEvent.Raw[0]; same != (name == "served") || !m.done {
			t.Errorf("asked for %s: the bytes stay %t, done %t: %s", name, same, m.done, got.Raw)
		}
		if n := testing.AllocsPerRun(100, func() { m.event(deltaEvent) }); n > 0 {
			t.Errorf("asked for %s: %.0f allocations for an event without a name", name, n)
		}
	}
}

func BenchmarkModelRenamerEvent(b *testing.B) {
	for _, name := range []string{"served", "asked"} {
		b.Run(name, func(b *testing.B) {
			startEvent.Raw = append([]byte("data: "), startEvent.Data...)
			b.ReportAllocs()
			for b.Loop() {
				m := messagesRenamer(name)
				m.tap.Event(startEvent)
				m.event(startEvent)
				for range 100 {
					m.event(deltaEvent)
				}
			}
		})
	}
}
