package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	xaiBatchFamily = "xai.batch"
	// xaiLifetime is how long results are kept.
	xaiLifetime = 30 * 24 * time.Hour
)

// An xaiBatch is a batch of xAI, which takes requests until it is cancelled.
// https://docs.x.ai/docs/guides/batch-api
type xaiBatch struct {
	*job
	itemRun
	name  string
	asked jobPace // by the request that created it
}

// serveXAICreate answers POST /batches of xAI.
func serveXAICreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "name")
	b := &xaiBatch{name: c.filled(body, "name", "")}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	b.itemRun = itemRun{sim: x.sim, family: xaiBatchFamily, id: "batch_sim" + strconv.FormatInt(x.number, 10),
		header: http.Header{"Content-Type": typeJSON}}
	b.asked = x.jobPaceOf("")
	b.job = newJob(b.asked, b, x.began)
	b.direct = true
	x.sim.stored.add(xaiBatchFamily, b.itemRun.id, len(x.in), b)
	x.sendCreated(http.StatusOK, b.describe())
}

// describe returns the batch. The caller holds mu, or nobody else has b.
func (b *xaiBatch) describe() any {
	counts := b.count()
	return object{
		"batch_id": b.itemRun.id, "name": b.name, "create_time": b.stamp(jobQueued), "create_api_key_id": "key-sim",
		"expire_time": stampOf(b.at[jobQueued].Add(xaiLifetime)), "cancel_time": b.stamp(jobCanceling), "cancel_by_xai_message": nil,
		"state": object{"num_requests": len(b.items), "num_pending": counts[jobQueued], "num_success": counts[jobCompleted],
			"num_error": counts[jobFailed] + counts[jobExpired], "num_cancelled": counts[jobCanceled]},
	}
}

// serveXAIBatches answers GET /batches of xAI.
func serveXAIBatches(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("limit", "pagination_token")
	if !ok {
		return
	}
	list := listRecords[*xaiBatch](&x.sim.stored, xaiBatchFamily)
	sendXAI(x, query, "batches", collection[*xaiBatch]{xaiPages, list, func(b *xaiBatch) string { return b.itemRun.id },
		func(b *xaiBatch) any {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.describe()
		}})
}

// xaiPages are the pages of all lists.
var xaiPages = pager{usual: 100, most: 1000}

// sendXAI sends a page in xAI's shape.
func sendXAI[T any](x *exchange, query url.Values, name string, c collection[T]) {
	data, more, ends, ok := c.page(x, url.Values{"limit": query["limit"], "after": query["pagination_token"]})
	if !ok {
		return
	}
	d := object{name: data, "pagination_token": nil}
	if more {
		d["pagination_token"] = ends[1]
	}
	x.sendJSON(http.StatusOK, d)
}

// serveXAIBatch answers the routes of one batch of xAI.
func serveXAIBatch(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/batches/")
	id, cancels := strings.CutSuffix(parts[0], ":cancel")
	b, ok := findRecord[*xaiBatch](&x.sim.stored, xaiBatchFamily, id)
	if !ok {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "The batch " + id + " was not found."})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	operation := x.r.Method + " " + strings.Join(parts[1:], "/")
	if cancels {
		operation += ":cancel"
	}
	switch operation {
	case "GET ":
		if len(b.items) > 0 {
			b.read(x.began)
		}
		x.sendJSON(http.StatusOK, b.describe())
	case "POST :cancel":
		b.stop(x)
	case "POST requests":
		b.addRequests(x)
	case "GET requests":
		b.listRequests(x)
	case "GET results":
		b.listResults(x)
	default:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "there is no such operation of a batch"})
	}
}

func (b *xaiBatch) stop(x *exchange) {
	if b.cancel(x.began) && b.pace.mode != jobSlowCancels {
		b.next(x.began)
	}
	x.sendJSON(http.StatusOK, b.describe())
}

// addRequests adds requests to the batch. The first ones begin its run.
func (b *xaiBatch) addRequests(x *exchange) {
	body, ok := x.decodeObject()
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "batch_requests")
	var items []*batchItem
	for i, v := range c.needList(body, "batch_requests", "") {
		path := nth("batch_requests", i)
		m := c.object(v, path)
		c.checkMembers(m, path, "batch_request_id", "batch_request")
		request := c.object(m["batch_request"], at(path, "batch_request"))
		c.checkMembers(request, at(path, "batch_request"), "chat_get_completion", "responses")
		item := &batchItem{key: c.filled(m, "batch_request_id", path), path: "/v1/chat/completions"}
		kind := c.one(request, at(path, "batch_request"), "chat_get_completion", "responses")
		if kind == "responses" {
			item.path = "/v1/responses"
		}
		item.meta = kind
		item.body, _ = json.Marshal(request[kind]) // it came from valid JSON
		if slices.ContainsFunc(append(b.items, items...), func(other *batchItem) bool { return other.key == item.key }) {
			c.fail(at(path, "batch_request_id"), "the id '%s' is a duplicate", item.key)
		}
		items = append(items, item)
	}
	if c.wrong.kind == "" && (b.phase.ended() || b.phase == jobCanceling) {
		c.fail("batch_id", "the batch takes no further requests")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	if len(b.items) == 0 && b.asked == (jobPace{}) {
		b.pace = x.jobPaceOf(modelOf(items[0].body))
		b.pace.reads = max(b.pace.reads, 1)
	}
	b.items = append(b.items, items...)
	x.sim.stored.grow(xaiBatchFamily, b.itemRun.id, 2*len(x.in))
	x.sendCreated(http.StatusOK, object{})
}

func itemName(item *batchItem) string { return item.key }

func (b *xaiBatch) listRequests(x *exchange) {
	if query, ok := x.query("limit", "pagination_token"); ok {
		states := map[jobPhase]string{jobQueued: "pending", jobCompleted: "succeeded", jobCanceled: "cancelled"}
		sendXAI(x, query, "batch_request_metadata", collection[*batchItem]{xaiPages, b.items, itemName, func(item *batchItem) any {
			return object{"batch_request_id": item.key, "endpoint": item.path, "model": modelOf(item.body),
				"state": valueOr(states[item.end], "failed"), "create_time": b.stamp(jobQueued), "finish_time": stampOf(b.last())}
		}})
	}
}

// listResults lists the results of requests that have ended, the last first.
func (b *xaiBatch) listResults(x *exchange) {
	query, ok := x.query("limit", "pagination_token")
	if !ok {
		return
	}
	items := slices.DeleteFunc(slices.Clone(b.items), func(item *batchItem) bool { return item.end == jobQueued })
	slices.Reverse(items)
	sendXAI(x, query, "results", collection[*batchItem]{xaiPages, items, itemName, func(item *batchItem) any {
		result := object{"error": object{"code": 13, "message": "The request failed."}}
		switch {
		case item.end == jobCompleted:
			result = object{"response": object{item.meta.(string): json.RawMessage(item.got.body)}}
		case item.end == jobCanceled:
			result = object{"error": object{"code": 1, "message": "The request was cancelled."}}
		case item.failure() != nil:
			result = object{"error": item.failure()}
		}
		return object{"batch_request_id": item.key, "batch_result": result}
	}})
}
