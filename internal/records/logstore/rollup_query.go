package logstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// GroupQuery selects entries and how to group them. All filters must match; the zero
// value of a field filters nothing.
type GroupQuery struct {
	// Scope must have an organisation.
	Scope   Scope
	Without []string // excluded workspaces

	// From and To limit the time of the entries' ids. They are rounded outwards to full
	// minutes, and to full hours beyond two days, where minutes are no longer stored.
	From, To time.Time

	By   Field         // one group for each value; ByNothing makes one group
	Step time.Duration // and for each step of time, in full minutes; zero makes none

	// Is has the values of fields, any of which must match. A target may be given by its
	// name, and a config or prompt with a version, such as main@3.
	Is     map[Field][]string
	Models []ServedModel // any of these

	// Providers are providers and managed providers, any of which must match. Nil
	// matches all.
	Providers []Provider

	// Percentiles fills in Latencies.
	Percentiles bool

	// The following fields require reading the entries themselves, whose number is
	// limited.

	TraceID    string
	SpanID     string
	Metadata   map[string]string
	ByMetadata string // metadata key to group by, instead of By
	Tokens     IntRange
	Prompt     IntRange
	Completion IntRange
	Cost       IntRange   // in nano-dollars
	Weighted   FloatRange // average feedback of the entry's trace
	Feedback   bool       // fills in Rated and Weighted
}

// ServedModel is a model of one provider.
type ServedModel struct{ Service, Model string }

// Provider is a provider by its id, or a managed provider by its slug.
type Provider struct{ Service, Slug string }

// Matches reports whether an entry with this provider id and slug belongs to p.
func (p Provider) Matches(service, slug string) bool {
	return equalOrEmpty(p.Service, service) && equalOrEmpty(p.Slug, slug)
}

// IntRange is a closed range; nil is unlimited. An unknown value is only in the
// unlimited range.
type IntRange struct{ Min, Max *int64 }

// Group is the totals of the entries with one value.
type Group struct {
	Value string
	Step  time.Time // start of the step; zero without steps
	Totals
}

// entries reports whether entries must be read because rollups do not have what is
// requested.
func (q *GroupQuery) entries() bool {
	return q.TraceID != "" || q.SpanID != "" || len(q.Metadata) > 0 || q.ByMetadata != "" ||
		q.Tokens != IntRange{} || q.Prompt != IntRange{} || q.Completion != IntRange{} || q.Cost != IntRange{} || q.Weighted != FloatRange{} ||
		q.Feedback
}

// Groups returns the groups of q, in no particular order. Values without entries are
// left out. If too many entries would have to be read it returns an error.
func (s *Store) Groups(ctx context.Context, q GroupQuery) ([]Group, error) {
	from := floor(max(q.From.UnixMilli(), 0), minuteMillis)
	before := floor(max(q.To.UnixMilli(), from+1)+minuteMillis-1, minuteMillis)
	q.clip()
	t := totals{q: &q, sums: make(map[place]*Group)}
	if q.Scope.Keys != nil && len(q.Scope.Keys) == 0 {
		return nil, nil
	}
	if q.entries() {
		if err := s.sumEntries(ctx, &t, from, before); err != nil {
			return nil, err
		}
		return t.list(), nil
	}
	damaged := 0
	for r, err := range s.keeper.rollups(ctx, q.Scope.Organisation, from, before) {
		if err != nil {
			return nil, fmt.Errorf("grouping log entries: %w", err)
		}
		if readSums(r.data, r.bucket, t.stored(r.bucket)) != nil {
			damaged++
		}
	}
	if damaged > 0 {
		s.log.Error("skipping damaged log rollups", "rows", damaged)
	}
	return t.list(), nil
}

// clip shortens the values of filters as keyOf shortens the values of entries.
func (q *GroupQuery) clip() {
	is := make(map[Field][]string, len(q.Is))
	for field, list := range q.Is {
		list = slices.Clone(list)
		for i := range list {
			list[i] = clip(list[i])
		}
		is[field] = list
	}
	q.Is, q.Models, q.Providers = is, slices.Clone(q.Models), slices.Clone(q.Providers)
	for i := range q.Models {
		q.Models[i].Model = clip(q.Models[i].Model)
	}
	for i := range q.Providers {
		q.Providers[i].Slug = clip(q.Providers[i].Slug)
	}
}

// totals holds the groups so far.
type totals struct {
	q       *GroupQuery
	sums    map[place]*Group
	ratings map[TraceOf]rating // of the entries' traces, if requested
}

