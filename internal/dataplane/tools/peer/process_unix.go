//go:build unix

package peer

import (
	"os/exec"
	"syscall"
)

// setGroup makes a command the leader of a group of processes.
func setGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// askGroup asks a process and all that it has started to end.
func askGroup(c *exec.Cmd) { syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }

// killGroup ends a process and all that it has started.
func killGroup(c *exec.Cmd) { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
