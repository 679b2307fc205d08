package reqlog

import (
	"math"
	"time"

	"modelgate/internal/catalog"
	"modelgate/internal/llm"
)

// Intent is what is known of an attempt before it is sent.
type Intent struct {
	ID      ID     // of the exchange
	Attempt uint16 // counts the attempts of the exchange, from 1
	Time    time.Time

	Organisation string
	Workspace    string
	KeyID        string
	Provider     string
	Slug         string
	Model        string // as asked of the provider

	// RequestBytes is the size of the client's body, -1 when it is unknown.
	RequestBytes int64
}

// Outcome is how an attempt ended.
type Outcome uint8

// Outcomes. The zero value is none.
const (
	Answered  Outcome = 1 + iota // with success, whole or not
	Refused                      // with an error status
	Failed                       // no answer, or none that could be used
	Abandoned                    // the client left, or another target was quicker
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

// Settlement is what an attempt came to.
type Settlement struct {
	ID      ID
	Attempt uint16
	Time    time.Time
	Outcome Outcome
	Status  int // of the provider's answer; zero when none came

	// Usage is what the provider reported, or an estimate that says so.
	Usage llm.Usage

	// Cost is what Usage costs by the price row that Price names. Priced is
	// false, and both are empty, where either is unknown.
	Cost   catalog.NanoDollars
	Priced bool
	Price  string
}

// ExchangeCost sums up the attempts of an exchange. The zero value has none.
type ExchangeCost struct {
	sum    catalog.NanoDollars
	row    string // of the price of the last that has one
	known  bool   // the cost of one at least
	unsure bool   // one has answered, or may have, whose cost is unknown
	guess  bool   // the cost of one is that of estimated usage
}

// Add takes in how an attempt has ended. One without an answer is not known to
// have cost anything, and does not make the others' cost unknown.
func (b *ExchangeCost) Add(s *Settlement) {
	if !s.Priced {
		b.unsure = b.unsure || s.Outcome == Answered || s.Outcome == Estimated
		return
	}
	b.sum += min(s.Cost, math.MaxInt64-b.sum)
	b.row, b.known = s.Price, true
	b.guess = b.guess || s.Usage.Estimated
}

// Fill writes what the attempts cost together into e.
func (b *ExchangeCost) Fill(e *Entry) {
	e.Cost, e.Price, e.Priced = b.Cost()
	e.CostEstimated = e.Priced && b.guess
}

// Cost returns what the attempts cost together, and the row of the price book for
// the last of them.
func (b *ExchangeCost) Cost() (cost catalog.NanoDollars, row string, known bool) {
	if !b.known || b.unsure {
		return 0, "", false
	}
	return b.sum, b.row, true
}
