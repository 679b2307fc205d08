package main

import (
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify reports the state of the gateway to systemd, which starts what depends on it when it is
// ready. Without systemd it does nothing. A failure is written to standard error: the gateway
// serves all the same.
//
// https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
func (p *program) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		fmt.Fprintln(p.err, "modelgate: systemd was not notified:", err)
	}
}
