//go:build unix

package bench

import "syscall"

// cpuMicros returns the CPU time of this process, user and system.
func cpuMicros() (int64, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, err
	}
	return (r.Utime.Nano() + r.Stime.Nano()) / 1000, nil
}
