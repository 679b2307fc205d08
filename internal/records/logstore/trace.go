package logstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"hash/crc32"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
)

// Trace is the sum of the entries with one trace id.
type Trace struct {
	ID          string
	First, Last time.Time // start of the first entry, and end of the last
	Entries     int64
	Errors      int64 // entries whose outcome is error
	Status      int   // highest status

	Priced  int64 // entries with known cost, summed in Cost
	Cost    catalog.NanoDollars
	Counted int64 // entries with known tokens, summed in Tokens
	Tokens  int64

	last reqlog.ID // id of the newest entry
}

func (t *Trace) add(e *reqlog.Entry) {
	at := e.ID.Time()
	if t.Entries == 0 {
		t.ID, t.First, t.last = e.TraceID, at, e.ID
	}
	if at.Before(t.First) {
		t.First = at
	}
	if end := at.Add(e.Total); end.After(t.Last) {
		t.Last = end
	}
	t.Entries++
	t.Status = max(t.Status, e.Status)
	if e.Outcome() == reqlog.OutcomeError {
		t.Errors++
	}
	if e.Priced {
		t.Priced++
		t.Cost += e.Cost
	}
	if e.Usage.Known {
		t.Counted++
		t.Tokens += e.Usage.Total()
	}
}

// SumTrace sums the entries of one trace.
func SumTrace(entries []*reqlog.Entry) (t Trace) {
	for _, e := range entries {
		t.add(e)
	}
	return t
}

// TracePage is a part of a list of traces.
type TracePage struct {
	Traces []Trace // newest entry first
	Next   string  // continues the list; empty if there is no more

	// Cut means that the time range was not read completely: there are more traces, and
	// those returned may have more entries.
	Cut bool
}

// Limits of matching and other entries that are read. A page that is not full has
// skipped many others.
const (
	traceEntries = 50_000
	thinPages    = 10
)

// Traces groups the entries that match q by trace. Limit is the number of traces. Each
// page reads the time range completely, within limits.
func (s *Store) Traces(ctx context.Context, q Query) (page TracePage, err error) {
	limit, cursor := q.Limit, q.Cursor
	q.Limit, q.Cursor = maxLimit, ""
	if limit == 0 {
		limit = defaultLimit
	}
	if limit < 1 || limit > maxLimit {
		return page, apierr.New(apierr.Invalid, "limit must be 1 to %d, not %d", maxLimit, limit).WithParam("limit")
	}
	sum := crc32.Update(q.fingerprint(), crc32.IEEETable, []byte("traces"))
	before := endOfIDs
	if cursor != "" {
		if before, err = readTraceCursor(cursor, sum); err != nil {
			return page, err
		}
	}
	list, cut, err := s.sumTraces(ctx, q)
	if err != nil {
		return page, err
	}
	page.Cut = cut
	for i := range list {
		if !less(list[i].last, before) {
			continue
		}
		if len(page.Traces) == limit {
			page.Next = traceCursor(page.Traces[limit-1].last, sum)
			break
		}
		page.Traces = append(page.Traces, *list[i])
	}
	return page, nil
}

// sumTraces returns all traces, newest entry first.
func (s *Store) sumTraces(ctx context.Context, q Query) (list []*Trace, cut bool, err error) {
	byID := make(map[string]*Trace)
	cut, err = s.eachOf(ctx, q, traceEntries, func(e *reqlog.Entry) {
		t := byID[e.TraceID]
		if e.TraceID == "" {
			return
		}
		if t == nil {
			t = new(Trace)
			byID[e.TraceID] = t
			list = append(list, t) // entries are sorted newest first
		}
		t.add(e)
	})
	return list, cut, err
}

// eachOf calls f with up to most matching entries, newest first, and reports whether
// there may be more.
func (s *Store) eachOf(ctx context.Context, q Query, most int, f func(*reqlog.Entry)) (cut bool, err error) {
	if err := s.resolve(ctx, &q); err != nil {
		return false, err
	}
	for thin := 0; thin < thinPages; {
		q.Limit = min(most, maxLimit)
		page, err := s.List(ctx, q)
		if err != nil {
			return false, err
		}
		for _, e := range page.Entries {
			f(e)
		}
		if page.Next == "" {
			return false, nil
		}
		if most -= len(page.Entries); most == 0 {
			return true, nil
		}
		if len(page.Entries) < q.Limit {
			thin++
		}
		q.Cursor = page.Next
	}
	return true, nil
}

// Trace returns up to most entries of a trace, oldest first, and whether there may be
// more. The oldest are left out.
func (s *Store) Trace(ctx context.Context, q Query, most int) (entries []*reqlog.Entry, cut bool, err error) {
	cut, err = s.eachOf(ctx, q, most, func(e *reqlog.Entry) { entries = append(entries, e) })
	slices.Reverse(entries)
	return entries, cut, err
}

// traceCursor returns the cursor that continues a list after the trace whose newest
// entry has this id.
func traceCursor(last reqlog.ID, sum uint32) string {
	sum = crc32.Update(sum, crc32.IEEETable, last[:])
	return base64.RawURLEncoding.EncodeToString(append(bytes.Clone(last[:]), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)))
}

func readTraceCursor(text string, sum uint32) (last reqlog.ID, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(last)+4 {
		return last, badCursor()
	}
	if last = reqlog.ID(b[:len(last)]); traceCursor(last, sum) != text {
		return last, badCursor()
	}
	return last, nil
}
