package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"modelgate/internal/records/reqlog"
)

// CodeInterrupted is the error code of an entry created at the start from attempts
// whose process ended before the exchange.
const CodeInterrupted = "interrupted"

// entries creates the rows of exchanges that have none, sorted by id. Values known only
// to the process are missing.
func (m *recovery) entries() (list []*reqlog.Entry) {
	attempts := map[reqlog.ID][]*reqlog.Intent{}
	for _, i := range m.intents {
		if m.exchanges[i.ID] {
			attempts[i.ID] = append(attempts[i.ID], i)
		}
	}
	for _, tries := range attempts {
		slices.SortFunc(tries, byAttempt)
		list = append(list, m.entry(tries))
	}
	slices.SortFunc(list, func(a, b *reqlog.Entry) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return list
}

// entry creates the row of an exchange from its settled attempts.
func (m *recovery) entry(tries []*reqlog.Intent) *reqlog.Entry {
	first, last := tries[0], tries[len(tries)-1]
	e := &reqlog.Entry{
		ID: first.ID, Time: first.ID.Time(), Trace: reqlog.Trace{TraceID: first.ID.String()},
		Sender: reqlog.Sender{Organisation: first.Organisation, Workspace: first.Workspace, KeyID: first.KeyID},
		Origin: reqlog.Origin{Provider: last.Provider, Slug: last.Slug, UpstreamModel: last.Model, CacheStatus: "DISABLED"},
		Input:  reqlog.Input{Model: last.Model, RequestBytes: max(first.RequestBytes, 0)},
		Result: reqlog.Result{ErrorSource: "gateway", ErrorCode: CodeInterrupted,
			ErrorMessage: "the gateway ended before the request was recorded"},
	}
	var bill reqlog.ExchangeCost
	for _, i := range tries {
		s := m.settled[attempt{i.ID, i.Attempt}]
		e.Attempts = append(e.Attempts, reqlog.Attempt{
			Provider: i.Provider, Slug: i.Slug, Status: s.Status, Start: i.Time.Sub(e.Time), Took: s.Time.Sub(i.Time)})
		bill.Add(s)
		if s.Outcome == reqlog.Estimated {
			markEstimated(e, i, s)
			if !e.Usage.Known {
				e.Usage = s.Usage
			}
			continue
		}
		e.Status, e.Usage = cmp.Or(s.Status, e.Status), s.Usage
		e.Total = s.Time.Sub(e.Time)
	}
	if e.Status == 0 {
		e.Status = 503
	}
	bill.Fill(e)
	return e
}

// markEstimated marks an entry as an estimate.
func markEstimated(e *reqlog.Entry, i *reqlog.Intent, s *reqlog.Settlement) {
	a := &e.Attempts[len(e.Attempts)-1]
	a.Took, a.Error = 0, "the gateway ended before the attempt did"
	text := fmt.Sprintf("attempt %d is an estimate: its end is unknown", i.Attempt)
	if s.Usage.Input > 0 {
		text += fmt.Sprintf("; by its size the request had about %d tokens", s.Usage.Input)
	}
	e.Decisions = append(e.Decisions, reqlog.Decision{Text: text})
}
