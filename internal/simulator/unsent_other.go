//go:build !linux

package simulator

import "net"

// unsent returns -1: how much is under way cannot be known here.
func unsent(*net.TCPConn) int { return -1 }
