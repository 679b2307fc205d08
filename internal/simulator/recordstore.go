package simulator

import (
	"container/list"
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
	recordKey
	size  int64 // bytes that a client can make as large as it likes
	value any
}

// A recordKey names a record.
type recordKey struct {
	family string // whose clients see it
	id     string
}

// recordStore keeps records in memory; the oldest are removed when it is full.
type recordStore struct {
	limit int64 // bytes
	mu    sync.Mutex
	order list.List                   // of *record, oldest first; guarded by mu
	byKey map[recordKey]*list.Element // guarded by mu
	size  int64                       // guarded by mu
}

func (s *recordStore) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order.Init()
	clear(s.byKey)
	s.size = 0
}

// add stores a record, and replaces one of its family with the same id.
func (s *recordStore) add(family, id string, size int, value any) {
	r := &record{recordKey: recordKey{family, id}, size: int64(size + len(id)), value: value}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeKey(r.recordKey)
	if s.byKey == nil {
		s.byKey = make(map[recordKey]*list.Element)
	}
	s.byKey[r.recordKey] = s.order.PushBack(r)
	s.size += r.size
	s.trim()
}

// grow adds bytes to the size of a record, which may have been removed.
func (s *recordStore) grow(family, id string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[recordKey{family, id}]; e != nil {
		e.Value.(*record).size += int64(size)
		s.size += int64(size)
		s.trim()
	}
}

// trim removes the oldest records beyond the limits. The caller holds mu.
func (s *recordStore) trim() {
	for s.order.Len() > 0 && (s.size > s.limit || s.order.Len() > maxRecordCount) {
		s.removeKey(s.order.Front().Value.(*record).recordKey)
	}
}

// removeKey removes a record and reports whether it existed. The caller holds mu.
func (s *recordStore) removeKey(key recordKey) bool {
	e := s.byKey[key]
	if e == nil {
		return false
	}
	s.size -= e.Value.(*record).size
	s.order.Remove(e)
	delete(s.byKey, key)
	return true
}

func (s *recordStore) remove(family, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeKey(recordKey{family, id})
}

func (s *recordStore) find(family, id string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[recordKey{family, id}]; e != nil {
		return e.Value.(*record).value
	}
	return nil
}

// findRecord returns the record of a family, or the zero value.
func findRecord[T any](s *recordStore, family, id string) (value T, ok bool) {
	value, ok = s.find(family, id).(T)
	return value, ok
}

// listRecords returns the records of a family, newest first.
func listRecords[T any](s *recordStore, family string) (values []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Back(); e != nil; e = e.Prev() {
		r := e.Value.(*record)
		if value, ok := r.value.(T); ok && r.family == family {
			values = append(values, value)
		}
	}
	return values
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

// signedURL returns an address at the host that was asked, which needs no key.
func (x *exchange) signedURL(path string) string {
	return x.origin() + path + "?signature=" + url.QueryEscape(signature("url", path))
}

// isSigned reports whether the address of a request is its credential.
func isSigned(r *http.Request) bool {
	if !strings.Contains(r.URL.RawQuery, "signature=") {
		return false
	}
	sign := r.URL.Query().Get("signature")
	return sign != "" && sign == signature("url", r.URL.Path)
}

// origin returns the scheme and the host that was asked.
func (x *exchange) origin() string {
	if x.r.TLS != nil {
		return "https://" + x.r.Host
	}
	return "http://" + x.r.Host
}

// usualQuery are the parameters that every route accepts.
var usualQuery = []string{"api-version", "beta", "key", "signature"}

// query returns the parameters of the request. It returns false after an error
// response for one that is unknown. A name that ends in [ is the beginning of
// several.
func (x *exchange) query(names ...string) (url.Values, bool) {
	query := x.r.URL.Query()
	for name := range query {
		before, _, _ := strings.Cut(name, "[")
		if !slices.Contains(names, name) && !slices.Contains(names, before+"[") && !slices.Contains(usualQuery, name) {
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

// A collection is a list that is sent by page, newest first.
type collection[T any] struct {
	pager
	list     []T
	id       func(T) string
	describe func(T) any
}

// page returns the descriptions of a page, whether more follow, and the id of its
// first and of its last element. It returns false after an error response.
func (c collection[T]) page(x *exchange, query url.Values) (data []any, more bool, ends [2]any, ok bool) {
	page, more, wrong := pageAfter(c.pager, c.list, c.id, query)
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return nil, false, ends, false
	}
	data = make([]any, len(page))
	for i, v := range page {
		data[i] = c.describe(v)
		if ends[1] = c.id(v); i == 0 {
			ends[0] = ends[1]
		}
	}
	return data, more, ends, true
}

// send sends a page in the chat protocol's shape.
func (c collection[T]) send(x *exchange, query url.Values) {
	if data, more, ends, ok := c.page(x, query); ok {
		x.sendJSON(http.StatusOK, object{"object": "list", "data": data, "first_id": ends[0], "last_id": ends[1], "has_more": more})
	}
}

// segments returns the parts of the path after a prefix.
func (x *exchange) segments(prefix string) []string {
	return strings.Split(strings.Trim(strings.TrimPrefix(withoutVersion(x.r.URL.Path), prefix), "/"), "/")
}
