package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// A batchItem is a request in a batch of a vendor, and its result once the batch
// has ended.
type batchItem struct {
	key  string // as the client names it
	path string // of the operation
	body []byte
	end  jobPhase       // how the request ended; jobQueued before
	got  *innerResponse // nil unless it was run
	meta any            // what the client sent along
}

// itemRun runs the items of a batch.
type itemRun struct {
	sim    *Simulator
	family string
	id     string
	header http.Header // of each request
	items  []*batchItem
}

// produce runs the items of a job that ends in this phase: half of them unless it
// completes, and none if it did not begin.
func (r *itemRun) produce(end jobPhase, began bool) {
	most := len(r.items)
	if end != jobCompleted {
		most /= 2
	}
	if !began {
		most = 0
	}
	size := 0
	for i, item := range r.items {
		if i >= most {
			item.end = end
			continue
		}
		item.run(r.sim, r.header, int64(size) > r.sim.files.limit)
		size += len(item.got.body)
	}
	r.sim.stored.grow(r.family, r.id, size)
}

// check accepts the input, which has been checked.
func (r *itemRun) check() bool { return true }

// run runs an item, unless the results are too large already.
func (item *batchItem) run(s *Simulator, header http.Header, full bool) {
	item.end = jobFailed
	if full {
		item.got = &innerResponse{header: http.Header{}}
		return
	}
	item.got = s.call(item.path, item.body, header)
	item.got.body = bytes.TrimSpace(item.got.body)
	kind := item.got.header.Get("Content-Type")
	if item.got.status == http.StatusOK && strings.HasPrefix(kind, "application/json") && json.Valid(item.got.body) {
		item.end = jobCompleted
	}
}

// failure returns the error object of an item, which is the member error of the
// response, or one of the server.
func (item *batchItem) failure() json.RawMessage {
	var got struct{ Error json.RawMessage }
	if item.got != nil && json.Unmarshal(item.got.body, &got) == nil && len(got.Error) > 0 {
		return got.Error
	}
	return nil
}

// count returns the number of items by the way they ended.
func (r *itemRun) count() (counts [jobPhaseCount]int) {
	for _, item := range r.items {
		counts[item.end]++
	}
	return counts
}

// usageOf returns the sum of the usage of all items.
func (r *itemRun) usageOf() (u tokenUsage) {
	for _, item := range r.items {
		if item.end == jobCompleted {
			u.add(item.got.body)
		}
	}
	return u
}

// modelOf returns the model in a body, or an empty string.
func modelOf(body []byte) string {
	var got struct{ Model string }
	json.Unmarshal(body, &got) // another body has none
	return got.Model
}

// requestID returns the id of the request of an item, or nil if it was not run.
func (item *batchItem) requestID() any {
	if item.got == nil {
		return nil
	}
	return item.got.header.Get("X-Request-Id")
}

// oddLines returns lines without the first, and with the last one twice.
func oddLines(all []byte) []byte {
	_, rest, _ := bytes.Cut(all, []byte("\n"))
	last := bytes.LastIndexByte(bytes.TrimSuffix(rest, []byte("\n")), '\n') + 1
	return append(bytes.Clone(rest), rest[last:]...)
}
