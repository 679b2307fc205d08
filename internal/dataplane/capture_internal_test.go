package dataplane

import (
	"bytes"
	"net/http"
	"testing"

	"modelgate/internal/bytepool"
)

func TestABodyThatFindsNoRoomIsCutWhereItIs(t *testing.T) {
	t.Parallel()
	pool := bytepool.New(10 << 10)
	c := capture{pool: pool, most: 1 << 20}
	c.setMediaType(http.Header{"Content-Type": {"Text/Plain; charset=utf-8"}})
	part := bytes.Repeat([]byte("a"), 3<<10)
	for range 4 {
		c.add(part) // the third needs a buffer next to the second, for which there is no room
	}
	got := c.body(12<<10, nil)
	if len(got.Data) == 0 || len(got.Data)%len(part) != 0 || len(got.Data) >= 12<<10 || !got.Cut || got.Type != "text/plain" {
		t.Errorf("kept %d bytes as %q, cut %t", len(got.Data), got.Type, got.Cut)
	}
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are still lent", used)
	}
	c = capture{pool: pool, most: 1 << 20}
	c.body(0, nil)
	c.add(part) // of a transport that still reads
	if again := c.body(0, nil); again.Data != nil || pool.Used() != 0 {
		t.Errorf("what came after the end is kept: %d bytes", len(again.Data))
	}
}

func TestKeepingNothingTakesNothing(t *testing.T) {
	x, part := new(exchange), []byte("part")
	h := http.Header{"Content-Type": {"application/json"}}
	if n := testing.AllocsPerRun(100, func() {
		x.captureRequest(part)
		x.responseCapture().setMediaType(h)
		x.responseCapture().add(part)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
