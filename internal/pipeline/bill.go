package pipeline

import (
	"math"
	"sync"
	"sync/atomic"

	"modelgate/internal/catalog"
	"modelgate/internal/reqlog"
)

// bill sums up the attempts of an exchange, those of its forks too. It is safe
// for concurrent use.
type bill struct {
	attempts atomic.Uint32 // how many there are

	mu       sync.Mutex
	sum      catalog.NanoDollars // guarded by mu, as is all below
	row      string              // of the price of the last that has one
	known    bool                // the cost of one at least
	answered bool                // one has answered whose cost is not known
}

// add takes in how an attempt has ended. One without an answer is not known to
// have cost anything.
func (b *bill) add(s *reqlog.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.Priced {
		b.answered = b.answered || s.Outcome == reqlog.Answered
		return
	}
	b.sum += min(s.Cost, math.MaxInt64-b.sum)
	b.row, b.known = s.Price, true
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
	if !b.known || b.answered {
		return 0, "", false
	}
	return b.sum, b.row, true
}
