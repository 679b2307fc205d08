package dialect

// ThinkingBudget returns the number of thinking tokens for an effort, for
// targets that count them. ok is false for none and for unknown efforts. The
// scale follows common adapters: a quarter of the usual limit for low, all of
// it for xhigh.
func ThinkingBudget(effort string) (tokens int64, ok bool) {
	tokens, ok = budgets[effort]
	return tokens, ok
}

var budgets = map[string]int64{
	"minimal": 1024, "low": 1024, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768,
}

// EffortForBudget returns the effort for a budget of thinking tokens, for
// targets with named efforts.
func EffortForBudget(budget int64) string {
	switch {
	case budget == 0:
		return "none"
	case budget < 0:
		return "medium" // the model decides
	case budget <= 1024:
		return "low"
	case budget <= 8192:
		return "medium"
	}
	return "high"
}

// FitBudget returns a thinking budget that leaves half of a limit of tokens for
// the response if it does not fit below the limit, which may be nil.
func FitBudget(budget int64, limit *int64) int64 {
	if limit == nil || budget < *limit {
		return budget
	}
	return *limit / 2
}
