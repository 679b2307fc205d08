package guardrail

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Rank is the level that applies a hook to a request. A hook never acts after one of a
// higher rank, and never sees what that one withheld; see [Passes].
type Rank uint8

// Ranks, from the lowest.
const (
	RankConfig       Rank = iota // the config of the request, saved or not
	RankWorkspace                // a guardrail of the workspace, for all of its requests
	RankOrganisation             // a guardrail of the organisation, for all of its requests
)

// Pass is a step of [Run]: hooks that see the same text.
type Pass struct {
	Hooks []*Hook
	// Again marks hooks that ran in an earlier pass: they check what a hook of a lower
	// rank changed since.
	Again bool
}

// Passes returns the order in which hooks run. Higher ranks come first. Where one of
// them can deny or change text, those of lower ranks come in a later pass, which sees
// what it let pass. If such a later pass can change text, those above it that can deny or
// change follow again, so that nothing changes after they have read it.
func Passes(hooks []*Hook) []Pass {
	if !slices.ContainsFunc(hooks, func(h *Hook) bool { return h.Rank != hooks[0].Rank }) {
		return []Pass{{Hooks: hooks}}
	}
	sorted := slices.Clone(hooks)
	slices.SortStableFunc(sorted, func(a, b *Hook) int { return cmp.Compare(b.Rank, a.Rank) })
	var passes []Pass
	var above [][]*Hook // hooks of earlier passes that act
	from := 0
	for to := 1; to <= len(sorted); to++ {
		acting := actingOf(sorted[from:to])
		if to < len(sorted) && (sorted[to].Rank == sorted[to-1].Rank || len(acting) == 0) {
			continue
		}
		passes = appendRepeats(append(passes, Pass{Hooks: sorted[from:to]}), above, acting)
		above, from = append(above, acting), to
	}
	return passes
}

// appendRepeats appends the passes that check again what hooks may have changed: those
// above them, the highest first, and after each of these what it may have changed itself.
func appendRepeats(passes []Pass, above [][]*Hook, hooks []*Hook) []Pass {
	if !slices.ContainsFunc(hooks, (*Hook).Transforms) {
		return passes
	}
	for i, higher := range above {
		passes = appendRepeats(append(passes, Pass{higher, true}), above[:i], higher)
	}
	return passes
}

// actingOf returns the hooks that can deny or change text.
func actingOf(hooks []*Hook) (list []*Hook) {
	for _, h := range hooks {
		if h.Acts() {
			list = append(list, h)
		}
	}
	return list
}

// Background starts hooks that neither delay nor change a request. It does not keep in
// after it has returned, unless it copies the document. An error says that they cannot run.
type Background func(hooks []*Hook, in Input) error

// Run runs hooks in their [Passes] and returns their results. It hands those that are
// async or in shadow mode to background at their turn, and returns no results of them;
// without background they run like the others. After a denial the passes of lower ranks
// are skipped.
//
// In a pass, checks that may transform run one after another in the order of the lists,
// across hooks too, so that no transformation is lost; a check in a sequential hook sees
// those before it. All other checks see the text as it was at the beginning of the pass
// and run concurrently if they are remote. Run returns when all have ended; each has its
// own time limit.
func Run(ctx context.Context, hooks []*Hook, in *Input, background Background) *Outcome {
	r := run{background: background, state: state{in: *in, owners: hooks}}
	for _, p := range Passes(hooks) {
		switch ended := r.out.Denied || r.out.Err != nil; {
		case ended && !p.Again:
			r.skip(p.Hooks)
		case ended:
		case p.Again:
			r.repeat(ctx, p.Hooks)
		default:
			r.begin(ctx, p.Hooks)
		}
	}
	r.state.finish(&r.out)
	r.out.Failed = slices.ContainsFunc(r.out.Results, func(h HookResult) bool { return !h.Verdict })
	return &r.out
}

// run is one call of Run.
type run struct {
	background Background
	state      state
	out        Outcome
	ran        []*Hook // of out.Results
	seen       []int   // by hook in ran: the number of transformations after its last pass
}

