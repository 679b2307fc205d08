package peer

import (
	"os/exec"
	"syscall"
)

// endWithThread makes the kernel kill a command when the thread that has started it ends, at the
// latest with the gateway, also by SIGKILL. What the command has started is not killed.
func endWithThread(c *exec.Cmd) { c.SysProcAttr.Pdeathsig = syscall.SIGKILL }
