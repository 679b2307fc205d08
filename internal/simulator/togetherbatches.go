package simulator

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const togetherBatchFamily = "together.batch"

// togetherStates are Together's states of a batch by phase.
// https://docs.together.ai/reference/batch-create
var togetherStates = [jobPhaseCount]string{
	jobQueued: "VALIDATING", jobRunning: "IN_PROGRESS", jobWriting: "IN_PROGRESS", jobCanceling: "IN_PROGRESS",
	jobCompleted: "COMPLETED", jobFailed: "FAILED", jobCanceled: "CANCELLED", jobExpired: "EXPIRED",
}

// serveTogetherCreate answers POST /batches of Together.
func serveTogetherCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "input_file_id", "endpoint", "completion_window", "priority", "model_id")
	b := &batch{vendor: "together", lines: linesFree, input: c.filled(body, "input_file_id", ""), endpoint: c.filled(body, "endpoint", "")}
	c.word(body, "endpoint", "", "/v1/chat/completions", "/v1/audio/transcriptions", "/v1/audio/translations")
	c.text(body, "completion_window", "")
	c.integer(body, "priority", "", 0)
	model := c.text(body, "model_id", "")
	file := x.sim.files.find(x.protocol, b.input)
	if c.wrong.kind == "" && (file == nil || file.purpose != "batch-api") {
		c.fail("input_file_id", "there is no such file with the purpose batch-api")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	b.lineRun = lineRun{sim: x.sim, number: x.number, content: file.content(), model: model, path: b.endpoint}
	if model == "" {
		b.model = b.firstModel()
	}
	b.id = "batch-sim" + strconv.FormatInt(x.number, 10)
	b.job = newJob(x.jobPaceOf(b.model), b, x.began)
	b.half = x.plan.halfContent
	x.sim.stored.add(togetherBatchFamily, b.id, len(b.content)+len(x.in), b)
	x.sendCreated(http.StatusCreated, object{"job": b.describeTogether(), "warning": ""})
}

// describeTogether returns the batch in Together's shape. The caller holds mu, or
// nobody else has b.
func (b *batch) describeTogether() any {
	d := object{
		"id": b.id, "user_id": "user-sim", "input_file_id": b.input, "file_size_bytes": len(b.content), "status": togetherStates[b.phase],
		"job_deadline": stampOf(b.at[jobQueued].Add(batchLifetime)), "created_at": b.stamp(jobQueued), "endpoint": b.endpoint,
		"progress": 0.0, "model_id": b.model,
	}
	if b.total > 0 {
		d["progress"] = float64(100*(b.completed+b.failedLines)) / float64(b.total)
	}
	if !b.phase.ended() {
		return d
	}
	d["completed_at"] = b.last().UTC().Format(time.RFC3339)
	if b.output != "" {
		d["output_file_id"] = b.output
	}
	if b.failures != "" {
		d["error_file_id"] = b.failures
	}
	if b.phase == jobFailed {
		d["error"] = b.mistake()
	}
	return d
}

// mistake returns the first mistake in the input, for vendors that report one.
func (b *batch) mistake() string {
	if len(b.problems) == 0 {
		return "The batch failed due to an internal error."
	}
	p := b.problems[0]
	if p.Line == nil {
		return p.Message
	}
	return "line " + itoa(*p.Line) + ": " + p.Message
}

// serveTogetherBatches answers GET /batches of Together with an array.
func serveTogetherBatches(x *exchange) {
	if !x.begin(nil) {
		return
	}
	list := []any{}
	for _, b := range listRecords[*batch](&x.sim.stored, togetherBatchFamily) {
		b.mu.Lock()
		list = append(list, b.describeTogether())
		b.mu.Unlock()
	}
	x.sendJSON(http.StatusOK, list)
}

// serveTogetherBatch answers GET /batches/{id} and POST /batches/{id}/cancel of
// Together.
func serveTogetherBatch(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/batches/")
	b, ok := findRecord[*batch](&x.sim.stored, togetherBatchFamily, parts[0])
	operation := x.r.Method + " " + strings.Join(parts[1:], "/")
	if !ok || operation != "GET " && operation != "POST cancel" {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Batch job not found: " + parts[0]})
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if operation == "GET " {
		b.read(x.began)
	} else if !b.cancel(x.began) {
		x.refuse(statusOf, providerError{kind: invalidRequest, message: "A batch that is " + togetherStates[b.phase] + " cannot be cancelled."})
		return
	}
	x.sendJSON(http.StatusOK, b.describeTogether())
}

// startTogetherUpload redirects to a signed address for the content of a file, as
// Together does for a form without one.
func (x *exchange) startTogetherUpload(file *storedFile) {
	file.name = file.fields["file_name"]
	if file.name == "" || !slices.Contains(vendorPurposes["together"], file.purpose) {
		x.refuse(statusOf, invalid("purpose", "the form must have a file_name and a purpose"))
		return
	}
	x.sim.files.add(file)
	h := x.w.Header()
	h.Set("Location", x.signedURL("/together/v1/files/"+file.id+"/content"))
	h.Set("X-Together-File-Id", file.id)
	x.sendJSON(http.StatusFound, object{})
}

// serveTogetherContent answers PUT of the content of a file at its signed address.
func serveTogetherContent(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	id, content := strings.CutSuffix(fileID(x.r), "/content")
	file := x.sim.files.find(x.protocol, id)
	if file == nil || !content || !isSigned(x.r) {
		x.refuse(http.StatusNotFound, noFile)
		return
	}
	complete := *file
	complete.upload = madeUpload(file.name, bytes.Clone(x.in))
	x.sim.files.remove(x.protocol, id)
	x.sim.files.add(&complete)
	x.sendBody(http.StatusOK, typeJSON, nil)
}

// serveTogetherPreprocess answers POST /files/{id}/preprocess, after the content.
func serveTogetherPreprocess(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	id, preprocesses := strings.CutSuffix(fileID(x.r), "/preprocess")
	file := x.sim.files.find(x.protocol, id)
	if file == nil || !preprocesses {
		x.refuse(http.StatusNotFound, noFile)
		return
	}
	x.sendBody(http.StatusOK, typeJSON, x.appendFile(nil, file))
}
