package server

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"
)

// HeapFloor is a good value of [Options.HeapFloor] for a process that is only a
// gateway.
const HeapFloor = 32 << 20

// ballast returns memory that is never touched, and therefore takes no physical memory,
// but that the garbage collector counts. The collector runs when the heap has doubled;
// a gateway's heap is a few MB, so under load it would run fifty times a second. It
// returns nil if the operator has set GOGC or a memory limit of the same order.
func ballast(size int) []byte {
	limit := debug.SetMemoryLimit(-1) // reads the limit
	if size <= 0 || os.Getenv("GOGC") != "" || limit != math.MaxInt64 && limit < 8*int64(size) {
		return nil
	}
	return make([]byte, size)
}

// burst is the amount of body memory whose release justifies a garbage collection.
const burst = 64 << 20

// calm is the number of checks without bodies, half a minute, before idle connections
// left by a burst are closed. Each takes some 35 KB, and there may be a thousand.
const calm = 60

// gcTrigger detects the end of a burst of large bodies. Nothing else would run the
// garbage collector in the quiet afterwards, and the memory would stay allocated.
type gcTrigger struct {
	high  int64 // peak of body memory since the last release
	still int   // checks left until a collection
	calm  int   // checks without bodies left until idle connections are closed
}

// look reports whether to collect garbage, and before it whether to close idle provider
// connections, given that bodies now hold used bytes. A sync.Pool releases its buffers
// only at the second collection, so it returns collect twice.
func (t *gcTrigger) look(used int64) (collect, hangUp bool) {
	t.high = max(t.high, used)
	if t.high >= burst && used < t.high/4 {
		t.high, t.still, t.calm = used, 2, calm
	}
	switch {
	case t.calm == 0:
	case used > 0:
		t.calm = calm
	default:
		if t.calm--; t.calm == 0 {
			t.still, hangUp = 2, true
		}
	}
	if t.still == 0 {
		return false, false
	}
	t.still--
	return true, hangUp
}

// releaseMemory returns memory to the system after bursts of large bodies, until ctx ends.
func (s *Server) releaseMemory(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	bodies := gcTrigger{still: 1} // after the start itself
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			collect, hangUp := bodies.look(s.engine.Bounds.Pool.Used())
			if hangUp {
				s.engine.Client.Close()
			}
			if collect {
				debug.FreeOSMemory()
			}
		}
	}
}
