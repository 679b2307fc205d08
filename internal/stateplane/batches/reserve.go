package batches

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/bits"
	"net/http"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

const (
	// mostEstimated is how many lines of a batch are estimated. Of more lines, as many that
	// lie at equal distances stand for the others.
	mostEstimated = 2000

	// assumedOutput is the output in tokens that is assumed of a line that sets no limit.
	assumedOutput = 1000

	// mostBudgets is how many budgets a batch reserves of. Policies that group requests by
	// model may have one for each line.
	mostBudgets = 200
)

// reserve reserves what the lines of a new batch are expected to use of the budgets that
// bind them. What was granted is in the details, and must be stored with the record.
func reserve(q *kept.Request, o *store.Object, d *details, file *store.Object) error {
	b := &q.Deps.Budgets
	if b.Counters == nil || !b.MayBind(q.From.Identity) {
		return nil
	}
	if file.ProviderID != "" {
		return refuseUnknown(q)
	}
	claims, err := estimate(q, o, d, file)
	if err != nil {
		return err
	}
	d.grants, err = metering.ReserveBatch(q.HTTP.Context(), b.Counters, claims, q.Deps.Limits.StrictBudgets)
	if err != nil {
		return err
	}
	for _, g := range d.grants {
		d.Reserved = append(d.Reserved, store.BudgetHold{Counter: g.Limit.Counter, Amount: g.Amount})
	}
	return nil
}

// refuseUnknown returns an error for a batch that cannot be estimated, if batches must fit.
func refuseUnknown(q *kept.Request) error {
	if !q.Deps.Limits.StrictBudgets {
		return nil
	}
	return apierr.New(apierr.Invalid, "a budget binds this key, and the batch can't be estimated since its file is at the provider; upload the file without x-gateway-provider").
		WithParam("input_file_id").WithCode("batch_not_estimated")
}

// estimate estimates what the lines of a batch use of budgets, and returns a claim for each.
// A line that is invalid, or that would be refused, uses nothing.
func estimate(q *kept.Request, o *store.Object, d *details, file *store.Object) ([]quota.Claim, error) {
	lines, err := countLines(q, file)
	if err != nil {
		return nil, err
	}
	in, err := q.Deps.Open(q.HTTP.Context(), file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	e := &estimator{q: q, headers: d.lineHeaders(o), index: make(map[string]int), line: exchange.BatchLine{Output: assumedOutput}}
	if !isManaged(o) {
		e.line.Tier = catalog.Batch
	}
	step, sampled := (lines+mostEstimated-1)/mostEstimated, 0
	for reader := newLineReader(in); ; {
		text, number, err := reader.next()
		switch {
		case err == io.EOF:
			for i := range e.claims {
				e.claims[i].Amount = share(e.claims[i].Amount, lines, max(sampled, 1))
			}
			return e.claims, nil
		case err == errLineTooLong:
			return e.claims, nil // the batch is refused for it
		case err != nil:
			return nil, kept.StoreFailed(err)
		case (number-1)%step != 0:
			continue
		}
		sampled++
		if l, fault := parseLine(bytes.Clone(text), number, d.Batch.Endpoint); fault == nil {
			e.add(&l)
		}
	}
}

// estimator sums up what lines may use.
type estimator struct {
	q       *kept.Request
	headers map[string]string // of the requests of lines
	line    exchange.BatchLine

	claims []quota.Claim  // one for each budget
	index  map[string]int // of claims, by counter
}

// add adds what a line may use.
func (e *estimator) add(l *line) {
	r, err := lineRequest(e.q.HTTP.Context(), l, e.headers, e.q.From.TraceID)
	if err != nil {
		return
	}
	uses, err := e.q.Deps.Budgets.Estimate(r, e.q.From.Identity, &e.line)
	if err != nil {
		return
	}
	for _, u := range uses {
		i, ok := e.index[u.Limit.Counter]
		switch {
		case !ok && len(e.claims) == mostBudgets:
			continue
		case !ok:
			i = len(e.claims)
			e.index[u.Limit.Counter], e.claims = i, append(e.claims, quota.Claim{Limit: u.Limit})
		}
		c := &e.claims[i]
		c.Amount += min(u.Amount, math.MaxInt64-c.Amount)
	}
}

// countLines returns the number of lines of a file.
func countLines(q *kept.Request, file *store.Object) (n int, err error) {
	in, err := q.Deps.Open(q.HTTP.Context(), file)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	for reader := newLineReader(in); ; {
		text, number, err := reader.next()
		switch {
		case err == io.EOF || err == errLineTooLong:
			return max(n, 1), nil
		case err != nil:
			return 0, kept.StoreFailed(err)
		case !isEmpty(text):
			n = number
		}
	}
}

// share returns n times part, divided by all and rounded down; at most the largest integer.
func share(n int64, part, all int) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(part))
	if hi >= uint64(all) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(all))
	return int64(min(q, math.MaxInt64))
}

// lineHeaders returns the headers of the requests of lines.
func (d *details) lineHeaders(o *store.Object) map[string]string {
	if isManaged(o) {
		return d.Headers
	}
	h := map[string]string{api.HeaderProvider: o.Provider}
	if m := d.Headers[api.HeaderMetadata]; m != "" {
		h[api.HeaderMetadata] = m
	}
	return h
}

// lineRequest returns the request of a line.
func lineRequest(ctx context.Context, l *line, headers map[string]string, trace string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL, bytes.NewReader(l.Body))
	if err != nil {
		return nil, err
	}
	r.RequestURI = l.URL
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header[name] = []string{value}
	}
	if r.Header[api.HeaderTraceID] == nil && trace != "" {
		r.Header[api.HeaderTraceID] = []string{trace}
	}
	return r, nil
}

// addNew stores the record of a new batch with its job and what it has reserved.
func addNew(q *kept.Request, o *store.Object, d *details, j store.Job) error {
	ctx := context.WithoutCancel(q.HTTP.Context())
	err := d.keep(o)
	if err == nil {
		err = q.Change(func(tx *store.Tx) error {
			if err := q.Add(ctx, tx, *o); err != nil {
				return err
			}
			if err := tx.SetBudgetHolds(ctx, o.ID, d.Reserved); err != nil {
				return err
			}
			return tx.AddJob(ctx, j)
		})
	}
	switch {
	case len(d.grants) == 0:
	case err != nil:
		q.Deps.Budgets.Counters.Settle(time.Now(), d.grants, quota.Use{})
	default:
		q.Deps.Budgets.Counters.HandOver(d.grants)
		reloadHolds(ctx, q.Deps)
	}
	return err
}
