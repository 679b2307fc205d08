package logstore

import (
	"strconv"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// bound is a range of a query with its name.
type bound struct {
	name string
	Bounds
}

// bounds returns the ranges that are set, in a fixed order.
func (q *Query) bounds() (list []bound) {
	for _, b := range [...]bound{{"cost", q.Cost}, {"tokens", q.Tokens}, {"prompt_tokens", q.PromptTokens},
		{"completion_tokens", q.CompletionTokens}} {
		if b.Min != nil || b.Max != nil {
			list = append(list, b)
		}
	}
	return list
}

func (q *Query) checkBounds() error {
	for _, b := range q.bounds() {
		if b.Min != nil && b.Max != nil && *b.Min > *b.Max {
			return apierr.New(apierr.Invalid, "the smallest %s must not be above the largest", b.name).WithParam(b.name)
		}
	}
	return q.Weighted.check()
}

// measures reports whether the query has ranges.
func (q *Query) measures() bool {
	return q.Cost != Bounds{} || q.Tokens != Bounds{} || q.PromptTokens != Bounds{} || q.CompletionTokens != Bounds{} || q.Traces != nil
}

// matchesMeasures reports whether e is within all ranges.
func (q *Query) matchesMeasures(e *reqlog.Entry) bool {
	u := &e.Usage
	return q.Cost.hold(e.Priced, int64(e.Cost)) && q.Tokens.hold(u.Known, u.Total()) &&
		q.PromptTokens.hold(u.Known, u.Prompt()) && q.CompletionTokens.hold(u.Known, u.Completion()) &&
		(q.Traces == nil || q.Traces[TraceOf{e.Workspace, e.TraceID}])
}

func (b Bounds) hold(known bool, n int64) bool {
	switch {
	case b == Bounds{}:
		return true
	case !known, b.Min != nil && n < *b.Min:
		return false
	}
	return b.Max == nil || n <= *b.Max
}

// text returns a string that identifies the range.
func (b Bounds) text() string {
	var out strings.Builder
	for _, n := range [...]*int64{b.Min, b.Max} {
		if out.WriteString(","); n != nil {
			out.WriteString(strconv.FormatInt(*n, 10))
		}
	}
	return out.String()
}
