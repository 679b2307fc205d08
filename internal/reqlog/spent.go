package reqlog

import (
	"math"

	"modelgate/internal/catalog"
	"modelgate/internal/llm"
)

// SpendOwner is who an attempt is counted for. Each name is empty where there is
// none.
type SpendOwner struct {
	Organisation string
	Workspace    string
	KeyID        string
	Slug         string // of the managed provider
}

// Spend is what attempts came to. The zero value is of none. Sums end at the
// largest number there is.
type Spend struct {
	Attempts int64
	Cost     catalog.NanoDollars // assumed for attempts without a price, see [AssumedInput]
	Tokens   int64               // reported or estimated
	Unknown  int64               // attempts that may have used tokens nobody knows of
	Unpriced int64               // attempts whose tokens are known and whose price is not
}

// AddSettlement takes in how an attempt has ended.
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

// What a token without a price costs a budget, in nano-dollars: no less than most
// models of the price book cost, so that nothing is free for want of a price.
const (
	AssumedInput  = 10_000 // $10 for a million tokens
	AssumedOutput = 50_000 // $50 for a million tokens
)

func assumedCost(u llm.Usage) catalog.NanoDollars {
	const most = math.MaxInt64 / AssumedOutput / 4
	return catalog.NanoDollars(min(u.Prompt(), most)*AssumedInput + min(u.Completion(), most)*AssumedOutput)
}

// Add takes in what others came to.
func (s *Spend) Add(t Spend) {
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
