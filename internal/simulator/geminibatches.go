package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const geminiBatchFamily = "gemini.batch"

// A geminiBatch is a batch of the gemini protocol.
type geminiBatch struct {
	*job
	itemRun
	model, display string
	embeds         bool
	file           *storedFile // input; nil if the requests were in the body
	half           bool
	output         string // id of a file; empty if the requests were in the body
	wrong          string // mistake in the input file
}

// geminiStates are the states of a batch by phase.
// https://ai.google.dev/api/batch-api
var geminiStates = [jobPhaseCount]string{
	jobQueued: "BATCH_STATE_PENDING", jobRunning: "BATCH_STATE_RUNNING", jobWriting: "BATCH_STATE_RUNNING",
	jobCanceling: "BATCH_STATE_RUNNING",
	jobCompleted: "BATCH_STATE_SUCCEEDED", jobFailed: "BATCH_STATE_FAILED", jobCanceled: "BATCH_STATE_CANCELLED",
	jobExpired: "BATCH_STATE_EXPIRED",
}

// serveGeminiBatchCreate answers :batchGenerateContent and :asyncBatchEmbedContent.
func serveGeminiBatchCreate(x *exchange) {
	model := geminiModel(x)
	body, ok := x.open(model)
	if !ok {
		return
	}
	b := &geminiBatch{model: *model, embeds: strings.HasSuffix(x.r.URL.Path, ":asyncBatchEmbedContent"), half: x.plan.halfContent}
	b.itemRun = itemRun{sim: x.sim, family: geminiBatchFamily, id: "sim" + strconv.FormatInt(x.number, 10),
		header: http.Header{"Content-Type": typeJSON}}
	c := newChecker(x.protocol)
	b.readCreate(x, c, body)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	b.job = newJob(x.jobPaceOf(""), b, x.began)
	b.direct = true
	x.sim.stored.add(geminiBatchFamily, b.itemRun.id, 2*len(x.in), b)
	x.sendCreated(http.StatusOK, b.describe())
}

func (b *geminiBatch) readCreate(x *exchange, c *checker, body map[string]any) {
	camel(body)
	c.checkMembers(body, "", "batch")
	m := camel(c.child(body, "batch", ""))
	c.checkMembers(m, "batch", "name", "model", "displayName", "inputConfig", "priority", "webhookConfig")
	b.display = c.filled(m, "displayName", "batch")
	if model := c.text(m, "model", "batch"); model != "" && model != "models/"+b.model {
		c.fail("batch.model", "must be the model of the path")
	}
	const path = "batch.inputConfig"
	input := camel(c.object(m["inputConfig"], path))
	c.checkMembers(input, path, "requests", "fileName")
	switch c.one(input, path, "requests", "fileName") {
	case "fileName":
		name := c.filled(input, "fileName", path)
		if b.file = x.sim.files.find(x.protocol, strings.TrimPrefix(name, "files/")); b.file == nil {
			c.fail(at(path, "fileName"), "%s", noGeminiFile(name).message)
		}
	case "requests":
		requests := c.child(input, "requests", path)
		c.checkMembers(requests, path+".requests", "requests")
		for i, v := range c.needList(requests, "requests", path+".requests") {
			where := path + ".requests.requests[" + itoa(i) + "]"
			item := c.object(v, where)
			c.checkMembers(item, where, "request", "metadata")
			b.add("", c.object(item["request"], at(where, "request")), c.child(item, "metadata", where))
		}
	}
}

// add adds a request.
func (b *geminiBatch) add(key string, request map[string]any, meta any) {
	operation := ":generateContent"
	if b.embeds {
		operation = ":embedContent"
	}
	delete(request, "model")
	raw, _ := json.Marshal(request) // it came from valid JSON
	b.items = append(b.items, &batchItem{key: key, path: "/v1beta/models/" + (&url.URL{Path: b.model}).EscapedPath() + operation,
		body: raw, meta: meta})
}

// check reads the input file.
func (b *geminiBatch) check() bool {
	if b.file == nil {
		return true
	}
	if int64(len(b.file.kept)) < b.file.size || b.file.size == 0 {
		b.wrong = "The input file is empty, or not JSONL."
		return false
	}
	for number, line := range eachLine(b.file.kept) {
		var item struct {
			Key     string
			Request map[string]any
		}
		if json.Unmarshal(line, &item) != nil || item.Request == nil {
			b.wrong = "The input file is not valid at line " + itoa(number) + ": expected an object with a key and a request."
			return false
		}
		b.add(item.Key, item.Request, nil)
	}
	return true
}

// produce runs the requests and stores a file with the results, if they came in
// a file.
func (b *geminiBatch) produce(end jobPhase, began bool) {
	b.itemRun.produce(end, began)
	if b.file == nil || !began {
		return
	}
	var all []byte
	for _, item := range slices.Backward(b.items) {
		line := item.geminiResult()
		line["key"] = item.key
		raw, _ := json.Marshal(line) // its parts are valid JSON
		all = append(append(all, raw...), '\n')
	}
	b.output = "batch-" + b.itemRun.id
	now := time.Now()
	b.sim.files.add(&storedFile{number: b.sim.number.Add(1), id: b.output, protocol: &geminiProtocol, created: now,
		expires: now.Add(geminiLifetime), generated: true, half: b.half, upload: madeUpload(b.output, all)})
}

