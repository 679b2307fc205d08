package reqlog

import (
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

	// RequestBytes is the size of the client's body, -1 when it is not known.
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
	Estimated                    // not known: the gateway ended before the attempt did
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

	// Usage is what the provider reported. Where Outcome is Estimated, Input is
	// a guess by the size of the request, zero for none, and Known is false.
	Usage llm.Usage

	// Cost is what Usage costs by the price row that Price names. Priced is
	// false, and both are empty, where either is not known.
	Cost   catalog.NanoDollars
	Priced bool
	Price  string
}
