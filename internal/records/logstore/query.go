package logstore

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// Scope selects the entries that a reader may see. An empty field allows all.
type Scope struct {
	Organisation string
	Workspace    string
	Keys         []string // ids of keys; nil allows all, an empty list none
}

// Query filters entries. All filters must match; the zero value of a field filters
// nothing. Strings are compared exactly.
type Query struct {
	Scope Scope

	// From (inclusive) and To (exclusive) limit the time of the entry's id. A zero From
	// means 30 days before To, or before now. A zero To sets no limit.
	From, To time.Time

	Status   string // statuses such as "429" and classes such as "5xx", separated by commas
	Outcome  string // name of a [reqlog.ExchangeOutcome]
	Model    string // requested model
	Provider string
	Slug     string // of the managed provider

	// Providers are providers and managed providers, any of which must match. Nil matches
	// all.
	Providers []Provider

	UpstreamModel, ResponseModel string
	Target                       string   // path of the target in its config
	Configs                      []string // any of these, in the form of entries

	// Is has the values of fields, any of which must match, as in [GroupQuery].
	Is map[Field][]string

	KeyID      string
	Workspace  string
	TraceID    string
	Operation  api.Operation
	Stream     *bool
	MinLatency time.Duration // total duration
	MaxLatency time.Duration // zero is unlimited
	Metadata   map[string]string

	// Text is searched, ignoring case, in stored bodies, the error message, the model,
	// the path, and the keys and values of metadata. It must have 3 to 256 characters.
	Text string

	// Ranges of values of an entry. An unknown value is in no range. Cost is in
	// nano-dollars.
	Cost, Tokens, PromptTokens, CompletionTokens Bounds

	// Weighted is the range of the average feedback of the entry's trace. An entry
	// without feedback is in no range. Traces are the traces to return; nil returns
	// all.
	Weighted FloatRange
	Traces   map[TraceOf]bool

	// Limit is the number of entries to return, 1 to 1000. Zero means 100.
	Limit int

	// Cursor continues a list: it is Next of the previous page, with the same filters.
	Cursor string

	// Order is the order of the list. The zero Order is the newest id first.
	Order Order
}

// Bounds is a closed range; nil is unlimited.
type Bounds struct{ Min, Max *int64 }

// Page is a part of a list.
type Page struct {
	Entries []*reqlog.Entry // newest first

	// Next continues the list; empty means that there is no more. A page may have fewer
	// entries than the limit, even none, and still have a Next: a read stops after a
	// number of entries, so that a filter with few matches cannot block the reader for
	// long.
	Next string
}

// Limits of [Query].Limit and the default time range.
const (
	defaultLimit = 100
	maxLimit     = 1000
	defaultRange = 30 * 24 * time.Hour
)

// plan is a checked query.
type plan struct {
	q            Query
	limit        int
	from, before reqlog.ID // from is inclusive, before is exclusive
	statuses     []statusSpan
	traces       map[string]bool // of q.Traces, regardless of the workspace
	fingerprint  uint32
}

