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
