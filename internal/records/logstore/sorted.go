package logstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/records/reqlog"
)

// SortField is a value of entries by which lists are sorted.
type SortField string

// SortFields. An entry without the value is after those with one, in both directions.
const (
	SortCreated    SortField = "created_at"
	SortCost       SortField = "cost"
	SortLatency    SortField = "latency"
	SortTokens     SortField = "tokens"
	SortFirstToken SortField = "first_token"
)

// SortFields are all of them.
var SortFields = []SortField{SortCreated, SortCost, SortLatency, SortTokens, SortFirstToken}

// Order is an order of a list. Entries with equal values are sorted by id, newest first.
type Order struct {
	By        SortField
	Ascending bool
}

// rankOf returns the place of an entry in the order.
func (o Order) rankOf(e *reqlog.Entry) rank {
	r := rank{id: e.ID}
	switch o.By {
	case SortCost:
		r.value, r.known = int64(e.Cost), e.Priced
	case SortLatency:
		r.value, r.known = int64(e.Total), true
	case SortTokens:
		r.value, r.known = e.Usage.Total(), e.Usage.Known
	case SortFirstToken:
		r.value, r.known = int64(e.FirstToken), e.FirstToken > 0
	default:
		r.value, r.known = millis(e.ID), true
	}
	if !r.known {
		r.value = 0
	}
	return r
}

// rank is the place of an entry in an order. No two entries have the same.
type rank struct {
	value int64
	known bool
	id    reqlog.ID
}

// compare returns a negative number if a is before b.
func (o Order) compare(a, b rank) int {
	if a.known != b.known {
		if a.known {
			return -1
		}
		return 1
	}
	values := cmp.Compare(b.value, a.value)
	if o.Ascending {
		values = -values
	}
	return cmp.Or(values, slices.Compare(b.id[:], a.id[:]))
}

// Limit of the entries read for a sorted page, in pages as in [Store.sumEntries].
const mostSortedPages = 1000

// listSorted returns a page of a sorted list. Each page reads all matching entries and keeps
// those that follow the cursor, so that entries recorded between two pages neither repeat nor
// hide others. It counts as a search; see [searches].
func (s *Store) listSorted(ctx context.Context, q Query) (Page, error) {
	if q.Text != "" {
		return Page{}, apierr.New(apierr.Invalid, "order_by cannot be combined with text: a search ends before it has read everything").
			WithParam("order_by")
	}
	limit, order := cmp.Or(q.Limit, defaultLimit), q.Order
	if limit < 1 || limit > maxLimit {
		return Page{}, apierr.New(apierr.Invalid, "limit must be 1 to %d, not %d", maxLimit, q.Limit).WithParam("limit")
	}
	sum := crc32.Update(q.fingerprint(), crc32.IEEETable, fmt.Appendf(nil, "%s %t", order.By, order.Ascending))
	after, err := parseRank(q.Cursor, sum)
	if err != nil {
		return Page{}, err
	}
	done, err := s.searches.begin(ctx, q.Scope.Organisation)
	if err != nil {
		return Page{}, err
	}
	defer done()
	q.Order, q.Cursor, q.Limit = Order{}, "", maxLimit
	best := make([]ranked, 0, 2*(limit+1))
	for cost := 0; cost < mostSortedPages; {
		page, err := s.List(ctx, q)
		if err != nil {
			return Page{}, err
		}
		for _, e := range page.Entries {
			if r := order.rankOf(e); after == nil || order.compare(*after, r) < 0 {
				best = append(best, ranked{r, e})
			}
			if len(best) == cap(best) {
				best = order.first(best, limit+1)
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return sortedPage(order.first(best, limit+1), limit, sum), nil
		}
		cost++
		if len(page.Entries) < maxLimit {
			cost += pageCost - 1
		}
	}
	return Page{}, apierr.New(apierr.Invalid, "too many entries to sort: order_by reads each matching entry of the time; "+
		"narrow it by from and to, or add filters").WithParam("order_by")
}

// ranked is an entry with its place.
type ranked struct {
	rank
	entry *reqlog.Entry
}

// first returns the first n of list in their order. It reuses list.
func (o Order) first(list []ranked, n int) []ranked {
	slices.SortFunc(list, func(a, b ranked) int { return o.compare(a.rank, b.rank) })
	if len(list) > n {
		clear(list[n:])
		list = list[:n]
	}
	return list
}

// sortedPage returns the first entries of best as a page.
func sortedPage(best []ranked, limit int, sum uint32) (page Page) {
	if len(best) > limit {
		best = best[:limit]
		page.Next = best[limit-1].cursor(sum)
	}
	for _, b := range best {
		page.Entries = append(page.Entries, b.entry)
	}
	return page
}

// A cursor of a sorted list is the place after which it continues, and a checksum over it, the
// filters and the order, in base64.
const rankSize = 8 + 1 + len(reqlog.ID{})

func (r rank) cursor(sum uint32) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, rankSize+4), uint64(r.value))
	known := byte(0)
	if r.known {
		known = 1
	}
	b = append(append(b, known), r.id[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.Update(sum, crc32.IEEETable, b))
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseRank returns the place that a cursor names, nil for an empty one.
func parseRank(cursor string, sum uint32) (*rank, error) {
	if cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) != rankSize+4 ||
		binary.BigEndian.Uint32(b[rankSize:]) != crc32.Update(sum, crc32.IEEETable, b[:rankSize]) {
		return nil, badCursor()
	}
	r := &rank{value: int64(binary.BigEndian.Uint64(b)), known: b[8] == 1}
	copy(r.id[:], b[9:])
	return r, nil
}
