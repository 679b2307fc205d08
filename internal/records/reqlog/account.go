package reqlog

import (
	"math"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// ProviderTools is the provider of attempts at tool servers. Their slug is that of the
// server, which a managed provider may have too.
const ProviderTools = "mcp"

// Intent is what is known about an attempt before it is sent.
type Intent struct {
	ID      ID     // of the exchange
	Attempt uint16 // number of the attempt in the exchange, from 1
	Time    time.Time

	Organisation string
	Workspace    string
	KeyID        string
	Provider     string
	Slug         string
	Model        string // as sent to the provider

	// RequestBytes is the size of the client's body, -1 if unknown.
	RequestBytes int64

	// Flat is true if the attempt costs Price, whatever it uses, and uses no tokens: a call of
	// a tool.
	Flat  bool
	Price catalog.NanoDollars

	// Counters are the names of the budgets of policies that the attempt counts
	// for, without their common prefix. The slice is not changed.
	Counters []string
}

// Outcome is how an attempt ended.
type Outcome uint8

// Outcomes. The zero value is none.
const (
	Answered  Outcome = 1 + iota // with a success status, complete or not
	Refused                      // with an error status
	Failed                       // without a usable response
	Abandoned                    // the client left, or another target was faster
	Estimated                    // unknown: the gateway ended before the attempt did
)

var outcomes = [...]string{"", "answered", "refused", "failed", "abandoned", "estimated"}

// String returns the outcome's name, empty for none.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return ""
}

// Settlement is the result of an attempt.
type Settlement struct {
	ID      ID
	Attempt uint16
	Time    time.Time
	Outcome Outcome
	Status  int // of the provider's response; zero without one

	// Usage is the usage reported by the provider, or an estimate marked as such.
	Usage llm.Usage

	// Cost is the cost of Usage by the price row Price. If either is unknown, Priced is
	// false and both are empty.
	Cost   catalog.NanoDollars
	Priced bool
	Price  string
}

// ExchangeCost adds up the cost of an exchange's attempts. The zero value is empty.
type ExchangeCost struct {
	sum    catalog.NanoDollars
	row    string // of the last attempt with a price
	known  bool   // the cost of at least one is known
	unsure bool   // one succeeded, or may have, with unknown cost
	guess  bool   // the cost of one is estimated
}

// Add adds the result of an attempt. One without a response is assumed to cost nothing
// and does not make the total unknown.
func (b *ExchangeCost) Add(s *Settlement) {
	if !s.Priced {
		b.unsure = b.unsure || s.Outcome == Answered || s.Outcome == Estimated
		return
	}
	b.sum += min(s.Cost, math.MaxInt64-b.sum)
	b.row, b.known = s.Price, true
	b.guess = b.guess || s.Usage.Estimated
}

// Fill writes the total into e.
func (b *ExchangeCost) Fill(e *Entry) {
	e.Cost, e.Price, e.Priced = b.Cost()
	e.CostEstimated = e.Priced && b.guess
}

// Cost returns the total cost of the attempts, and the row of the price book for the
// last of them.
func (b *ExchangeCost) Cost() (cost catalog.NanoDollars, row string, known bool) {
	if !b.known || b.unsure {
		return 0, "", false
	}
	return b.sum, b.row, true
}
