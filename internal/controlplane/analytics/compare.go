package analytics

import (
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/logstore"
)

// Comparison selects a period to compare groups or the summary of a graph with.
type Comparison struct {
	Compare     string    `query:"compare" enum:"previous" doc:"previous compares with the period of the same length that ends where the range begins"`
	CompareFrom time.Time `query:"compare_from" doc:"Beginning of another period to compare with"`
	CompareTo   time.Time `query:"compare_to" doc:"End of that period, exclusive"`
}

// period returns the filters of the period to compare with, nil for none.
func (c *Comparison) period(in *Filters, now time.Time) (*Filters, error) {
	if c == nil || c.Compare == "" && c.CompareFrom.IsZero() && c.CompareTo.IsZero() {
		return nil, nil
	}
	if err := in.span(now); err != nil {
		return nil, err
	}
	other := *in
	switch {
	case c.Compare != "" && (!c.CompareFrom.IsZero() || !c.CompareTo.IsZero()):
		return nil, route.Invalid("compare", "cannot be combined with compare_from and compare_to")
	case c.Compare != "":
		in.alignTo(now)
		other.From, other.To = in.From.Add(-in.To.Sub(in.From)), in.From
	case c.CompareFrom.IsZero() || c.CompareTo.IsZero():
		return nil, route.Invalid("compare_from", "and compare_to are needed together")
	case !c.CompareFrom.Before(c.CompareTo):
		return nil, route.Invalid("compare_to", "must be later than compare_from")
	case c.CompareTo.Sub(c.CompareFrom) > longestRange:
		return nil, route.Invalid("compare_from", "must be at most 366 days before compare_to")
	default:
		other.From, other.To = c.CompareFrom, c.CompareTo
	}
	return &other, nil
}

// alignTo rounds the range outwards to what sums are kept for, so that no request is in two
// periods that meet: to minutes, and if it is older than two days its beginning to hours.
func (f *Filters) alignTo(now time.Time) {
	unit := time.Minute
	if now.Sub(f.From) > 47*time.Hour {
		unit = time.Hour
	}
	f.From, f.To = f.From.Truncate(unit), f.To.Add(time.Minute-1).Truncate(time.Minute)
}

// compareWith keeps the groups of another period, and returns sums with those of its groups
// that they do not have, which are empty.
func (g *grouping) compareWith(sums, before []logstore.Group) []logstore.Group {
	g.before = make(map[string]*logstore.Totals, len(before))
	for i := range before {
		g.before[before[i].Value] = &before[i].Totals
	}
	missing := make(map[string]bool, len(before))
	for i := range before {
		missing[before[i].Value] = true
	}
	for i := range sums {
		delete(missing, sums[i].Value)
	}
	for value := range missing {
		sums = append(sums, logstore.Group{Value: value})
	}
	return sums
}

// column returns the value of a column, nil if it is unknown. Without requests all columns but
// counts are unknown.
func (g *grouping) column(name string, s *logstore.Totals) any {
	v := columns[name](s)
	if _, count := v.(int64); s.Requests == 0 && !count {
		return nil
	}
	return v
}

// showChange adds the figures of the other period to a group, and by how much they changed.
func (g *grouping) showChange(s *logstore.Group, out group) {
	old := g.before[s.Value]
	if old == nil {
		old = new(logstore.Totals)
	}
	before := group{"requests": old.Requests}
	for _, name := range g.columns {
		before[name] = g.column(name, old)
	}
	change, percent := changeOf(out, before)
	out["previous"], out["change"], out["change_percent"] = before, change, percent
}

// changeOf returns by how much figures differ from those before, as numbers and in percent. What
// is unknown in one of them is nil; times and lists are left out.
func changeOf(now, before map[string]any) (change, percent map[string]any) {
	change, percent = make(map[string]any, len(before)), make(map[string]any, len(before))
	for name, was := range before {
		if !isFigure(now[name]) || !isFigure(was) {
			continue
		}
		change[name], percent[name] = nil, nil
		a, known := number(now[name])
		if b, knownBefore := number(was); known && knownBefore {
			change[name], percent[name] = a-b, percentOf(a, b)
		}
	}
	return change, percent
}

func isFigure(v any) bool {
	_, ok := number(v)
	return ok || v == nil
}

// percentOf returns by how many percent a is more than b, nil if b is zero.
func percentOf(a, b float64) any {
	if b == 0 {
		return nil
	}
	return 100 * (a - b) / b
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
