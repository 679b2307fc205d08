package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const mistralBatchFamily = "mistral.batch"

// mistralStates are Mistral's states of a batch by phase.
// https://docs.mistral.ai/capabilities/batch/
var mistralStates = [jobPhaseCount]string{
	jobQueued: "QUEUED", jobRunning: "RUNNING", jobWriting: "RUNNING", jobCanceling: "CANCELLATION_REQUESTED", jobCompleted: "SUCCESS",
	jobFailed: "FAILED", jobCanceled: "CANCELLED", jobExpired: "TIMEOUT_EXCEEDED",
}

// mistralEndpoints are the operations that a batch may call.
var mistralEndpoints = []string{
	"/v1/chat/completions", "/v1/embeddings", "/v1/fim/completions", "/v1/moderations", "/v1/chat/moderations", "/v1/ocr",
	"/v1/classifications", "/v1/chat/classifications", "/v1/conversations", "/v1/audio/transcriptions",
}

// A mistralBatch is a batch of Mistral.
type mistralBatch struct {
	batch
	files []string
}

// serveMistralCreate answers POST /batch/jobs.
func serveMistralCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	b := &mistralBatch{}
	b.vendor, b.lines, b.number = "mistral", linesBare, x.number
	content := b.readCreate(x, c, body)
	if c.wrong.kind != "" {
		x.refuse(http.StatusUnprocessableEntity, c.wrong)
		return
	}
	b.lineRun = lineRun{sim: x.sim, number: x.number, content: content, model: modelOf(x.in), path: b.endpoint}
	b.id = "batch-sim" + strconv.FormatInt(x.number, 10)
	b.job = newJob(x.jobPaceOf(""), &b.batch, x.began)
	b.half = x.plan.halfContent
	x.sim.stored.add(mistralBatchFamily, b.id, len(content)+len(x.in), b)
	x.sendCreated(http.StatusOK, b.describe(false))
}

// readCreate reads the body and returns the lines.
func (b *mistralBatch) readCreate(x *exchange, c *checker, m map[string]any) (content []byte) {
	c.checkMembers(m, "", "endpoint", "input_files", "requests", "model", "agent_id", "metadata", "timeout_hours")
	b.endpoint = c.filled(m, "endpoint", "")
	c.word(m, "endpoint", "", mistralEndpoints...)
	if m["agent_id"] == nil {
		c.filled(m, "model", "")
	}
	c.metadata(m)
	b.metadata = c.child(m, "metadata", "")
	if hours := c.integer(m, "timeout_hours", "", 1); hours > 168 {
		c.fail("timeout_hours", "Input should be at most 168")
	}
	switch c.one(m, "", "input_files", "requests") {
	case "input_files":
		c.needList(m, "input_files", "")
		b.files = c.texts(m, "input_files", "")
		for i, id := range b.files {
			file := x.sim.files.find(x.protocol, id)
			if file == nil || file.purpose != "batch" {
				c.fail(nth("input_files", i), "there is no such file with the purpose batch")
				return nil
			}
			content = append(append(content, file.content()...), '\n')
		}
	case "requests":
		for i, v := range c.needList(m, "requests", "") {
			item := c.object(v, nth("requests", i))
			c.checkMembers(item, nth("requests", i), "custom_id", "body")
			if item["custom_id"] == nil {
				item["custom_id"] = itoa(i)
			}
			raw, _ := json.Marshal(item) // it came from valid JSON
			content = append(append(content, raw...), '\n')
		}
	}
	return content
}

// describe returns the job. The caller holds mu, or nobody else has b. inline adds
// the results.
func (b *mistralBatch) describe(inline bool) any {
	d := object{
		"id": b.id, "object": "batch", "input_files": b.files, "metadata": orNull(b.metadata), "endpoint": b.endpoint,
		"model": orNull(b.lineRun.model), "agent_id": nil, "output_file": nil, "error_file": nil, "errors": []any{}, "outputs": nil,
		"status": mistralStates[b.phase], "created_at": b.unix(jobQueued), "started_at": b.unix(jobRunning), "completed_at": nil,
		"total_requests": b.total, "completed_requests": b.completed + b.failedLines, "succeeded_requests": b.completed,
		"failed_requests": b.failedLines,
	}
	if b.files == nil {
		d["input_files"] = []string{}
	}
	if !b.phase.ended() {
		return d
	}
	d["completed_at"], d["output_file"], d["error_file"] = b.last().Unix(), orNull(b.output), orNull(b.failures)
	if b.phase == jobFailed {
		d["errors"] = []any{object{"message": b.mistake(), "count": max(len(b.problems), 1)}}
	}
	if inline {
		outputs := []json.RawMessage{}
		for _, line := range slices.Concat(b.succeeded.lines, b.failed.lines) {
			outputs = append(outputs, line)
		}
		d["outputs"] = outputs
	}
	return d
}

// serveMistralBatches answers GET /batch/jobs.
func serveMistralBatches(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("page", "page_size", "model", "agent_id", "metadata", "metadata[", "created_after", "created_by_me",
		"status", "order_by")
	if !ok {
		return
	}
	page, err := strconv.Atoi(valueOr(query.Get("page"), "0"))
	size, wrong := strconv.Atoi(valueOr(query.Get("page_size"), "100"))
	if err != nil || wrong != nil || page < 0 || size < 1 {
		x.refuse(http.StatusUnprocessableEntity, invalid("page", "page and page_size must be numbers"))
		return
	}
	list := []any{}
	for _, b := range listRecords[*mistralBatch](&x.sim.stored, mistralBatchFamily) {
		b.mu.Lock()
		if (query.Get("model") == "" || query.Get("model") == b.lineRun.model) &&
			(query["status"] == nil || slices.Contains(query["status"], mistralStates[b.phase])) {
			list = append(list, b.describe(false))
		}
		b.mu.Unlock()
	}
	total := len(list)
	from := min(page*size, total)
	x.sendJSON(http.StatusOK, object{"object": "list", "total": total, "data": list[from:min(from+size, total)]})
}

// valueOr returns a value, or another if it is empty.
func valueOr(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

// serveMistralBatch answers the routes of one batch of Mistral.
func serveMistralBatch(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/batch/jobs/")
	b, ok := findRecord[*mistralBatch](&x.sim.stored, mistralBatchFamily, parts[0])
	if !ok {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Batch job not found: " + parts[0]})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch x.r.Method + " " + strings.Join(parts[1:], "/") {
	case "GET ":
		b.read(x.began)
		x.sendJSON(http.StatusOK, b.describe(x.r.URL.Query().Get("inline") == "true"))
	case "POST cancel":
		if !b.cancel(x.began) {
			x.refuse(statusOf, invalid("job_id", "The job is "+mistralStates[b.phase]+" and cannot be cancelled."))
			return
		}
		x.sendJSON(http.StatusOK, b.describe(false))
	case "DELETE ":
		x.sim.stored.remove(mistralBatchFamily, b.id)
		x.sendJSON(http.StatusOK, object{"id": b.id, "object": "batch", "deleted": true})
	default:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "there is no such operation of a job"})
	}
}
