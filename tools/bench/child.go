package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// child is the process of a target.
type child struct {
	name string
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu  sync.Mutex // one command at a time
	out *json.Decoder
}

// spawn starts a target and waits until it serves.
func (r *run) spawn(ctx context.Context, args ...string) (*child, error) {
	argv := append(r.command(args[0]), args[1:]...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = 10 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.launch(args[0], cmd); err != nil {
		return nil, fmt.Errorf("starting the target %s: %w", args[0], err)
	}
	c := &child{name: args[0], cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}
	var h hello
	if err := c.out.Decode(&h); err != nil {
		return nil, errors.Join(fmt.Errorf("the target %s did not come up: %w", c.name, err), c.stop())
	}
	c.addr = h.Addr
	return c, nil
}

// ask sends a command and returns its response.
func (c *child) ask(command string) (u usage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, command+"\n"); err != nil {
		return u, fmt.Errorf("asking the target %s: %w", c.name, err)
	}
	if err := c.out.Decode(&u); err != nil {
		return u, fmt.Errorf("the target %s did not respond: %w", c.name, err)
	}
	if u.Error != "" {
		return u, fmt.Errorf("the target %s: %s", c.name, u.Error)
	}
	return u, nil
}

// stop ends the process by closing its input, and waits for it.
func (c *child) stop() error {
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the target %s ended with: %w", c.name, err)
	}
	return nil
}

// pin leaves one core to the targets, and keeps this process and the simulator
// off it. It returns what undoes it.
func (r *run) pin() (undo func()) {
	undo = func() {}
	if !r.Pin {
		return undo
	}
	all, err := affinity()
	if err != nil || len(all.list()) < 2 {
		return undo
	}
	others := all.list()[1:]
	if err := confine(coresOf(others...)); err != nil {
		r.progressf("nothing is pinned to a core: %v", err)
		return undo
	}
	before := runtime.GOMAXPROCS(len(others))
	r.report.TargetCores = 1
	r.places = &places{target: coresOf(all.list()[0]), rest: coresOf(others...)}
	return func() {
		confine(all)
		runtime.GOMAXPROCS(before)
	}
}

// places is who runs on which cores.
type places struct{ target, rest cores }

func (r *run) launch(name string, cmd *exec.Cmd) error {
	switch {
	case r.places == nil:
		return cmd.Start()
	case name == simulatorJob:
		return startOn(r.places.rest, cmd.Start)
	}
	return startOn(r.places.target, cmd.Start)
}
