package wasmcode

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// limitProcess limits the memory, processor time and file size of this process. The
// kernel ends it at once, while [watchMemory] looks only now and then.
func limitProcess() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: MaxMachineCode, Max: MaxMachineCode})
	cpu := uint64(workers * MaxTime / time.Second)
	_ = syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: cpu, Max: cpu})
	if data, ok := dataSize(); ok {
		// A quarter more, as memory is taken from the system in large pieces.
		most := data + MaxMemory + MaxMemory/4
		_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most})
	}
}

// dataSize returns the bytes that count for RLIMIT_DATA.
// https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
func dataSize() (uint64, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 6 {
		return 0, false
	}
	pages, err := strconv.ParseUint(string(fields[5]), 10, 64)
	return pages * uint64(os.Getpagesize()), err == nil
}
