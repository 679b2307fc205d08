package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	messageBatchFamily = "message_batch"
	messageBatchPrefix = "msgbatch_sim"
	// maxMessageBatch is the limit of requests in a batch.
	// https://docs.anthropic.com/en/api/creating-message-batches
	maxMessageBatch = 100000
)

// messageBatchID is the form of the names of requests.
var messageBatchID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// A messageBatch is a batch of the messages protocol.
type messageBatch struct {
	*job
	itemRun
	halved bool // the results are cut when they are read
}

// serveMessageBatchCreate answers POST /messages/batches.
func serveMessageBatchCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok || !x.versioned() {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "requests")
	b := &messageBatch{}
	b.itemRun = itemRun{sim: x.sim, family: messageBatchFamily, id: messageBatchPrefix + strconv.FormatInt(x.number, 10),
		header: http.Header{"Content-Type": typeJSON, "Anthropic-Version": x.r.Header["Anthropic-Version"]}}
	list := c.needList(body, "requests", "")
	if len(list) > maxMessageBatch {
		c.fail("requests", "List should have at most %d items after validation, not %d", maxMessageBatch, len(list))
	}
	b.readItems(c, list)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	b.job = newJob(x.jobPaceOf(modelOf(b.items[0].body)), b, x.began)
	b.direct, b.halved = true, x.plan.halfContent
	x.sim.stored.add(messageBatchFamily, b.itemRun.id, 2*len(x.in), b)
	x.sendCreated(http.StatusOK, b.describe(x))
}

// readItems reads the requests. Their parameters are checked when they run.
func (b *messageBatch) readItems(c *checker, list []any) {
	seen := map[string]bool{}
	for i, v := range list {
		path := nth("requests", i)
		m := c.object(v, path)
		c.checkMembers(m, path, "custom_id", "params")
		id := c.needText(m, "custom_id", path)
		c.matches(id, at(path, "custom_id"), messageBatchID)
		if seen[id] {
			c.fail(at(path, "custom_id"), "custom_id must be unique within a batch, and '%s' is a duplicate", id)
		}
		seen[id] = true
		if m["params"] == nil {
			c.fail(at(path, "params"), "Field required")
		}
		raw, _ := json.Marshal(c.object(m["params"], at(path, "params"))) // it came from valid JSON
		b.items = append(b.items, &batchItem{key: id, path: "/v1/messages", body: raw})
	}
}

// describe returns the batch object. The caller holds mu, or nobody else has b.
func (b *messageBatch) describe(x *exchange) any {
	counts := b.count()
	status, address := "in_progress", any(nil)
	switch {
	case b.phase.ended():
		status, address = "ended", b.results(x)
	case b.phase == jobCanceling:
		status = "canceling"
	}
	return object{
		"id": b.itemRun.id, "type": "message_batch", "processing_status": status, "created_at": b.stamp(jobQueued),
		"expires_at": stampOf(b.at[jobQueued].Add(batchLifetime)), "ended_at": stampOf(b.last()), "archived_at": nil,
		"cancel_initiated_at": b.stamp(jobCanceling), "results_url": address,
		"request_counts": object{"processing": counts[jobQueued], "succeeded": counts[jobCompleted], "errored": counts[jobFailed],
			"canceled": counts[jobCanceled], "expired": counts[jobExpired]},
	}
}

// results returns the address of the results at the host that was asked.
func (b *messageBatch) results(x *exchange) string {
	before, _, _ := strings.Cut(x.r.URL.Path, "/messages/batches")
	return x.origin() + before + "/messages/batches/" + b.itemRun.id + "/results"
}

// serveMessageBatches answers GET /messages/batches.
func serveMessageBatches(x *exchange) {
	if !x.begin(nil) || !x.versioned() {
		return
	}
	query, ok := x.query("after_id", "before_id", "limit")
	if !ok {
		return
	}
	list, more, wrong := messagePage(listRecords[*messageBatch](&x.sim.stored, messageBatchFamily), query)
	if wrong != "" {
		x.refuse(statusOf, invalid(wrong, wrong+": Input should be valid"))
		return
	}
	data := make([]any, len(list))
	var first, last any
	for i, b := range list {
		b.mu.Lock()
		data[i] = b.describe(x)
		b.mu.Unlock()
		if last = b.itemRun.id; i == 0 {
			first = last
		}
	}
	x.sendJSON(http.StatusOK, object{"data": data, "has_more": more, "first_id": first, "last_id": last})
}