func (q Query) plan(now time.Time) (*plan, error) {
	p := &plan{q: q, limit: q.Limit, fingerprint: q.fingerprint()}
	if p.limit == 0 {
		p.limit = defaultLimit
	}
	if p.limit < 1 || p.limit > maxLimit {
		return nil, apierr.New(apierr.Invalid, "limit must be 1 to %d, not %d", maxLimit, q.Limit).WithParam("limit")
	}
	if q.MaxLatency != 0 && q.MaxLatency < q.MinLatency {
		return nil, apierr.New(apierr.Invalid, "max_latency_ms must not be less than min_latency_ms").WithParam("max_latency_ms")
	}
	if q.MinLatency < 0 {
		return nil, apierr.New(apierr.Invalid, "min_latency must not be negative").WithParam("min_latency")
	}
	if err := q.checkBounds(); err != nil {
		return nil, err
	}
	if err := q.checkText(); err != nil {
		return nil, err
	}
	var err error
	if p.statuses, err = statusSpans(q.Status); err != nil {
		return nil, err
	}
	if err := q.checkOutcome(); err != nil {
		return nil, err
	}
	if err := p.setRange(q.From, q.To, now); err != nil {
		return nil, err
	}
	if q.Traces != nil {
		p.traces = make(map[string]bool, len(q.Traces))
		for t := range q.Traces {
			p.traces[t.ID] = true
		}
	}
	if q.Cursor != "" {
		if err := p.resume(q.Cursor); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// statusSpan is a range of statuses, inclusive.
type statusSpan struct{ low, high int }

// statusSpans returns the statuses that a filter matches, nil for all.
func statusSpans(s string) (list []statusSpan, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		digits, class := strings.CutSuffix(part, "xx")
		n, err := strconv.Atoi(digits)
		switch {
		case err == nil && class && len(digits) == 1 && n > 0:
			list = append(list, statusSpan{n * 100, n*100 + 99})
		case err == nil && !class && len(digits) == 3 && n >= 100:
			list = append(list, statusSpan{n, n})
		default:
			return nil, apierr.New(apierr.Invalid, "status must be numbers such as 429 or classes such as 5xx, separated by commas, not %.20q", part).
				WithParam("status")
		}
	}
	return list, nil
}

// hasStatus reports whether a status is in one of the spans; no spans have all.
func hasStatus(list []statusSpan, status int) bool {
	return list == nil || slices.ContainsFunc(list, func(s statusSpan) bool { return status >= s.low && status <= s.high })
}

func (q *Query) checkOutcome() error {
	if _, ok := reqlog.ParseOutcome(q.Outcome); q.Outcome == "" || ok {
		return nil
	}
	return apierr.New(apierr.Invalid, "outcome must be success, error, cancelled or other, not %.20q", q.Outcome).WithParam("outcome")
}

func (p *plan) setRange(from, to, now time.Time) error {
	p.before = endOfIDs
	end := now
	if !to.IsZero() {
		p.before, end = idAt(to.UnixMilli()), to
	}
	if from.IsZero() {
		from = end.Add(-defaultRange)
	}
	if !to.IsZero() && !from.Before(to) {
		return apierr.New(apierr.Invalid, "from must be before to").WithParam("from")
	}
	p.from = idAt(from.UnixMilli())
	return nil
}

const maxMillis = 1<<48 - 1

// endOfIDs is after every id.
var endOfIDs = reqlog.ID(bytes.Repeat([]byte{0xff}, len(reqlog.ID{})))

// idAt returns the smallest id of a millisecond. Times outside the range of ids are
// limited to it.
func idAt(ms int64) reqlog.ID {
	var id reqlog.ID
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(min(max(ms, 0), maxMillis)))
	copy(id[:6], b[2:])
	return id
}

// fingerprint returns a checksum of the filters, which ties a cursor to one list.
func (q Query) fingerprint() uint32 {
	h := crc32.NewIEEE()
	put := func(s string) { fmt.Fprintf(h, "%d:%s,", len(s), s) }
	for _, s := range []string{
		q.Scope.Organisation, q.Scope.Workspace, q.Status, q.Model, q.Provider,
		q.KeyID, q.Workspace, strings.Join(q.Configs, ","), q.TraceID, string(q.Operation), q.MinLatency.String(),
		q.Slug, q.Outcome, q.UpstreamModel, q.ResponseModel, q.Target,
		q.From.UTC().Format(time.RFC3339Nano), q.To.UTC().Format(time.RFC3339Nano),
	} {
		put(s)
	}
	if q.Stream != nil {
		put(strconv.FormatBool(*q.Stream))
	}
	for _, k := range slices.Sorted(maps.Keys(q.Metadata)) {
		put(k)
		put(q.Metadata[k])
	}
	for _, b := range q.bounds() {
		put(b.name + b.text())
	}
	if q.Text != "" {
		put("text")
		put(q.Text)
	}
	if q.Providers != nil {
		put(fmt.Sprintf("providers %q", q.Providers))
	}
	if q.MaxLatency != 0 {
		put("max latency" + q.MaxLatency.String())
	}
	for _, f := range slices.Sorted(maps.Keys(q.Is)) {
		put(fmt.Sprintf("is %d %q", f, q.Is[f]))
	}
	if q.Weighted != (FloatRange{}) {
		put("weighted" + q.Weighted.text())
	}
	return h.Sum32()
}

// A cursor is the id before which it continues and a checksum over that id and the
// filters, in base64.
const cursorSize = len(reqlog.ID{}) + 4

func (p *plan) cursor(before reqlog.ID) string {
	b := make([]byte, 0, cursorSize)
	b = append(b, before[:]...)
	b = binary.BigEndian.AppendUint32(b, p.checksum(before))
	return base64.RawURLEncoding.EncodeToString(b)
}

func (p *plan) resume(cursor string) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != cursorSize {
		return badCursor()
	}
	before := reqlog.ID(b[:len(reqlog.ID{})])
	if binary.BigEndian.Uint32(b[len(before):]) != p.checksum(before) {
		return badCursor()
	}
	if less(before, p.before) {
		p.before = before
	}
	return nil
}

func (p *plan) checksum(before reqlog.ID) uint32 {
	return crc32.Update(p.fingerprint, crc32.IEEETable, before[:])
}

func badCursor() error {
	return apierr.New(apierr.Invalid, "invalid cursor: it was altered or belongs to other filters; start again without it").WithParam("cursor")
}
