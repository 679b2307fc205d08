package reqlog

// ExchangeOutcome is how an exchange ended for its client. For single attempts see
// [Outcome].
type ExchangeOutcome uint8

// Outcomes of exchanges.
const (
	OutcomeOther     ExchangeOutcome = iota // complete, with a status that is neither 2xx nor an error: a redirect that passed through
	OutcomeSuccess                          // complete, with a status of 2xx
	OutcomeError                            // an error status, or a response that failed or broke off after its headers
	OutcomeCancelled                        // the client left before the end
)

var exchangeOutcomes = [...]string{"other", "success", "error", "cancelled"}

// String returns the name of the outcome.
func (o ExchangeOutcome) String() string {
	if int(o) < len(exchangeOutcomes) {
		return exchangeOutcomes[o]
	}
	return ""
}

// ParseOutcome returns the outcome with this name.
func ParseOutcome(name string) (o ExchangeOutcome, ok bool) {
	for i, n := range exchangeOutcomes {
		if n == name {
			return ExchangeOutcome(i), true
		}
	}
	return 0, false
}

// Outcome returns how the exchange ended. A response that failed after its
// headers is an error although its status is a success.
func (e *Entry) Outcome() ExchangeOutcome {
	if e.ErrorSource == "client" {
		return OutcomeCancelled
	}
	if e.ErrorCode != "" {
		return OutcomeError
	}
	return OutcomeOf(e.Status)
}

// OutcomeOf returns the outcome of an exchange with a known status and nothing else
// known.
func OutcomeOf(status int) ExchangeOutcome {
	switch {
	case status == 499:
		return OutcomeCancelled
	case status >= 400:
		return OutcomeError
	case status >= 200 && status <= 299:
		return OutcomeSuccess
	}
	return OutcomeOther
}

// CacheStatuses are the values of [Origin].CacheStatus.
var CacheStatuses = []string{"HIT", "SEMANTIC HIT", "MISS", "SEMANTIC MISS", "REFRESH", "DISABLED"}
