package guardrail

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// concurrent reports whether the hook runs in a goroutine of its own, next to the
// hooks that run one after another.
func (h *Hook) concurrent() bool { return !h.Transforms() && h.Remote() }

// startHooks starts the hooks that run concurrently and returns what waits for them.
func startHooks(ctx context.Context, hooks []*Hook, in *Input, results []HookResult) (wait func()) {
	if !slices.ContainsFunc(hooks, (*Hook).concurrent) {
		return func() {}
	}
	var wg sync.WaitGroup
	for i, h := range hooks {
		if h.concurrent() {
			wg.Go(func() { results[i] = h.run(ctx, in, &state{in: *in}) })
		}
	}
	return wg.Wait
}

// concurrent reports whether a check of a hook that is not sequential runs
// concurrently.
func (c *Check) concurrent() bool { return !c.Disabled && !c.transforms() && c.compiled.Remote }

// startChecks starts the checks that run concurrently and returns what waits for them.
func (h *Hook) startChecks(ctx context.Context, in *Input, results []CheckResult) (wait func()) {
	if !slices.ContainsFunc(h.Checks, (*Check).concurrent) {
		return func() {}
	}
	var wg sync.WaitGroup
	for i, c := range h.Checks {
		if c.concurrent() {
			wg.Go(func() { results[i], _ = c.run(ctx, in, h.Rank) })
		}
	}
	return wg.Wait
}

// state is the input with the transformations so far.
type state struct {
	in       Input
	header   http.Header
	owners   []*Hook // of fields of the header
	changes  int     // number of transformations
	settled  int     // of these, those that in.Document has
	replaced bool    // by a body
	owned    bool    // in.Parts is a copy
}

// run runs the checks of h. in is the original input, st the transformed one,
// which transforming checks change.
func (h *Hook) run(ctx context.Context, in *Input, st *state) HookResult {
	start := time.Now()
	sequential := h.Sequential || h.Type == TypeMutator
	results := make([]CheckResult, len(h.Checks))
	wait := func() {}
	if !sequential {
		wait = h.startChecks(ctx, in, results)
	}
	for i, c := range h.Checks {
		switch {
		case c.Disabled:
		case sequential || c.transforms():
			var v Verdict
			results[i], v = c.run(ctx, &st.in, h.Rank)
			if err := st.apply(h, c, v); err != nil {
				results[i].fail(err)
			} else {
				results[i].Transformed = v.transforms()
			}
		case !c.compiled.Remote:
			results[i], _ = c.run(ctx, in, h.Rank)
		}
	}
	wait()
	r := HookResult{ID: h.ID, Type: h.Type, Verdict: true, Async: h.Async, CreatedAt: start.UTC(), VersionID: h.VersionID,
		SoftDeny: h.SoftDeny, Rank: h.Rank, Shadow: h.Shadow, Checks: results[:0]}
	if r.ID == "" {
		r.ID = newID(in.Event)
	}
	for i, c := range h.Checks {
		if c.Disabled {
			continue
		}
		one := results[i]
		denies := h.denies(c, &one)
		one.FailOnError = one.FailOnError || h.FailClosed || denies
		r.Deny = r.Deny || denies
		r.Verdict = r.Verdict && (one.Verdict || one.Error != nil && !one.FailOnError)
		r.Transformed = r.Transformed || one.Transformed
		r.Checks = append(r.Checks, one)
	}
	r.Deny = (r.Deny || h.Deny && !r.Verdict || h.DenyPassed && r.Verdict) && !h.Async && !h.Shadow
	r.Took = time.Since(start)
	r.ExecutionTime = r.Took.Milliseconds()
	r.Feedback = h.feedback(&r)
	return r
}

// newID returns the id of a guardrail without one.
func newID(e Event) string {
	n, _ := rand.Int(rand.Reader, big.NewInt(36*36*36)) // never fails
	id := "00" + strconv.FormatInt(n.Int64(), 36)
	prefix := "input_guardrail_"
	if e == After {
		prefix = "output_guardrail_"
	}
	return prefix + id[len(id)-3:]
}

// run runs the check, of a hook of a rank, on the parts that it reads.
func (c *Check) run(ctx context.Context, in *Input, of Rank) (CheckResult, Verdict) {
	start := time.Now()
	r := CheckResult{ID: c.ID, CreatedAt: start.UTC(), FailOnError: c.FailOnError}
	selected, places := in.reading(c.kinds, c.scope)
	if c.compiled.Remote && selected.Rank != of {
		own := *selected
		own.Rank, selected = of, &own
	}
	var v Verdict
	var err error
	switch {
	case in.Unreadable != nil && !c.definition.Facts && !c.definition.Unread:
		err = in.Unreadable
	case in.Aside && c.definition.Facts:
		v = Verdict{Passed: true, Data: &Data{Verdict: true, Explanation: "the check does not read texts"}}
	case !c.definition.Facts && len(selected.Parts) == 0 && (in.Aside || in.hasTexts()):
		v = Verdict{Passed: true, Data: &Data{Verdict: true, Explanation: "the check does not read texts of these kinds"}}
	case c.compiled.Remote || selected.textSize() > shortText:
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		v, err = c.try(limited, selected)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			err = errTimeout{c.timeout, !c.compiled.Remote || isIncomplete(err) || c.readsLong(selected)}
		}
		cancel()
	default:
		v, err = c.try(ctx, selected)
	}
	if err == nil && v.Texts != nil && len(v.Texts) != len(selected.Parts) {
		err = errors.New("the check returned another number of texts")
	}
	r.Took = time.Since(start)
	r.ExecutionTime = r.Took.Milliseconds()
	r.Data, r.Log = v.Data, v.Log
	if err != nil {
		r.fail(err)
		return r, Verdict{}
	}
	r.Verdict, r.Spans = v.Passed, v.Spans
	if places != nil {
		v = v.moved(places, in.Parts)
		r.Spans = v.Spans
	}
	return r, v
}