// grpcCodes are the codes of statuses of HTTP.
// https://cloud.google.com/apis/design/errors#handling_errors
var grpcCodes = map[int]int{http.StatusBadRequest: 3, http.StatusNotFound: 5, http.StatusForbidden: 7, http.StatusTooManyRequests: 8,
	http.StatusServiceUnavailable: 14, http.StatusUnauthorized: 16}

// geminiResult returns the response or the error of a request.
func (item *batchItem) geminiResult() object {
	switch item.end {
	case jobCompleted:
		return object{"response": json.RawMessage(item.got.body)}
	case jobCanceled:
		return object{"error": object{"code": 1, "message": "The batch was cancelled."}}
	case jobExpired:
		return object{"error": object{"code": 4, "message": "The batch expired."}}
	}
	code, message := 13, "Internal error encountered."
	var failure struct{ Message string }
	if raw := item.failure(); raw != nil && json.Unmarshal(raw, &failure) == nil {
		message = failure.Message
		code = cmp.Or(grpcCodes[item.got.status], code)
	}
	return object{"error": object{"code": code, "message": message}}
}

// describe returns the operation of a batch. The caller holds mu, or nobody else
// has b.
func (b *geminiBatch) describe() any {
	counts := b.count()
	kind := "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch"
	if b.embeds {
		kind = "type.googleapis.com/google.ai.generativelanguage.v1main.EmbedContentBatch"
	}
	stats := object{"requestCount": itoa(len(b.items)), "pendingRequestCount": itoa(counts[jobQueued])}
	if b.phase.ended() {
		stats["successfulRequestCount"] = itoa(counts[jobCompleted])
		stats["failedRequestCount"] = itoa(len(b.items) - counts[jobCompleted])
	}
	name := "batches/" + b.itemRun.id
	metadata := object{"@type": kind, "name": name, "model": "models/" + b.model, "displayName": b.display,
		"createTime": b.stamp(jobQueued),
		"updateTime": stampOf(b.at[b.phase]), "batchStats": stats, "state": geminiStates[b.phase]}
	d := object{"name": name, "metadata": metadata}
	if !b.phase.ended() {
		return d
	}
	metadata["endTime"], d["done"] = stampOf(b.last()), true
	switch {
	case b.phase == jobFailed:
		d["error"] = object{"code": 3, "message": cmp.Or(b.wrong, "The batch failed.")}
	case b.phase == jobCanceled:
		d["error"] = object{"code": 1, "message": "The batch was cancelled."}
	}
	if output := b.describeOutput(); output != nil {
		metadata["output"], d["response"] = output, output
	}
	return d
}

func (b *geminiBatch) describeOutput() object {
	if b.at[jobRunning].IsZero() {
		return nil
	}
	if b.file != nil {
		return object{"responsesFile": "files/" + b.output}
	}
	list := make([]any, len(b.items))
	for i, item := range b.items {
		result := item.geminiResult()
		if item.meta != nil {
			result["metadata"] = item.meta
		}
		list[i] = result
	}
	name := "inlinedResponses"
	if b.embeds {
		name = "inlinedEmbedContentResponses"
	}
	return object{name: object{"inlinedResponses": list}}
}

// serveGeminiBatches answers GET /v1beta/batches.
func serveGeminiBatches(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("pageSize", "pageToken", "filter", "returnPartialSuccess", "$alt", "alt")
	if !ok {
		return
	}
	page, next, wrong := pageByToken(listRecords[*geminiBatch](&x.sim.stored, geminiBatchFamily), query,
		func(b *geminiBatch) string { return b.itemRun.id })
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	list := make([]any, len(page))
	for i, b := range page {
		b.mu.Lock()
		list[i] = b.describe()
		b.mu.Unlock()
	}
	x.sendJSON(http.StatusOK, withToken(object{"operations": list}, next))
}

// pageByToken returns a page of a list, newest first, and the token of the next
// page: the id of the last element.
func pageByToken[T any](list []T, query url.Values, id func(T) string) (page []T, next string, wrong providerError) {
	limit := 50
	if text := query.Get("pageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, "", invalid("pageSize", "page_size must be a number")
		}
		limit = min(cmp.Or(n, limit), 200)
	}
	if token := query.Get("pageToken"); token != "" {
		i := slices.IndexFunc(list, func(v T) bool { return id(v) == token })
		if i < 0 {
			return nil, "", invalid("pageToken", "page_token is not valid")
		}
		list = list[i+1:]
	}
	if len(list) > limit {
		list = list[:limit]
		next = id(list[limit-1])
	}
	return list, next, wrong
}

// withToken adds the token of the next page, if there is one.
func withToken(page object, next string) object {
	if next != "" {
		page["nextPageToken"] = next
	}
	return page
}

// serveGeminiBatchJob answers GET and DELETE /v1beta/batches/{id}, and :cancel.
func serveGeminiBatchJob(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	_, id, _ := strings.Cut(x.r.URL.Path, "/batches/")
	id, cancels := strings.CutSuffix(id, ":cancel")
	b, ok := findRecord[*geminiBatch](&x.sim.stored, geminiBatchFamily, id)
	if !ok || cancels != (x.r.Method == http.MethodPost) {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Requested entity was not found."})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case x.r.Method == http.MethodDelete:
		x.sim.stored.remove(geminiBatchFamily, id)
		x.sendJSON(http.StatusOK, object{})
	case !cancels:
		b.read(x.began)
		x.sendJSON(http.StatusOK, b.describe())
	case !b.cancel(x.began):
		x.refuse(statusOf, invalid("name", "The batch has ended and cannot be cancelled."))
	default:
		x.sendJSON(http.StatusOK, object{})
	}
}
