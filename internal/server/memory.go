package server

import (
	"math"
	"os"
	"runtime/debug"
)

// HeapFloor is a good size of [Options.HeapFloor] for a process that is a
// gateway and nothing else.
const HeapFloor = 32 << 20

// ballast returns memory that is never touched, and so takes no room, but that
// the garbage collector counts. It runs when the heap has doubled; that of a
// gateway is a few MB, so it would run fifty times a second under load.
// An operator who has set GOGC, or a memory limit of the same order, has
// decided otherwise.
func ballast(size int) []byte {
	limit := debug.SetMemoryLimit(-1) // reads it
	if size <= 0 || os.Getenv("GOGC") != "" || limit != math.MaxInt64 && limit < 8*int64(size) {
		return nil
	}
	return make([]byte, size)
}

// burst is how much memory bodies have to have held for its return to be worth
// a run of the garbage collector.
const burst = 64 << 20

// calm is how many looks without any body come before the connections go that a
// burst has left: half a minute. They take some 35 KB each, and may be a thousand.
const calm = 60

// gcTrigger notices that a burst of large bodies is over. Nothing else would run the
// garbage collector in the quiet after it, and the memory would stay taken.
type gcTrigger struct {
	high  int64 // the most that bodies held since the last ebb
	still int   // looks to go at which to collect
	calm  int   // looks to go, without bodies, until idle connections are closed
}

// look reports whether to collect garbage, and before it to close the connections
// to providers that no request uses, now that bodies hold used bytes. A pool lets
// go of its buffers only at the second collection, so it says so twice.
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