// place identifies a group.
type place struct {
	value string
	step  int64
}

func (t *totals) list() []Group {
	list := make([]Group, 0, len(t.sums))
	for _, s := range t.sums {
		list = append(list, *s)
	}
	return list
}

// stored returns a function that adds the totals of a stored set.
func (t *totals) stored(bucket int64) func(*groupKey, *Totals, sketches) error {
	return func(k *groupKey, s *Totals, at sketches) error {
		if !t.q.wants(k) {
			return nil
		}
		into := t.at(t.q.valueOf(k), bucket)
		into.Merge(s)
		if !t.q.Percentiles {
			return nil
		}
		return at.addTo(into)
	}
}

// at returns the totals of a value and time.
func (t *totals) at(value string, ms int64) *Totals {
	at := place{value: value}
	if step := t.q.Step.Milliseconds(); step > 0 {
		at.step = floor(ms, step)
	}
	s := t.sums[at]
	if s == nil {
		s = &Group{Value: value}
		if t.q.Step > 0 {
			s.Step = time.UnixMilli(at.step).UTC()
		}
		t.sums[at] = s
	}
	return &s.Totals
}

// wants reports whether entries with this key match.
func (q *GroupQuery) wants(k *groupKey) bool {
	if q.Scope.Workspace != "" && q.Scope.Workspace != k.texts[ByWorkspace] ||
		q.Scope.Keys != nil && !slices.Contains(q.Scope.Keys, k.texts[ByKey]) ||
		slices.Contains(q.Without, k.texts[ByWorkspace]) {
		return false
	}
	for field, list := range q.Is {
		if !k.is(field, list) {
			return false
		}
	}
	service := k.texts[ByService]
	return (len(q.Models) == 0 || slices.Contains(q.Models, ServedModel{service, k.texts[ByModel]})) &&
		(q.Providers == nil || slices.ContainsFunc(q.Providers, func(p Provider) bool { return p.Matches(service, k.texts[ByProvider]) }))
}

func (q *GroupQuery) valueOf(k *groupKey) string { return k.text(q.By) }

// Limits of reading entries: a number of pages. A page that is not full has skipped
// many entries and counts as pageCost pages.
const (
	mostPages = 200
	pageCost  = 20
)

// sumEntries groups the entries themselves.
func (s *Store) sumEntries(ctx context.Context, t *totals, from, before int64) error {
	q := Query{
		Scope: t.q.Scope, From: time.UnixMilli(from), To: time.UnixMilli(before),
		TraceID: t.q.TraceID, Metadata: t.q.Metadata, Limit: maxLimit, Weighted: t.q.Weighted,
	}
	if err := s.rate(ctx, t, &q); err != nil {
		return err
	}
	for cost := 0; cost < mostPages; {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			t.entry(e)
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
		cost++
		if len(page.Entries) < maxLimit {
			cost += pageCost - 1
		}
	}
	return apierr.New(apierr.Invalid,
		"too many entries: filters by metadata, trace, span, tokens or cost read each entry of the time; narrow it by from and to").
		WithParam("from")
}

// entry adds an entry.
func (t *totals) entry(e *reqlog.Entry) {
	k := keyOf(e)
	if !t.q.wants(&k) || !t.q.wantsEntry(e) {
		return
	}
	value := t.q.valueOf(&k)
	if t.q.ByMetadata != "" {
		var ok bool
		if value, ok = e.Metadata[t.q.ByMetadata]; !ok {
			return
		}
	}
	var one Totals
	one.add(e)
	one.countKey(&k)
	if r := t.ratings[TraceOf{e.Workspace, e.TraceID}]; r.Count > 0 {
		one.Rated, one.Weighted = 1, r.Weighted/float64(r.Count)
	}
	t.at(value, millis(e.ID)).Merge(&one)
}

// wantsEntry checks the filters that require the entry itself.
func (q *GroupQuery) wantsEntry(e *reqlog.Entry) bool {
	known := e.Usage.Known
	return (q.SpanID == "" || q.SpanID == e.SpanID) &&
		q.Tokens.holds(e.Usage.Total(), known) && q.Prompt.holds(e.Usage.Prompt(), known) && q.Completion.holds(e.Usage.Completion(), known) &&
		q.Cost.holds(int64(e.Cost), e.Priced)
}

func (r IntRange) holds(n int64, known bool) bool {
	return r == IntRange{} || known && (r.Min == nil || n >= *r.Min) && (r.Max == nil || n <= *r.Max)
}
