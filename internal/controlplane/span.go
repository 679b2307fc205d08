package controlplane

import (
	"cmp"
	"slices"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
)

// spanNode is a span of a trace: an exchange or one of its attempts. Unknown values are
// null.
type spanNode struct {
	Object   string     `json:"object" doc:"Always span"`
	Kind     string     `json:"kind" enum:"exchange,attempt"`
	ID       *string    `json:"id" doc:"Id of a request"`
	SpanID   *string    `json:"span_id"`
	ParentID *string    `json:"parent_span_id"`
	Name     string     `json:"span_name" doc:"Set by the request, otherwise METHOD path; the target for an attempt"`
	Start    route.Time `json:"start_time"`
	Duration float64    `json:"duration_ms"`
	Status   *int       `json:"status"`
	Error    *string    `json:"error"`

	Operation *string    `json:"operation"`
	Provider  *string    `json:"provider"`
	Slug      *string    `json:"provider_slug"`
	Model     *string    `json:"model" doc:"Response model, otherwise the requested model"`
	Outcome   *string    `json:"outcome" enum:"success,error,cancelled,other" doc:"Outcome of a request"`
	Cost      *float64   `json:"cost" doc:"US cents"`
	Usage     *spanUsage `json:"usage"`

	Orphan   bool        `json:"orphan" doc:"True if its parent does not exist, is one of its descendants, or is nested too deeply"`
	Children []*spanNode `json:"children" doc:"Sorted by time"`

	begin time.Time
}

type spanUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// maxDepth is the limit of nested spans, because JSON parsers limit nesting too.
const maxDepth = 200

// buildSpanTree arranges the entries of a trace, oldest first, as trees and returns the
// roots. If several entries have the same span id, the oldest gets the children.
func buildSpanTree(entries []*reqlog.Entry) []*spanNode {
	spans, bySpan := make([]*spanNode, len(entries)), make(map[string]int, len(entries))
	for i, e := range entries {
		spans[i] = spanOf(e)
		if _, taken := bySpan[e.SpanID]; e.SpanID != "" && !taken {
			bySpan[e.SpanID] = i
		}
	}
	parents := parentsOf(entries, bySpan)
	roots := []*spanNode{}
	for i, s := range spans {
		if parents[i] >= 0 {
			p := spans[parents[i]]
			p.Children = append(p.Children, s)
			continue
		}
		s.Orphan = entries[i].ParentSpanID != ""
		roots = append(roots, s)
	}
	for _, s := range spans {
		sortSpans(s.Children)
	}
	sortSpans(roots)
	return roots
}

// parentsOf returns the index of each entry's parent, -1 for none. Links that would
// make a cycle or exceed maxDepth are cut.
func parentsOf(entries []*reqlog.Entry, bySpan map[string]int) []int {
	parents, depths := make([]int, len(entries)), make([]int, len(entries))
	for i, e := range entries {
		parents[i] = -1
		if p, ok := bySpan[e.ParentSpanID]; ok && e.ParentSpanID != "" {
			parents[i] = p
		}
	}
	for i := range entries {
		for _, at := range slices.Backward(upward(i, parents, depths)) {
			if p := parents[at]; p >= 0 && depths[p] < maxDepth {
				depths[at] = depths[p] + 1
				continue
			}
			parents[at], depths[at] = -1, 1
		}
	}
	return parents
}

// upward returns i and its ancestors whose depths are unknown. A cycle is cut above the
// first of its entries that is visited.
func upward(i int, parents, depths []int) (path []int) {
	on := make(map[int]bool)
	for at := i; at >= 0 && depths[at] == 0; at = parents[at] {
		if on[at] {
			parents[at] = -1
			return upward(i, parents, depths)
		}
		path, on[at] = append(path, at), true
	}
	return path
}

func sortSpans(list []*spanNode) {
	slices.SortStableFunc(list, func(a, b *spanNode) int { return a.begin.Compare(b.begin) })
}

func spanOf(e *reqlog.Entry) *spanNode {
	s := &spanNode{
		Object: "span", Kind: "exchange", ID: orNull(e.ID.String()), SpanID: orNull(e.SpanID), ParentID: orNull(e.ParentSpanID),
		Name: cmp.Or(e.SpanName, e.Method+" "+e.Path), Start: route.Time(e.Time), begin: e.Time, Duration: ms(e.Total), Status: orNull(e.Status),
		Error: orNull(cmp.Or(e.ErrorMessage, e.ErrorCode)), Operation: orNull(string(e.Operation)),
		Provider: orNull(e.Provider), Slug: orNull(e.Slug), Model: orNull(cmp.Or(e.ResponseModel, e.Model)),
		Outcome: orNull(e.Outcome().String()), Children: []*spanNode{},
	}
	if e.Priced {
		cost := float64(e.Cost) / 1e7
		s.Cost = &cost
	}
	if u := &e.Usage; u.Known {
		s.Usage = &spanUsage{u.Prompt(), u.Completion(), u.Total()}
	}
	for i := range e.Attempts {
		a := &e.Attempts[i]
		at := e.Time.Add(a.Start)
		s.Children = append(s.Children, &spanNode{
			Object: "span", Kind: "attempt", ParentID: s.SpanID, Name: a.Target, Start: route.Time(at), begin: at, Duration: ms(a.Took),
			Status: orNull(a.Status), Error: orNull(a.Error), Provider: orNull(a.Provider), Slug: orNull(a.Slug), Children: []*spanNode{},
		})
	}
	return s
}

// orNull returns v, nil for its zero value.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ms returns d in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
