package quota

// Exhausted is the cause of an error for a budget that is marked as exhausted: counters
// were not asked. It says which limits are checked before that budget.
type Exhausted struct {
	// Kind is the kind of the budget's holder. Empty means a provider or its integration.
	Kind string
	// Target are the limits of the provider, in their order. Nil if Kind is not empty.
	Target []*Limit
}

// Error describes the mark for the process log.
func (e *Exhausted) Error() string { return "marked as exhausted" }

// Before returns the limits that are checked before the budget, of those of the client and
// of the target. The slice is shared.
func (e *Exhausted) Before(client []*Limit) []*Limit {
	all := client
	if len(e.Target) > 0 {
		all = append(client[:len(client):len(client)], e.Target...)
	}
	after := len(client) // the last limit of the holder
	for i, l := range all {
		if l.PerAttempt != (e.Kind == "") || e.Kind != "" && l.Holder.Kind != e.Kind {
			continue
		}
		if l.Window == 0 && l.Measure != Concurrent && l.Counted >= l.Max {
			return all[:i]
		}
		after = i + 1
	}
	return all[:after]
}
