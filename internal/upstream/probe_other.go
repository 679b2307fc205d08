//go:build !unix

package upstream

import "net"

// probe does not work on this system: connections are used once.
type probe struct{}

func newProbe(net.Conn) probe { return probe{} }

func (probe) works() bool { return false }

func (probe) isQuiet() bool { return false }
