package batches

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"testing"

	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// crash runs a batch on a node until ready, then takes its database away, so that it stores
// nothing of its end.
func crash(t *testing.T, n *node, ready func() bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.jobs(killLease).Run(ctx)
	}()
	waittest.Until(t, "the moment of the crash", ready)
	n.deps.DB.Close()
	stop()
	waittest.Receive(t, done, "the end of the node")
}

// TestLinesThatNeverLeftTheNodeAreNotInterrupted has two nodes crash while a limit refuses the
// first line, the second is at its provider, and the others wait for a place.
func TestLinesThatNeverLeftTheNodeAreNotInterrupted(t *testing.T) {
	const limited, inFlight = `[0]`, `[1]`
	p := newFakeProvider()
	p.reply = func(ctx context.Context, _ []byte) []byte {
		<-ctx.Done()
		return nil
	}
	refuse := func(w http.ResponseWriter, r *http.Request, c *dataplane.Call) {
		body, _ := io.ReadAll(r.Body) // in memory
		if bytes.Contains(body, []byte(limited)) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.call(w, r, c)
	}
	dsn, folder := sqlite(t), t.TempDir()
	var id string
	for crashes := 1; crashes <= 2; crashes++ {
		n, reader := newNode(storetest.Open(t, dsn), folder, 2, refuse), newNode(storetest.Open(t, dsn), folder, 2, nil)
		if id == "" {
			id = n.add(t, linesOfInput(6))
		}
		crash(t, n, func() bool {
			_, d := reader.read(t, id)
			return p.total() == crashes && slices.Equal(d.Waiting, []int{1})
		})
	}
	p.reply = newFakeProvider().reply
	n := newNode(storetest.Open(t, dsn), folder, 2, p.call)
	n.follow(t, killLease)
	waittest.Until(t, "the end of the batch", func() bool { return n.hasEnded(t, id) })
	all := n.mustEnd(t, id, 6, vendorbatch.Completed)
	for name, r := range all {
		failed := r.Error != nil && r.Error.Code == "batch_line_interrupted"
		if failed != (name == "c1") || name == "c0" && r.Repeated {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := p.sent[`{"model":"m","messages":`+inFlight+`}`]; got != 2 {
		t.Errorf("the line in flight was sent %d times", got)
	}
}
