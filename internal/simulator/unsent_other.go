//go:build !linux

package simulator

import "net"

// unsent returns -1: the number of unacknowledged bytes is unknown here.
func unsent(*net.TCPConn) int { return -1 }