// hasTexts reports whether there is text other than parameters.
func (in *Input) hasTexts() bool {
	return slices.ContainsFunc(in.Parts, func(p Part) bool { return p.Kind != Parameters })
}

// shortText is the number of bytes up to which a check in this process has no time limit, and
// longText that above which the text may be why another service does not answer in time.
const (
	shortText = 4 << 10
	longText  = 64 << 10
)

// readsLong reports whether what the check reads is so long that another service may need more
// than its time for it.
func (c *Check) readsLong(in *Input) bool {
	if c.compiled.Bodies {
		return in.Size() > longText
	}
	return in.textSize() > longText
}

// try runs the check; a panic becomes an error.
func (c *Check) try(ctx context.Context, in *Input) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = Verdict{}, NewIncomplete("the check panicked: %T", p) // the value could hold text of the input, which may be why
		}
	}()
	return c.compiled.Run(ctx, in)
}

// errTimeout is the error of a check that reached its time limit.
type errTimeout struct {
	limit  time.Duration
	ofText bool // what was sent may be why, such as its length
}

// Error returns the limit.
func (e errTimeout) Error() string {
	return fmt.Sprintf("the check did not end within %d ms", e.limit.Milliseconds())
}

func (r *CheckResult) fail(err error) {
	r.Verdict, r.Transformed, r.Spans = false, false, nil
	r.Error = &CheckError{Name: "CheckError", Message: err.Error()}
	late, timedOut := errors.AsType[errTimeout](err)
	if timedOut || errors.Is(err, context.DeadlineExceeded) {
		r.Error.Name = "TimeoutError"
	}
	r.Incomplete = isIncomplete(err) || timedOut && late.ofText
}

func (v *Verdict) transforms() bool {
	return v.Texts != nil || len(v.Add) > 0 || v.Body != nil
}

// moved returns v with indexes and texts of all parts instead of those read.
func (v Verdict) moved(places []int, all []Part) Verdict {
	spans := slices.Clone(v.Spans)
	for i := range spans {
		spans[i].Part = places[spans[i].Part]
	}
	v.Spans = spans
	if v.Texts != nil {
		texts := make([]string, len(all))
		for i := range all {
			texts[i] = all[i].Text
		}
		for i, place := range places {
			texts[place] = v.Texts[i]
		}
		v.Texts = texts
	}
	return v
}

// withOutside returns the parts of a new document, with those outside of the old one.
func withOutside(parts, before []Part) []Part {
	first := slices.IndexFunc(before, func(p Part) bool { return p.Outside })
	if first < 0 {
		return parts
	}
	return slices.Concat(parts, before[first:])
}

// apply adds the transformations of a verdict of a check of h.
func (st *state) apply(h *Hook, c *Check, v Verdict) error {
	if !v.transforms() && v.Header == nil {
		return nil
	}
	if v.Texts != nil && v.Body == nil {
		if err := st.in.join(v.Texts); err != nil {
			return err
		}
	}
	st.in.shared = new(shared)
	if v.transforms() {
		st.changes++
	}
	if v.Body != nil {
		if st.in.Document == nil {
			return errNoBody
		}
		doc, parts, err := st.in.Document.Replace(v.Body)
		if err != nil {
			return fmt.Errorf("%s returned an invalid body: %w", c.ID, err)
		}
		st.in.Document, st.in.Parts, st.in.add = doc, withOutside(parts, st.in.Parts), nil
		st.replaced, st.owned = true, true
		v.Texts = nil // were those of the body before
	}
	if v.Texts != nil {
		if !st.owned {
			st.in.Parts, st.owned = slices.Clone(st.in.Parts), true
		}
		for i := range st.in.Parts {
			st.in.Parts[i].Text = v.Texts[i]
		}
	}
	if len(v.Add) > 0 {
		st.in.add = append(slices.Clip(st.in.add), v.Add...)
	}
	for name, values := range v.Header {
		if st.header == nil {
			st.header = http.Header{}
		}
		owned := func(owner *Hook) bool { return owner.Rank > h.Rank && IsField(name, Fields([]*Hook{owner})) }
		if !slices.ContainsFunc(st.owners, owned) {
			st.header[name] = values
		}
	}
	return nil
}

// finish writes the transformations into the outcome.
func (st *state) finish(out *Outcome) {
	out.Parts, out.Header, out.Transformed = st.in.Parts, st.header, st.changes > 0
	if out.Add = st.in.add; st.replaced && out.Err == nil {
		out.Body, out.Err = st.in.Document.JSON(st.in.Parts, st.in.add)
		out.Add = nil
	}
}
