package quota

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Settlement is what a shared store is sent for one counter: the end of
// reservations, and what was used.
type Settlement struct {
	SettlementKey
	Held, Used int64
	Counted    int64         // as in [Limit], when it was reserved; a counter that the store has lost begins with it
	Lifetime   time.Duration // of the counter; not positive if it is over
}

// SettlementKey is what settlements that are added up have in common.
type SettlementKey struct {
	Counter string
	Budget  bool
	Window  int64 // of the grant
	Lease   int64 // generation of the grant
	// Generation is that of the settlement. Settlements of budgets lapse with it.
	Generation int64
}

// Settlements sends settlements to a shared store, in batches and in the
// background. What is not sent yet is added up by counter, so that its size is
// bounded by the number of counters in use.
//
// A batch is sent at most once: if it fails it is lost, because it may have been
// executed. The following batches wait until the store answers again.
type Settlements struct {
	// Send sends a batch, in no order.
	Send func(context.Context, []Settlement) error
	// Probe checks that the store answers, after a batch failed.
	Probe  func(context.Context) error
	Logger *slog.Logger // nil is silent

	parts [16]pendingPart
	wake  chan struct{}
	flush chan chan struct{}
	stop  chan struct{}
	ended sync.WaitGroup
	lost  atomic.Int64
}

// pendingPart is a part of the settlements that are not sent.
type pendingPart struct {
	mu   sync.Mutex
	list map[SettlementKey]*Settlement // guarded by mu
}

const (
	maxPending     = 4096 // keys in a part
	maxBatch       = 256
	settlePause    = 2 * time.Millisecond // in which settlements are added up
	settleDeadline = 2 * time.Second
	probePause     = 250 * time.Millisecond
)

// Start starts sending. The caller must call Close.
func (s *Settlements) Start() {
	s.wake, s.stop, s.flush = make(chan struct{}, 1), make(chan struct{}), make(chan chan struct{})
	s.ended.Go(s.run)
}

// Add adds the settlement of grants. It does not wait.
func (s *Settlements) Add(now time.Time, grants []Grant, u Use) {
	generation := GenerationAt(now)
	for _, g := range grants {
		k := SettlementKey{Counter: g.Limit.Counter, Budget: g.Limit.Window == 0, Window: g.Window, Lease: g.Lease, Generation: generation}
		p := &s.parts[maphash.String(seed, k.Counter)%uint64(len(s.parts))]
		p.mu.Lock()
		e := p.list[k]
		if e == nil && len(p.list) < maxPending {
			if p.list == nil {
				p.list = make(map[SettlementKey]*Settlement)
			}
			e = &Settlement{SettlementKey: k, Lifetime: g.Limit.lifetime(g.Window, now)}
			p.list[k] = e
		}
		if e == nil {
			s.lost.Add(1)
		} else {
			e.Held, e.Used = add(e.Held, g.Amount), add(e.Used, u.Of(g.Limit.Measure))
			e.Counted = max(e.Counted, g.Limit.Counted)
		}
		p.mu.Unlock()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Lost returns how many settlements were not sent, or sent and not confirmed.
func (s *Settlements) Lost() int64 { return s.lost.Load() }

// Flush waits until what was added before is sent, unless the store fails.
func (s *Settlements) Flush() {
	done := make(chan struct{})
	select {
	case s.flush <- done:
		<-done
	case <-s.stop:
	}
}

// Close sends what is left, if the store answers, and stops.
func (s *Settlements) Close() {
	close(s.stop)
	s.ended.Wait()
}

func (s *Settlements) run() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.stop:
			s.sendAll()
			return
		case done := <-s.flush:
			s.sendAll()
			close(done)
			continue
		case <-s.wake:
		}
		pause.Reset(settlePause)
		select {
		case <-pause.C:
		case <-s.stop:
		}
		if !s.sendAll() {
			s.await()
		}
	}
}

// await waits until the store answers.
func (s *Settlements) await() {
	t := time.NewTicker(probePause)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case done := <-s.flush:
			close(done)
		case <-t.C:
			ctx, cancel := context.WithTimeout(context.Background(), settleDeadline)
			err := s.Probe(ctx)
			cancel()
			if err == nil {
				s.signal()
				return
			}
		}
	}
}

func (s *Settlements) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sendAll sends what was added until a batch fails.
func (s *Settlements) sendAll() bool {
	for {
		batch := s.take()
		if len(batch) == 0 {
			return true
		}
		ctx, cancel := context.WithTimeout(context.Background(), settleDeadline)
		err := s.Send(ctx, batch)
		cancel()
		if err == nil {
			continue
		}
		s.lost.Add(int64(len(batch)))
		if s.Logger != nil {
			s.Logger.Warn("settlements of limits lost", "counters", len(batch), "err", err.Error())
		}
		return false
	}
}

// take returns at most maxBatch settlements and removes them.
func (s *Settlements) take() (batch []Settlement) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for k, e := range p.list {
			if len(batch) == maxBatch {
				break
			}
			batch = append(batch, *e)
			delete(p.list, k)
		}
		p.mu.Unlock()
	}
	return batch
}
