package batches

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
)

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// mostHeap runs a batch of lines and returns by how much the heap grew at most.
func mostHeap(t *testing.T, n *node, lines int) int64 {
	t.Helper()
	id := n.add(t, linesOfInput(lines))
	before := heap()
	var most atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
			select {
			case <-tick.C:
				most.Store(max(most.Load(), heap()-before))
			case <-ctx.Done():
			}
		}
	})
	n.jobs(0).RunDue(t.Context())
	stop()
	watching.Wait()
	if o, d := n.read(t, id); o.State != string(vendorbatch.Completed) || d.Batch.RequestCounts.Completed != int64(lines) {
		t.Fatalf("%s: %+v", o.State, d.Batch)
	}
	return most.Load()
}

func TestMemoryDoesNotGrowWithTheLines(t *testing.T) {
	if testing.Short() {
		return // takes seconds
	}
	n := start(t, sqlite(t), 16, newFakeProvider())
	grown := mostHeap(t, n, 100_000)
	t.Logf("100,000 lines: the heap grew by at most %.1f MB", float64(grown)/(1<<20))
	if grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func TestMemoryIsBoundedByWhatIsInProgress(t *testing.T) {
	if testing.Short() {
		return // takes seconds
	}
	const size, atOnce = 2 << 20, 16
	body := []byte(`{"text":"` + string(bytes.Repeat([]byte("x"), size)) + `"}`)
	p := newFakeProvider()
	p.reply = func(context.Context, []byte) []byte { return body }
	n := start(t, sqlite(t), atOnce, p)
	grown := mostHeap(t, n, 150)
	t.Logf("responses of %d MB, %d at once: the heap grew by at most %.1f MB", size>>20, atOnce, float64(grown)/(1<<20))
	if grown > 6*size*atOnce {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// TestABatchIsAsFastAsItsRequests compares a batch with the same requests sent by as many
// clients.
func TestABatchIsAsFastAsItsRequests(t *testing.T) {
	if testing.Short() {
		return // takes seconds
	}
	const lines, atOnce = 4000, 16
	p := newFakeProvider()
	p.reply = func(context.Context, []byte) []byte {
		<-time.After(20 * time.Millisecond)
		return []byte(`{"object":"chat.completion"}`)
	}
	n := start(t, sqlite(t), atOnce, p)
	began := time.Now()
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(lines)
	for range atOnce {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				r, err := http.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", bytes.NewReader([]byte("{}")))
				if err != nil {
					t.Error(err)
					return
				}
				n.deps.Call(new(kept.Capture), r, new(dataplane.Call))
			}
		})
	}
	clients.Wait()
	alone := time.Since(began)
	id := n.add(t, linesOfInput(lines))
	began = time.Now()
	n.jobs(0).RunDue(t.Context())
	batch := time.Since(began)
	n.mustEnd(t, id, lines, vendorbatch.Completed)
	ratio := alone.Seconds() / batch.Seconds()
	t.Logf("%d requests: %s alone, %s as a batch: %.2f of the throughput", lines, alone.Round(time.Millisecond), batch.Round(time.Millisecond), ratio)
	if ratio < 0.75 { // 0.9 on a machine without other work
		t.Errorf("the batch has %.2f of the throughput", ratio)
	}
}