// begin runs a pass whose hooks have not run.
func (r *run) begin(ctx context.Context, hooks []*Hook) {
	if r.out.Err = r.state.settle(); r.out.Err != nil {
		return
	}
	waited, apart := r.split(hooks)
	release, err := r.state.in.hold(waited)
	if err == nil && len(apart) > 0 {
		if err = r.background(apart, r.state.in); err != nil {
			release()
		}
	}
	if r.out.Err = err; err != nil {
		return
	}
	defer release()
	r.add(waited, r.state.runPass(ctx, waited))
}

// add adds the results of hooks that ran for the first time, or were skipped.
func (r *run) add(hooks []*Hook, results []HookResult) {
	r.ran, r.out.Results = append(r.ran, hooks...), append(r.out.Results, results...)
	for range hooks {
		r.seen = append(r.seen, r.state.changes)
	}
	r.out.Denied = r.out.Denied || slices.ContainsFunc(results, func(h HookResult) bool { return h.Deny })
}

// repeat runs hooks again if text has changed since, and adds what they say to their
// results.
func (r *run) repeat(ctx context.Context, hooks []*Hook) {
	first := slices.Index(r.ran, hooks[0])
	if r.seen[first] == r.state.changes {
		return
	}
	if r.out.Err = r.state.settle(); r.out.Err != nil {
		return
	}
	release, err := r.state.in.hold(hooks)
	if r.out.Err = err; err != nil {
		return
	}
	defer release()
	r.state.in.Again = true
	results := r.state.runPass(ctx, hooks)
	r.state.in.Again = false
	for i, h := range hooks {
		n := slices.Index(r.ran, h)
		r.out.Results[n].Merge(&results[i])
		r.seen[n] = r.state.changes
		r.out.Denied = r.out.Denied || results[i].Deny
	}
}

// skip adds the results of hooks that see nothing of what was denied before.
func (r *run) skip(hooks []*Hook) {
	waited, _ := r.split(hooks)
	results := make([]HookResult, len(waited))
	for i, h := range waited {
		results[i] = HookResult{ID: h.ID, Type: h.Type, Verdict: true, Skipped: true, CreatedAt: time.Now().UTC(), VersionID: h.VersionID,
			Rank: h.Rank}
	}
	r.add(waited, results)
}

// split separates the hooks that the caller waits for from those of the background.
func (r *run) split(hooks []*Hook) (waited, apart []*Hook) {
	delays := func(h *Hook) bool { return r.background == nil || !h.Async && !h.Shadow }
	for i, h := range hooks {
		if delays(h) {
			continue
		}
		waited = slices.Clone(hooks[:i])
		for _, h := range hooks[i:] {
			if delays(h) {
				waited = append(waited, h)
			} else {
				apart = append(apart, h)
			}
		}
		return waited, apart
	}
	return hooks, nil
}

// runPass runs hooks that the request waits for.
func (st *state) runPass(ctx context.Context, hooks []*Hook) []HookResult {
	results := make([]HookResult, len(hooks))
	in := st.in.share()
	st.in, st.owned = *in, false
	wait := startHooks(ctx, hooks, in, results)
	for i, h := range hooks {
		if !h.concurrent() {
			results[i] = h.run(ctx, in, st)
		}
	}
	wait()
	return results
}

// settle makes the text as it was changed so far the input of the next pass.
func (st *state) settle() error {
	if st.settled == st.changes || st.in.Document == nil {
		return nil
	}
	body, err := st.in.Document.JSON(st.in.Parts, st.in.add)
	if err != nil {
		return err
	}
	doc, parts, err := st.in.Document.Replace(body)
	if err != nil {
		return err
	}
	st.in.Document, st.in.Parts, st.in.add = doc, withOutside(parts, st.in.Parts), nil
	st.settled, st.replaced = st.changes, true
	if st.in.Event == Before {
		request := *st.in.Request
		request.Body, st.in.Request = doc, &request
	}
	return nil
}
