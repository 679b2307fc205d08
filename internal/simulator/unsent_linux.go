package simulator

import (
	"net"
	"syscall"
	"unsafe"
)

// unsent returns the number of bytes that the other side has not acknowledged,
// or -1 if unknown.
func unsent(conn *net.TCPConn) int {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1
	}
	var n int32
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	})
	if err != nil || failed != 0 {
		return -1
	}
	return int(n)
}
