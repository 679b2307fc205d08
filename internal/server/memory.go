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

// tide notices that a burst of large bodies is over. Nothing else would run the
// garbage collector in the quiet after it, and the memory would stay taken.
type tide struct {
	high  int64 // the most that bodies held since the last ebb
	still int   // looks to go at which to collect
}

// out reports whether to collect garbage, now that bodies hold used bytes. A
// pool lets go of its buffers only at the second collection, so it says so
// twice.
func (t *tide) out(used int64) bool {
	t.high = max(t.high, used)
	if t.high >= burst && used < t.high/4 {
		t.high, t.still = used, 2
	}
	if t.still == 0 {
		return false
	}
	t.still--
	return true
}
