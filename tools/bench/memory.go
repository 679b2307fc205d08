package bench

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// memoryResult is the memory of one target, in bytes.
type memoryResult struct {
	idle, peak, after int64
	quiet             time.Duration // between the last response and after
}

// memory measures every forwarder in a fresh process: at rest after one
// answer, at its peak with many large bodies in flight at once, and after a
// quiet while.
func (r *run) memory(ctx context.Context) (err error) {
	var fresh []*target
	defer func() {
		for _, t := range fresh {
			err = errors.Join(err, t.child.stop())
		}
	}()
	sizes := map[string]*memoryResult{}
	ends := map[string]time.Time{}
	for _, name := range r.forwarders() {
		c, err := r.spawn(ctx, name, r.sim.addr)
		if err != nil {
			return err
		}
		t := &target{name, c.addr, c}
		fresh = append(fresh, t)
		if sizes[name], err = r.burst(ctx, t); err != nil {
			return err
		}
		ends[name] = time.Now()
	}
	r.progressf("  quiet for %s", r.Scale.Quiet)
	if err := pause(ctx, r.Scale.Quiet); err != nil {
		return err
	}
	for _, t := range fresh {
		u, err := t.child.ask("usage")
		if err != nil {
			return err
		}
		h := sizes[t.name]
		h.after, h.quiet = u.RSS, time.Since(ends[t.name])
		r.report.addMemory(t.name, &r.Scale, h)
	}
	return nil
}

// restAfter is how long after its first response a target is taken to be at rest.
const restAfter = time.Second

// burst sends the bodies and has the simulator answer when all have arrived.
func (r *run) burst(ctx context.Context, t *target) (*memoryResult, error) {
	c, err := r.sample.askAgain(ctx, nil, t.addr)
	if err != nil {
		return nil, err
	}
	c.Close()
	if err := pause(ctx, restAfter); err != nil {
		return nil, err
	}
	rest, err := t.child.ask("usage")
	if err != nil {
		return nil, err
	}
	if _, err := t.child.ask("reset-peak"); err != nil {
		return nil, err
	}
	if _, err := r.sim.ask("hold " + strconv.Itoa(r.Scale.Bodies)); err != nil {
		return nil, err
	}
	request := chatRequest("sim-1", r.Scale.BodySize, "")
	var running sync.WaitGroup
	for range r.Scale.Bodies {
		running.Go(func() {
			if err := r.sendLarge(ctx, t, request); err != nil {
				r.report.faults(t.name).add(err)
				r.sim.ask("open") // the others need not wait for this one
			}
		})
	}
	running.Wait()
	full, err := t.child.ask("usage")
	r.progressf("  %s: idle %d MiB, peak %d MiB", t.name, rest.RSS>>20, full.Peak>>20)
	return &memoryResult{idle: rest.RSS, peak: max(rest.RSS, full.Peak)}, err
}

func (r *run) sendLarge(ctx context.Context, t *target, request []byte) error {
	c, err := dial(ctx, t.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.roundTrip(request)
	return err
}

// measureStarts measures the time from starting a process to its first response.
func (r *run) measureStarts(ctx context.Context) error {
	for _, name := range r.forwarders() {
		var times []float64
		for range r.Scale.Starts {
			took, err := r.startOnce(ctx, name)
			if err != nil {
				return err
			}
			times = append(times, float64(took)/1e6)
		}
		r.report.addStart(name, median(times))
	}
	return nil
}

func (r *run) startOnce(ctx context.Context, name string) (took time.Duration, err error) {
	began := time.Now()
	c, err := r.spawn(ctx, name, r.sim.addr)
	if err != nil {
		return 0, err
	}
	conn, err := r.sample.askAgain(ctx, nil, c.addr)
	took = time.Since(began)
	if err == nil {
		conn.Close()
	}
	return took, errors.Join(err, c.stop())
}
