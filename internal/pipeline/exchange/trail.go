package exchange

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/internal/dialect"
	"modelgate/internal/records/reqlog"
)

// Trail is what happened to a request: decisions, parameter changes, and its
// attempts in order. It only grows. Parallel work has its own trail, which
// [Trail.Join] merges. A trail is not safe for concurrent use; the zero value
// is empty.
type Trail struct {
	// Decisions are the reasons for choices, recorded only if Explain is true.
	Explain   bool
	Decisions []reqlog.Decision

	Attempts []*Attempt
	// Outcome is the attempt whose response or error is the result of the
	// request. Nil before the first.
	Outcome *Attempt
	// Retries is the number of retries of the last target; -1 if retrying ended
	// although the outcome asked for more.
	Retries int

	// Notes are settings that were changed or have no effect, without
	// duplicates.
	Notes []dialect.ParamChange
	noted map[dialect.ParamChange]bool // the elements of Notes; nil while there are few

	// Cache says how the cache took part; empty if it did not. Saved is what the
	// response cost when it was made for another request; its Known is false if
	// that is unknown or if there was none.
	Cache CacheStatus
	Saved SettledCost

	// UpstreamTime is the time spent on providers so far.
	UpstreamTime time.Duration

	// Planned holds the requests of a dry run.
	Planned []DryRunRequest

	// firstOf is the array of Attempts while there is one, as for most requests.
	firstOf [1]*Attempt

	HasFallback bool // a fallback has more targets
	MoreFollows bool // a failed attempt may be followed by another
	// Continuer continues broken streams; nil if nobody may.
	Continuer Continuer
	// OnlyBranch is closed when no other branch of the races around this work is
	// in progress or may start. Nil outside of races.
	OnlyBranch <-chan struct{}
	Lookups    Lookups

	own    Bill
	Shared *Bill // its own, or that of the parent; see [Trail.Bill]

	joined struct{ attempts, decisions int } // already merged into the parent
}

// Child returns the trail of work that is done in parallel or may fail.
func (t *Trail) Child() *Trail {
	return &Trail{
		Explain: t.Explain, UpstreamTime: t.UpstreamTime, HasFallback: t.HasFallback,
		MoreFollows: t.MoreFollows, OnlyBranch: t.OnlyBranch,
		Shared: t.Bill(), Lookups: Lookups{Work: t.Lookups.Work},
	}
}

// Join merges what a child has done since the last call. Its time is parallel
// to the time of t.
func (t *Trail) Join(c *Trail) {
	t.Attempts = append(t.Attempts, c.Attempts[c.joined.attempts:]...)
	t.Decisions = append(t.Decisions, c.Decisions[c.joined.decisions:]...)
	c.joined.attempts, c.joined.decisions = len(c.Attempts), len(c.Decisions)
	t.UpstreamTime = max(t.UpstreamTime, c.UpstreamTime)
}

// Follow joins a child whose outcome is the outcome of the request.
func (t *Trail) Follow(c *Trail) {
	t.Join(c)
	t.Outcome, t.Retries = c.Outcome, c.Retries
	if c.Cache != "" {
		t.Cache, t.Saved = c.Cache, c.Saved
	}
	for _, n := range c.Notes {
		t.Note(n)
	}
}

// Add adds an attempt that has ended.
func (t *Trail) Add(a *Attempt) {
	if t.Attempts == nil {
		t.Attempts = t.firstOf[:0]
	}
	t.Attempts = append(t.Attempts, a)
}

// Decide records the reason for a choice of the node at path.
func (t *Trail) Decide(path, format string, args ...any) {
	if t.Explain {
		t.Decisions = append(t.Decisions, reqlog.Decision{Path: path, Text: fmt.Sprintf(format, args...)})
	}
}

// Note adds a change unless it is there.
func (t *Trail) Note(n dialect.ParamChange) {
	if t.noted == nil && len(t.Notes) > fewNotes {
		t.noted = make(map[dialect.ParamChange]bool)
		for _, known := range t.Notes {
			t.noted[known] = true
		}
	}
	if t.noted[n] || t.noted == nil && slices.Contains(t.Notes, n) {
		return
	}
	t.Notes = append(t.Notes, n)
	if t.noted != nil {
		t.noted[n] = true
	}
}

// fewNotes is the number of notes up to which they are searched linearly. A
// body can cause any number of them.
const fewNotes = 32

// Params returns the items of x-gateway-params: what happened to settings and
// parameters. Items beyond maxParams bytes are summed up in a final item.
func (t *Trail) Params() []string {
	changes := t.Notes
	if t.Outcome != nil {
		changes = slices.Concat(t.Notes, t.Outcome.Params)
	}
	return boundedItems(changes)
}

// allParams returns the items of [Trail.Params] and those that were found in a stream,
// whose headers had left.
func (t *Trail) allParams() []string {
	b := t.Bill()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.late) == 0 {
		return t.Params()
	}
	changes := slices.Concat(t.Notes, b.late)
	if t.Outcome != nil {
		changes = slices.Concat(t.Notes, t.Outcome.Params, b.late)
	}
	return boundedItems(changes)
}

