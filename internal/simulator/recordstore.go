package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxRecordCount is the limit of stored records of all families.
const maxRecordCount = 4000

// A record is an object that a client made and reads later: a batch, a job, a
// response.
type record struct {
	family string // whose clients see it
	id     string
	size   int64 // bytes that a client can make as large as it likes
	value  any
}

// recordStore keeps records in memory; the oldest are removed when it is full.
type recordStore struct {
	limit   int64 // bytes
	mu      sync.Mutex
	records []*record // guarded by mu, oldest first
	size    int64     // guarded by mu
}

func (s *recordStore) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.size = nil, 0
}

// add stores a record, and replaces one of its family with the same id.
func (s *recordStore) add(family, id string, size int, value any) {
	r := &record{family: family, id: id, size: int64(size + len(id)), value: value}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(family, id); i >= 0 {
		s.removeAt(i)
	}
	s.records = append(s.records, r)
	s.size += r.size
	s.trim()
}

// grow adds bytes to the size of a record, which may have been removed.
func (s *recordStore) grow(family, id string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(family, id); i >= 0 {
		s.records[i].size += int64(size)
		s.size += int64(size)
		s.trim()
	}
}

// trim removes the oldest records beyond the limits. The caller holds mu.
func (s *recordStore) trim() {
	for len(s.records) > 0 && (s.size > s.limit || len(s.records) > maxRecordCount) {
		s.removeAt(0)
	}
}

func (s *recordStore) removeAt(i int) {
	s.size -= s.records[i].size
	s.records = slices.Delete(s.records, i, i+1)
}

func (s *recordStore) index(family, id string) int {
	return slices.IndexFunc(s.records, func(r *record) bool { return r.family == family && r.id == id })
}

func (s *recordStore) remove(family, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(family, id)
	if i >= 0 {
		s.removeAt(i)
	}
	return i >= 0
}

func (s *recordStore) find(family, id string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(family, id); i >= 0 {
		return s.records[i].value
	}
	return nil
}

// findRecord returns the record of a family, or the zero value.
func findRecord[T any](s *recordStore, family, id string) (value T, ok bool) {
	value, ok = s.find(family, id).(T)
	return value, ok
}

// listRecords returns the records of a family, newest first.
func listRecords[T any](s *recordStore, family string) (list []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(s.records) {
		if value, ok := r.value.(T); ok && r.family == family {
			list = append(list, value)
		}
	}
	return list
}

// object is a JSON object of a response.
type object = map[string]any

// sendJSON sends a value.
func (x *exchange) sendJSON(status int, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		x.refuse(http.StatusInternalServerError, statusError(http.StatusInternalServerError))
		return
	}
	x.sendBody(status, typeJSON, raw)
}

// sendCreated sends a stored object, unless the plan loses the response.
func (x *exchange) sendCreated(status int, value any) {
	if x.plan.lost {
		x.resetConn()
		return
	}
	x.sendJSON(status, value)
}

// usualQuery are the parameters that every route accepts.
var usualQuery = []string{"api-version", "beta", "key"}

// query returns the parameters of the request. It returns false after an error
// response for one that is unknown.
func (x *exchange) query(names ...string) (url.Values, bool) {
	query := x.r.URL.Query()
	for name := range query {
		if !slices.Contains(names, name) && !slices.Contains(usualQuery, name) {
			x.refuse(statusOf, unknownMember("", name))
			return nil, false
		}
	}
	return query, true
}

// A pager cuts a list into pages whose cursor is the id of the last element.
type pager struct {
	usual, most int // elements of a page
}

// pageAfter returns a page of a list, newest first unless the order is asc, and
// whether more follow.
func pageAfter[T any](p pager, list []T, id func(T) string, query url.Values) (page []T, more bool, wrong providerError) {
	limit := p.usual
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > p.most {
			return nil, false, invalid("limit", "Invalid 'limit': expected an integer from 1 to "+itoa(p.most)+".")
		}
		limit = n
	}
	switch query.Get("order") {
	case "asc":
		list = slices.Clone(list)
		slices.Reverse(list)
	case "", "desc":
	default:
		return nil, false, invalid("order", "Invalid 'order': expected 'asc' or 'desc'.")
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == after })
		if i < 0 {
			return nil, false, invalid("after", "Invalid 'after': there is no object with the id '"+after+"'.")
		}
		list = list[i+1:]
	}
	return list[:min(limit, len(list))], len(list) > limit, wrong
}

// sendList sends a page in the chat protocol's shape.
func sendList[T any](x *exchange, p pager, list []T, id func(T) string, query url.Values, describe func(T) any) {
	page, more, wrong := pageAfter(p, list, id, query)
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	data := make([]any, len(page))
	var first, last any
	for i, v := range page {
		data[i] = describe(v)
		if last = id(v); i == 0 {
			first = last
		}
	}
	x.sendJSON(http.StatusOK, object{"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": more})
}

// segments returns the parts of the path after a prefix.
func (x *exchange) segments(prefix string) []string {
	return strings.Split(strings.Trim(strings.TrimPrefix(withoutVersion(x.r.URL.Path), prefix), "/"), "/")
}
