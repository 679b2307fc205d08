package pipeline

import (
	"sync"
	"sync/atomic"

	"modelgate/internal/reqlog"
)

// bill is that of an exchange and its forks. It is safe for concurrent use.
type bill struct {
	attempts atomic.Uint32 // how many there are

	mu   sync.Mutex
	paid reqlog.ExchangeCost // guarded by mu
}

func (b *bill) add(s *reqlog.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid.Add(s)
}

// bill returns that of the exchange.
func (x *Exchange) bill() *bill {
	if x.shared == nil {
		x.shared = &x.own
	}
	return x.shared
}

// FillCost writes what the attempts so far cost together into the entry. It is
// unknown where an answer's is.
func (x *Exchange) FillCost() {
	b := x.bill()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid.Fill(x.Entry)
}