// boundedItems returns the items of changes, those beyond maxParams bytes as a sum.
func boundedItems(changes []dialect.ParamChange) []string {
	if len(changes) == 0 {
		return nil
	}
	items := make([]string, 0, len(changes))
	size := 0
	for i, c := range changes {
		text := paramItem(c)
		if size += len(text); size > maxParams {
			return append(items, "more;count="+strconv.Itoa(len(changes)-i))
		}
		items = append(items, text)
	}
	return items
}

// maxParams is the limit in bytes of all items of x-gateway-params: clients and
// proxies reject long headers, and a request may have any number of parameters.
const maxParams = 4 << 10

// paramItem returns c as an item of a structured header field (RFC 9651).
func paramItem(c dialect.ParamChange) string {
	text := HeaderText(c.Name) + ";" + string(c.Outcome)
	switch {
	case c.Note == "":
		return text
	case c.Outcome == dialect.Clamped: // to a number
		return text + "=" + c.Note
	}
	return text + `="` + HeaderText(c.Note) + `"`
}

// ParamItems returns the items of changes.
func ParamItems(changes []dialect.ParamChange) []string {
	items := make([]string, len(changes))
	for i, c := range changes {
		items[i] = paramItem(c)
	}
	return items
}

// HeaderText replaces bytes that would end an item or are invalid in a header
// by dashes: everything except visible ASCII without quotes, commas and
// semicolons.
func HeaderText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == ',' || c == ';' {
			b[i] = '-'
		}
	}
	return string(b)
}

// Bill adds up the cost of all attempts of a request, in all of its trails. It
// is safe for concurrent use.
type Bill struct {
	Attempts atomic.Uint32 // number of attempts begun, which numbers them
	// Used counts, against the limit of attempts, those begun for the request itself and
	// the requests of hooks of its config.
	Used atomic.Uint32

	mu   sync.Mutex
	paid reqlog.ExchangeCost // guarded by mu

	checks CheckRecord           // guarded by mu; nil if no hook ran
	late   []dialect.ParamChange // found in streams; guarded by mu

	Quota       RequestQuota
	PromptCache promptCacheUse
}

// Add adds the cost of an attempt that was settled.
func (b *Bill) Add(s *reqlog.Settlement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid.Add(s)
}

// AddChanges adds parameter changes that were found in a stream.
func (b *Bill) AddChanges(changes []dialect.ParamChange) {
	if len(changes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = append(b.late, changes...)
}

// Bill returns the bill of the request.
func (t *Trail) Bill() *Bill {
	if t.Shared == nil {
		t.Shared = &t.own
	}
	return t.Shared
}

// Record copies into e what happened: the attempts, the target and the saved
// prompt of the outcome, and the cost of all attempts, which is unknown if the
// cost of one is.
func (t *Trail) Record(e *reqlog.Entry) {
	e.Upstream, e.Decisions, e.Params = t.UpstreamTime, t.Decisions, t.allParams()
	if len(t.Attempts) > 0 {
		e.Attempts = make([]reqlog.Attempt, len(t.Attempts))
		for i, a := range t.Attempts {
			e.Attempts[i] = a.Record
		}
	}
	if a := t.Outcome; a != nil {
		e.Provider, e.Slug, e.OptionIndex, e.TargetName = a.Record.Provider, a.Record.Slug, a.Record.Target, a.Record.Name
		e.Prompt, e.UpstreamModel = a.Prompt, a.Model
	}
	b := t.Bill()
	e.Decisions = b.PromptCache.decide(e.Decisions)
	e.Saved.Prompt = b.PromptCache.saving()
	t.RecordLimits(e)
	t.RecordCost(e)
	if t.Cache != CacheHit && t.Cache != CacheSemanticHit {
		return
	}
	e.Saved.Response = t.Saved.Cost
	if len(t.Attempts) == 0 { // nobody was paid for it
		e.Priced = true
	}
}

// RecordLimits adds to e what attempts used of limits since the last call.
func (t *Trail) RecordLimits(e *reqlog.Entry) {
	q := &t.Bill().Quota
	q.Mu.Lock()
	defer q.Mu.Unlock()
	e.Limits, q.Log = append(e.Limits, q.Log...), nil
}

// RecordCost sets the cost of all attempts so far in e.
func (t *Trail) RecordCost(e *reqlog.Entry) {
	b := t.Bill()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid.Fill(e)
}

// CheckRecord is what the hooks of a request did, which package guarding knows.
type CheckRecord interface {
	// Release releases what hooks changed.
	Release()
}

// ChecksOf returns what the hooks of the request did, nil if none ran. begin makes it before
// the first; nil makes none.
func (t *Trail) ChecksOf(begin func() CheckRecord) CheckRecord {
	b := t.Bill()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.checks == nil && begin != nil {
		b.checks = begin()
	}
	return b.checks
}

// ReleaseChecks releases the bodies that hooks changed.
func (t *Trail) ReleaseChecks() {
	if checks := t.ChecksOf(nil); checks != nil {
		checks.Release()
	}
}
