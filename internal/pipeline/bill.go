package pipeline

import (
	"sync"
	"sync/atomic"

	"modelgate/internal/catalog"
	"modelgate/internal/reqlog"
)

// bill is that of an exchange and its forks. It is safe for concurrent use.
type bill struct {
	attempts atomic.Uint32 // how many there are

	mu   sync.Mutex
	paid reqlog.Bill // guarded by mu
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

// Cost returns what the attempts so far cost together, and the row of the book
// for the last of them. It is not known where an answer's is not.
func (x *Exchange) Cost() (cost catalog.NanoDollars, row string, known bool) {
	b := x.bill()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paid.Cost()
}
