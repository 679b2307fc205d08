package dataplane

import (
	"bytes"
	"net/http"
	"testing"

	"modelgate/internal/base/bytepool"
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
	x, part := new(admission), []byte("part")
	h := http.Header{"Content-Type": {"application/json"}}
	if n := testing.AllocsPerRun(100, func() {
		captureRequest(x, part)
		responseCapture(x).setMediaType(h)
		responseCapture(x).add(part)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An organisation whose bodies fill its share leaves room for those of others.
func TestCapturesOfOneOrganisationLeaveRoomToOthers(t *testing.T) {
	t.Parallel()
	pool := bytepool.New(64 << 20)
	part := bytes.Repeat([]byte("a"), 1<<20)
	var all []*capture
	add := func(organisation string) *capture {
		c := &capture{pool: pool, share: pool.Organisation(organisation), most: 1 << 20}
		c.add(part)
		all = append(all, c)
		return c
	}
	kept := 0
	for range 100 {
		if add("large").buf != nil {
			kept++
		}
	}
	if kept == 100 || kept == 0 {
		t.Errorf("%d of 100 bodies of one organisation are kept, want some", kept)
	}
	if add("small").buf == nil {
		t.Error("the body of another organisation finds no room")
	}
	for _, c := range all {
		c.body(1<<20, nil)
	}
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are still lent", used)
	}
}
