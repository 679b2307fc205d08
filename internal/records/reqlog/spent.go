package reqlog

import (
	"math"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// SpendOwner identifies what an attempt is counted for. Unused names are empty.
type SpendOwner struct {
	Organisation string
	Workspace    string
	KeyID        string
	Slug         string // of the managed provider
}

// Spend is the total of attempts. The zero value is empty. Sums stop at the largest
// integer.
type Spend struct {
	Attempts int64
	Cost     catalog.NanoDollars // assumed for attempts without a price, see [AssumedInput]
	Tokens   int64               // reported or estimated
	Unknown  int64               // attempts that may have used an unknown number of tokens
	Unpriced int64               // attempts with known tokens and unknown price
}

// AddSettlement adds the result of an attempt.
func (s *Spend) AddSettlement(t *Settlement) {
	s.Attempts++
	if t.Usage.Known {
		s.Tokens = saturated(s.Tokens, t.Usage.Total())
	}
	switch {
	case t.Priced:
		s.Cost = saturated(s.Cost, t.Cost)
	case t.Usage.Known:
		s.Unpriced++
		s.Cost = saturated(s.Cost, assumedCost(t.Usage))
	case t.Outcome == Answered || t.Outcome == Estimated:
		s.Unknown++
	}
}

// Assumed cost of tokens without a price, in nano-dollars, used for budgets: higher
// than most models of the price book, so that a missing price does not make requests
// free.
const (
	AssumedInput  = 10_000 // $10 per million tokens
	AssumedOutput = 50_000 // $50 per million tokens
)

func assumedCost(u llm.Usage) catalog.NanoDollars {
	const most = math.MaxInt64 / AssumedOutput / 4
	return catalog.NanoDollars(min(u.Prompt(), most)*AssumedInput + min(u.Completion(), most)*AssumedOutput)
}

// Add adds t.
func (s *Spend) Add(t Spend) {
	s.Attempts = saturated(s.Attempts, t.Attempts)
	s.Cost = saturated(s.Cost, t.Cost)
	s.Tokens = saturated(s.Tokens, t.Tokens)
	s.Unknown = saturated(s.Unknown, t.Unknown)
	s.Unpriced = saturated(s.Unpriced, t.Unpriced)
}

// saturated adds two non-negative numbers.
func saturated[T ~int64](a, b T) T {
	b = max(b, 0)
	return a + min(b, math.MaxInt64-a)
}
