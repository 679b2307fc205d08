package dialect

// ThinkingBudget returns how many tokens of thinking an effort stands for, for targets
// that count them; ok is false for none and for words that mean nothing. The
// scale is that of the trade's adapters: a quarter of the usual limits at low,
// all of it at xhigh.
func ThinkingBudget(effort string) (tokens int64, ok bool) {
	tokens, ok = budgets[effort]
	return tokens, ok
}

var budgets = map[string]int64{
	"minimal": 1024, "low": 1024, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768,
}

// EffortForBudget returns the effort that a budget of thinking stands for, for targets
// that take words.
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
