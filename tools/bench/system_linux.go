package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// residentBytes returns the resident memory of this process and its peak.
func residentBytes() (now, peak int64, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	return kilobytes(string(b), "VmRSS:") << 10, kilobytes(string(b), "VmHWM:") << 10, nil
}

// kilobytes returns the value of a line such as "VmRSS:    123 kB".
func kilobytes(status, name string) int64 {
	_, rest, _ := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "kB")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// resetPeak makes the peak the present value (proc(5), clear_refs).
func resetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// cores is a set of cores as the kernel takes it.
type cores [16]uint64

func (c *cores) list() (all []int) {
	for i := range len(c) * 64 {
		if c[i/64]&(1<<(i%64)) != 0 {
			all = append(all, i)
		}
	}
	return all
}

func coresOf(list ...int) (c cores) {
	for _, i := range list {
		c[i/64] |= 1 << (i % 64)
	}
	return c
}

// affinity returns the cores that this process may use.
func affinity() (c cores, err error) {
	_, _, e := syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)))
	if e != 0 {
		return c, fmt.Errorf("reading the cores of this process: %w", e)
	}
	return c, nil
}

// confine lets every thread of this process run on c alone. A thread that is
// started in the meantime takes after the one that starts it.
func confine(c cores) error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := confineThread(id, c); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func confineThread(id int, c cores) error {
	_, _, e := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)))
	if e != 0 {
		return e
	}
	return nil
}

// startOn runs start so that the process it starts may use c alone. Processes
// inherit the cores of the thread that starts them.
func startOn(c cores, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := affinity()
	if err != nil {
		return err
	}
	if err := confineThread(0, c); err != nil {
		return err
	}
	defer confineThread(0, before)
	return start()
}
