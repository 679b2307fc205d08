package batches

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// Limits of how many batches a node asks for, or downloads, at a time. A provider that hangs
// takes the places of its own batches only, and a workspace with many such providers those of
// the workspace.
const (
	pollsOfProvider  = 8
	pollsOfWorkspace = 32
)

// pollGate counts the batches that a node asks for. It is safe for concurrent use.
type pollGate struct {
	mu    sync.Mutex
	inUse map[string]int // by workspace, and by workspace and provider; guarded by mu
}

// enter takes a place for a batch, which leave returns. It reports false if there is none.
func (g *pollGate) enter(o *store.Object) (leave func(), ok bool) {
	workspace, at := o.Workspace, o.Workspace+"/"+o.Provider
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse[workspace] >= pollsOfWorkspace || g.inUse[at] >= pollsOfProvider {
		return nil, false
	}
	if g.inUse == nil {
		g.inUse = make(map[string]int)
	}
	g.inUse[workspace]++
	g.inUse[at]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, key := range [...]string{workspace, at} {
			if g.inUse[key]--; g.inUse[key] == 0 {
				delete(g.inUse, key)
			}
		}
	}, true
}

// errStalled ends a download whose provider sends nothing.
var errStalled = errors.New("the provider sends nothing")

// stallWatch ends a context when a provider is waited for too long. It does not measure
// the time in which nothing is asked of the provider. Nil never ends anything.
type stallWatch struct {
	timer *time.Timer
	after time.Duration
}

// begin begins to wait for the provider.
func (s *stallWatch) begin() {
	if s != nil {
		s.timer.Reset(s.after)
	}
}

// end ends the wait.
func (s *stallWatch) end() {
	if s != nil {
		s.timer.Stop()
	}
}

// watchedBody is the body of a response of a provider that must go on.
type watchedBody struct {
	io.ReadCloser
	watch *stallWatch
}

// Read implements [io.Reader].
func (b *watchedBody) Read(p []byte) (int, error) {
	b.watch.begin()
	defer b.watch.end()
	return b.ReadCloser.Read(p)
}

// fetchWatched fetches results, and ends when the provider does not go on: a slow download may take
// hours, but one that stalls is tried again later.
func (f *followed) fetchWatched(ctx context.Context, b *vendorbatch.Batch) (*results, error) {
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := &stallWatch{after: f.stall, timer: time.AfterFunc(f.stall, func() { stop(errStalled) })}
	defer w.end()
	w.end()
	f.caller.watch = w
	defer func() { f.caller.watch = nil }()
	x, err := f.fetch(watched, b)
	if err != nil && errors.Is(context.Cause(watched), errStalled) {
		return nil, apierr.New(apierr.UpstreamTimeout, "the provider %s sent nothing of the results for %s; they are fetched again later",
			f.object.Provider, f.stall).WithCause(err)
	}
	return x, err
}