// messagePage returns the batches of a page, newest first, and whether more follow
// in its direction. wrong is the name of an invalid parameter.
func messagePage(list []*messageBatch, query url.Values) (page []*messageBatch, more bool, wrong string) {
	limit := 20
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return nil, false, "limit"
		}
		limit = n
	}
	after, before := query.Get("after_id"), query.Get("before_id")
	find := func(id string) int {
		return slices.IndexFunc(list, func(b *messageBatch) bool { return b.itemRun.id == id })
	}
	switch {
	case after != "" && before != "":
		return nil, false, "before_id"
	case after != "":
		i := find(after)
		if i < 0 {
			return nil, false, "after_id"
		}
		list = list[i+1:]
	case before != "":
		i := find(before)
		if i < 0 {
			return nil, false, "before_id"
		}
		from := max(i-limit, 0)
		return list[from:i], from > 0, ""
	}
	return list[:min(limit, len(list))], len(list) > limit, ""
}

// serveMessageBatch answers the routes of one batch.
func serveMessageBatch(x *exchange) {
	if !x.readBody() || !x.begin(nil) || !x.versioned() {
		return
	}
	parts := x.segments("/messages/batches/")
	b, ok := findRecord[*messageBatch](&x.sim.stored, messageBatchFamily, parts[0])
	serve := map[string]func(*exchange, *messageBatch){
		"GET ": readMessageBatch, "DELETE ": deleteMessageBatch, "POST cancel": cancelMessageBatch, "GET results": sendMessageResults,
	}[x.r.Method+" "+strings.Join(parts[1:], "/")]
	if !ok || serve == nil {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Message Batch not found: " + parts[0]})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	serve(x, b)
}

func readMessageBatch(x *exchange, b *messageBatch) {
	b.read(x.began)
	x.sendJSON(http.StatusOK, b.describe(x))
}

func cancelMessageBatch(x *exchange, b *messageBatch) {
	if !b.cancel(x.began) {
		x.refuse(statusOf, invalid("", "The batch has ended and cannot be canceled."))
		return
	}
	x.sendJSON(http.StatusOK, b.describe(x))
}

func deleteMessageBatch(x *exchange, b *messageBatch) {
	if !b.phase.ended() {
		x.refuse(statusOf, invalid("", "The batch is in progress: cancel it before it is deleted."))
		return
	}
	x.sim.stored.remove(messageBatchFamily, b.itemRun.id)
	x.sendJSON(http.StatusOK, object{"id": b.itemRun.id, "type": "message_batch_deleted"})
}

// sendMessageResults sends the results in another order than the requests were
// sent.
func sendMessageResults(x *exchange, b *messageBatch) {
	if !b.phase.ended() {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest,
			message: "The results of the batch are not available before it has ended."})
		return
	}
	x.out = x.out[:0]
	for _, item := range slices.Backward(b.items) {
		line, _ := json.Marshal(object{"custom_id": item.key, "result": item.message()}) // its parts are valid JSON
		x.out = append(append(x.out, line...), '\n')
	}
	if b.halved {
		x.faulty, x.plan.cut = true, len(x.out)/2+1
	}
	x.sendBody(http.StatusOK, []string{"application/x-jsonl"}, x.out)
}

// message returns the result of a request of the messages protocol.
func (item *batchItem) message() any {
	switch item.end {
	case jobCompleted:
		return object{"type": "succeeded", "message": json.RawMessage(item.got.body)}
	case jobCanceled:
		return object{"type": "canceled"}
	case jobExpired:
		return object{"type": "expired"}
	}
	failure := any(item.failure())
	if item.failure() == nil {
		failure = object{"type": "api_error", "message": "Internal server error"}
	}
	return object{"type": "errored", "error": object{"type": "error", "error": failure, "request_id": item.requestID()}}
}
