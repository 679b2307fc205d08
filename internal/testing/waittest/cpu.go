package waittest

import (
	"syscall"
	"testing"
	"time"
)

// CPUTime returns how long the process has computed since its start. Other processes do not
// stretch it, as they stretch what a clock shows; it may be as coarse as ten milliseconds.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
