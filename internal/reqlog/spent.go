package reqlog

import (
	"math"

	"modelgate/internal/catalog"
)

// Owner is who an attempt is counted for. Each name is empty where there is
// none.
type Owner struct {
	Organisation string
	Workspace    string
	KeyID        string
	Slug         string // of the managed provider
}

// Spent is what attempts came to. The zero value is of none. Sums end at the
// largest number there is.
type Spent struct {
	Attempts int64
	Cost     catalog.NanoDollars // of the attempts whose cost is known
	Tokens   int64               // as far as they were reported
	Unknown  int64               // attempts that may have used tokens nobody knows of
	Unpriced int64               // attempts whose tokens are known and whose price is not
}

// Settle takes in how an attempt has ended.
func (s *Spent) Settle(t *Settlement) {
	s.Attempts++
	if t.Usage.Known {
		s.Tokens = saturated(s.Tokens, t.Usage.Total())
	}
	switch {
	case t.Priced:
		s.Cost = saturated(s.Cost, t.Cost)
	case t.Usage.Known:
		s.Unpriced++
	case t.Outcome == Answered || t.Outcome == Estimated:
		s.Unknown++
	}
}

// Add takes in what others came to.
func (s *Spent) Add(t Spent) {
	s.Attempts = saturated(s.Attempts, t.Attempts)
	s.Cost = saturated(s.Cost, t.Cost)
	s.Tokens = saturated(s.Tokens, t.Tokens)
	s.Unknown = saturated(s.Unknown, t.Unknown)
	s.Unpriced = saturated(s.Unpriced, t.Unpriced)
}

// saturated adds what is no less than zero.
func saturated[T ~int64](a, b T) T {
	b = max(b, 0)
	return a + min(b, math.MaxInt64-a)
}
