package quota

import "crypto/rand"

// Process names a process of a gateway to stores that several share. What a process
// settles of a budget is kept apart from what others settle, because only the ledger
// in its data folder knows how much of it is counted.
type Process struct {
	node string // the same for all processes that use a data folder, one after the other
	run  string
}

// NewProcess returns a new process of a node. A node name has no dot.
func NewProcess(node string) Process { return Process{node, rand.Text()[:8]} }

// String returns the name of the process.
func (p Process) String() string { return p.Prefix() + p.run }

// Prefix begins the names of all processes of the node.
func (p Process) Prefix() string { return p.node + "." }
