//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// probe tells whether a connection that nobody reads is still open.
type probe struct {
	raw  syscall.RawConn // nil if the connection is not one of the operating system
	read func(fd uintptr) bool
	// quiet is the result of read: there is nothing to be read, not even an end.
	quiet *bool
}

func newProbe(conn net.Conn) probe {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return probe{}
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return probe{}
	}
	quiet := new(bool)
	return probe{raw: raw, quiet: quiet, read: func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		*quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
		return true
	}}
}

// works reports whether isQuiet can tell anything.
func (p probe) works() bool { return p.raw != nil }

// isQuiet reports whether the connection is open and nothing has arrived on it. It
// does not wait.
func (p probe) isQuiet() bool {
	*p.quiet = false
	return p.raw.Read(p.read) == nil && *p.quiet
}
