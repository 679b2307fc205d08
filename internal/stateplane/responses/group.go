package responses

import (
	"context"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// maxGroup limits the changes of one transaction.
const maxGroup = 256

// group stores changes of concurrent requests in common transactions: while one is being
// stored, others gather for the next. Nobody waits for a timer. It is safe for concurrent
// use.
type group struct {
	db *store.DB

	mu      sync.Mutex
	waiting []*write  // guarded by mu
	running bool      // guarded by mu
	hung    time.Time // when a write last waited in vain; guarded by mu
}

// pause is how long nothing is stored after a write has waited in vain: requests do not wait
// for a database that does not respond.
const pause = 5 * time.Second

// errHung is the error of writes in a pause.
var errHung = apierr.New(apierr.Unavailable, "the control plane's database does not respond").WithCode("database_unavailable")

// write is a change that waits for its transaction.
type write struct {
	change change
	done   chan error // has room for the result
}

// do stores a change, which may run more than once. An error of ctx means that the change
// may still be stored; then, no change is accepted for some seconds.
func (g *group) do(ctx context.Context, f change) error {
	w := &write{change: f, done: make(chan error, 1)}
	g.mu.Lock()
	if !g.hung.IsZero() && time.Since(g.hung) < pause {
		g.mu.Unlock()
		return errHung
	}
	g.waiting = append(g.waiting, w)
	isFirst := !g.running
	g.running = true
	g.mu.Unlock()
	if isFirst {
		go g.run(context.WithoutCancel(ctx)) // the waiting requests wait for it
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.hung = time.Now()
		return context.Cause(ctx)
	}
}

// run stores the waiting changes until there are none.
func (g *group) run(ctx context.Context) {
	for {
		g.mu.Lock()
		n := min(len(g.waiting), maxGroup)
		list := g.waiting[:n:n]
		g.waiting = g.waiting[n:]
		if n == 0 {
			g.running, g.waiting = false, nil
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		g.store(ctx, list)
	}
}

// store stores changes in one transaction. If one of them fails, each is stored by itself.
func (g *group) store(ctx context.Context, list []*write) {
	err := g.transact(ctx, list)
	if err == nil || len(list) == 1 {
		for _, w := range list {
			w.done <- err
		}
		return
	}
	for _, w := range list {
		w.done <- g.transact(ctx, []*write{w})
	}
}

func (g *group) transact(ctx context.Context, list []*write) error {
	return g.db.Transact(ctx, func(tx *store.Tx) error {
		for _, w := range list {
			if err := w.change(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}
