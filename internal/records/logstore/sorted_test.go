package logstore

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// TestSortedListsHaveEachEntryOnce pages through every order while entries come in: what was
// there is listed once, in the order that the test makes of the entries.
func TestSortedListsHaveEachEntryOnce(t *testing.T) {
	onBothKinds(t, func(t *testing.T, s *Store) {
		all := variedEntries(130)
		for i, e := range all { // several with the same value
			e.Cost = e.Cost % 5
			all[i] = e
		}
		mustRecord(t, s, all...)
		late := variedEntries(400)[130:]
		values := map[SortField]func(e *reqlog.Entry) (int64, bool){
			SortCreated:    func(e *reqlog.Entry) (int64, bool) { return e.Time.UnixMilli(), true },
			SortCost:       func(e *reqlog.Entry) (int64, bool) { return int64(e.Cost), e.Priced },
			SortLatency:    func(e *reqlog.Entry) (int64, bool) { return int64(e.Total), true },
			SortTokens:     func(e *reqlog.Entry) (int64, bool) { return e.Usage.Input + e.Usage.Output, e.Usage.Known },
			SortFirstToken: func(e *reqlog.Entry) (int64, bool) { return int64(e.FirstToken), e.FirstToken > 0 },
		}
		there := map[reqlog.ID]bool{}
		for _, e := range all {
			there[e.ID] = true
		}
		for _, by := range SortFields {
			for _, up := range []bool{false, true} {
				want := slices.Clone(all)
				slices.SortFunc(want, func(a, b *reqlog.Entry) int {
					x, knownX := values[by](a)
					y, knownY := values[by](b)
					if knownX != knownY {
						return map[bool]int{true: -1, false: 1}[knownX]
					}
					order := 0
					if knownX {
						order = cmp.Compare(y, x)
					}
					if up {
						order = -order
					}
					return cmp.Or(order, bytes.Compare(b.ID[:], a.ID[:]))
				})
				q := Query{From: noon.Add(-24 * time.Hour), To: noon.Add(time.Hour), Limit: 9, Order: Order{by, up}}
				var got []*reqlog.Entry
				for pages := 0; pages == 0 || q.Cursor != ""; pages++ {
					page, err := s.List(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range page.Entries {
						if there[e.ID] {
							got = append(got, e)
						}
					}
					if q.Cursor = page.Next; pages%4 == 0 && len(late) > 0 {
						mustRecord(t, s, late[0])
						late = late[1:]
					}
				}
				ids := func(list []*reqlog.Entry) (out []reqlog.ID) {
					for _, e := range list {
						out = append(out, e.ID)
					}
					return out
				}
				if !slices.Equal(ids(got), ids(want)) {
					t.Errorf("by %s, ascending %v: %d entries in another order than the %d that were there", by, up, len(got), len(want))
				}
			}
		}
	})
}

func TestSortedListsRefuseOtherCursors(t *testing.T) {
	s := mustFile(t)
	mustRecord(t, s, variedEntries(5)...)
	q := Query{From: noon.Add(-24 * time.Hour), To: noon.Add(time.Hour), Limit: 2, Order: Order{By: SortCost}}
	page, err := s.List(t.Context(), q)
	if err != nil || len(page.Entries) != 2 || page.Next == "" {
		t.Fatalf("%d entries, next %q, %v", len(page.Entries), page.Next, err)
	}
	for name, change := range map[string]func(q *Query){
		"another direction":  func(q *Query) { q.Order.Ascending = true },
		"another order":      func(q *Query) { q.Order.By = SortLatency },
		"no order":           func(q *Query) { q.Order = Order{} },
		"another filter":     func(q *Query) { q.Model = "m1" },
		"another list":       func(q *Query) { q.Is = map[Field][]string{ByErrorCode: {"x"}} },
		"an altered cursor":  func(q *Query) { q.Cursor = "A" + q.Cursor[1:] + "A" },
		"text, in any order": func(q *Query) { q.Cursor, q.Text = "", "word" },
	} {
		other := q
		other.Cursor = page.Next
		change(&other)
		if _, err := s.List(t.Context(), other); apierr.From(err).Kind != apierr.Invalid {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	if _, err := s.List(t.Context(), Query{Limit: 1001, Order: q.Order}); err == nil {
		t.Error("a page of 1001 entries is accepted")
	}
	if got := fmt.Sprint(SortFields); got != "[created_at cost latency tokens first_token]" {
		t.Errorf("orders are %s", got)
	}
}
