package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const batchFamily = "batch"

// batchLifetime is the completion window of a batch.
const batchLifetime = 24 * time.Hour

// batchEndpoints are the operations that a batch may call.
// https://platform.openai.com/docs/api-reference/batch/create
var batchEndpoints = []string{
	"/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/images/generations",
	"/v1/images/edits",
}

// batchStates are the states of a batch by phase.
var batchStates = [jobPhaseCount]string{
	jobQueued: "validating", jobRunning: "in_progress", jobWriting: "finalizing", jobCanceling: "cancelling",
	jobCompleted: "completed", jobFailed: "failed", jobCanceled: "cancelled", jobExpired: "expired",
}

// A batch is a batch of the chat protocol.
type batch struct {
	*job
	lineRun
	id, input, endpoint, window string
	metadata                    map[string]any
	keep                        time.Duration // lifetime of its output files
	vendor                      string
	lines                       lineForm
	problems                    []batchProblem
	output, failures            string // ids of files; empty if there are none
}

// A batchProblem is a mistake in the input file.
type batchProblem struct {
	Code    string `json:"code"`
	Line    *int   `json:"line"`
	Message string `json:"message"`
	Param   any    `json:"param"`
}

// serveBatchCreate answers POST /batches.
func serveBatchCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	b := &batch{vendor: x.vendor()}
	c := newChecker(x.protocol)
	b.readCreate(c, body)
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	file := x.sim.files.find(x.protocol, b.input)
	switch {
	case file == nil:
		x.refuse(statusOf, invalid("input_file_id", "No such File object: "+b.input))
		return
	case file.purpose != "batch":
		x.refuse(statusOf, invalid("input_file_id", "Invalid file: its purpose is '"+file.purpose+"' and must be 'batch'."))
		return
	}
	b.lineRun = lineRun{sim: x.sim, number: x.number, content: file.content()}
	b.model = b.firstModel()
	b.id = "batch_sim" + strconv.FormatInt(x.number, 10)
	b.job = newJob(x.jobPaceOf(b.model), b, x.began)
	b.half = x.plan.halfContent
	x.sim.stored.add(batchFamily, b.id, len(b.content)+len(x.in), b)
	x.sendCreated(http.StatusOK, b.describe())
}

// readCreate reads the body of a request for a batch.
func (b *batch) readCreate(c *checker, m map[string]any) {
	names := []string{"input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"}
	windows, endpoints := []string{"24h"}, batchEndpoints
	switch b.vendor {
	case "groq":
		windows = []string{"24h", "2d", "3d", "4d", "5d", "6d", "7d", "48h", "72h", "96h", "120h", "144h", "168h"}
		endpoints = []string{"/v1/chat/completions", "/v1/audio/transcriptions", "/v1/audio/translations"}
	case "azure":
		endpoints = append(slices.Clone(endpoints), "/chat/completions", "/responses", "/embeddings")
	}
	c.checkMembers(m, "", names...)
	b.input = c.filled(m, "input_file_id", "")
	b.endpoint = c.filled(m, "endpoint", "")
	c.word(m, "endpoint", "", endpoints...)
	b.window = c.filled(m, "completion_window", "")
	c.word(m, "completion_window", "", windows...)
	c.metadata(m)
	b.metadata = c.child(m, "metadata", "")
	b.keep = c.lifetime(m, "output_expires_after")
}

// lifetime returns how long an object is kept, or zero: from its creation, an
// hour to thirty days.
func (c *checker) lifetime(m map[string]any, name string) time.Duration {
	expires := c.child(m, name, "")
	if expires == nil {
		return 0
	}
	c.checkMembers(expires, name, "anchor", "seconds")
	c.filled(expires, "anchor", name)
	c.word(expires, "anchor", name, "created_at")
	n := c.integer(expires, "seconds", name, 3600)
	if n > 2592000 || expires["seconds"] == nil {
		c.fail(at(name, "seconds"), "Input should be an integer from 3600 to 2592000")
	}
	return time.Duration(n) * time.Second
}

// firstModel returns the model of the first line.
func (b *batch) firstModel() string {
	line, _, _ := bytes.Cut(b.content, []byte{'\n'})
	var first struct {
		Body struct{ Model string }
	}
	if json.Unmarshal(line, &first) != nil {
		return ""
	}
	return first.Body.Model
}

// produce runs the lines and stores their results.
func (b *batch) produce(end jobPhase, began bool) {
	if end == jobFailed && len(b.problems) == 0 { // by a fault
		b.problem(1, "invalid_json_line", "", "This line is not parseable as valid JSON.")
	}
	if !began {
		return
	}
	b.run(end)
	expires := time.Time{}
	if b.keep > 0 {
		expires = time.Now().Add(b.keep)
	}
	b.output = b.storeFile("output", b.succeeded.bytes(), expires)
	b.failures = b.storeFile("error", b.failed.bytes(), expires)
	if b.vendor == "mistral" { // the results can also be read with the job
		b.sim.stored.grow(mistralBatchFamily, b.id, int(b.succeeded.size+b.failed.size))
		return
	}
	b.succeeded, b.failed = lineBuffer{}, lineBuffer{}
}

// storeFile stores a file with results and returns its id; empty for an empty
// file.
func (b *batch) storeFile(name string, content []byte, expires time.Time) string {
	if len(content) == 0 {
		return ""
	}
	return b.sim.storeResult(&storedFile{purpose: "batch_output", expires: expires, half: b.half,
		upload: madeUpload(b.id+"_"+name+".jsonl", content)})
}

// storeResult stores a file that the simulator made, and returns its id.
func (s *Simulator) storeResult(file *storedFile) string {
	file.number, file.created = s.number.Add(1), time.Now()
	file.id = "file-sim" + strconv.FormatInt(file.number, 10)
	s.files.add(file)
	return file.id
}

// describe returns the batch object. The caller holds mu, or nobody else has b.
func (b *batch) describe() any {
	counts := object{"total": b.total, "completed": b.completed, "failed": b.total - b.completed}
	if b.at[jobRunning].IsZero() {
		counts = object{"total": 0, "completed": 0, "failed": 0}
	} else if b.phase == jobRunning || b.completed+b.failedLines == 0 {
		counts["completed"], counts["failed"] = 0, 0
	}
	d := object{
		"id": b.id, "object": "batch", "endpoint": b.endpoint, "errors": nil, "input_file_id": b.input, "completion_window": b.window,
		"status": batchStates[b.phase], "output_file_id": orNull(b.output), "error_file_id": orNull(b.failures),
		"created_at": b.unix(jobQueued), "in_progress_at": b.unix(jobRunning), "expires_at": b.at[jobQueued].Add(batchLifetime).Unix(),
		"finalizing_at": b.unix(jobWriting), "completed_at": b.unix(jobCompleted), "failed_at": b.unix(jobFailed),
		"expired_at": b.unix(jobExpired), "cancelling_at": b.unix(jobCanceling), "cancelled_at": b.unix(jobCanceled),
		"request_counts": counts, "metadata": orNull(b.metadata), "model": orNull(b.model),
	}
	if !b.job.phase.ended() {
		d["output_file_id"], d["error_file_id"] = nil, nil
	} else if b.output != "" {
		d["usage"] = b.usage.describe()
	}
	if len(b.problems) > 0 {
		d["errors"] = object{"object": "list", "data": b.problems}
	}
	return d
}

// orNull returns nil for a value that is empty.
func orNull[T string | map[string]any](v T) any {
	if len(v) == 0 {
		return nil
	}
	return v
}

var batchPages = pager{usual: 20, most: 100}

// serveBatches answers GET /batches.
func serveBatches(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("after", "limit")
	if !ok {
		return
	}
	list := listRecords[*batch](&x.sim.stored, batchFamily)
	collection[*batch]{batchPages, list, func(b *batch) string { return b.id }, func(b *batch) any {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.describe()
	}}.send(x, query)
}

// serveBatch answers GET /batches/{id} and POST /batches/{id}/cancel.
func serveBatch(x *exchange) {
	if !x.begin(nil) {
		return
	}
	parts := x.segments("/batches/")
	b, ok := findRecord[*batch](&x.sim.stored, batchFamily, parts[0])
	cancels := len(parts) == 2 && parts[1] == "cancel" && x.r.Method == http.MethodPost
	if !ok || !cancels && (len(parts) > 1 || x.r.Method != http.MethodGet) {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "No batch found with id '" + parts[0] + "'."})
		return
	}
	if _, ok := x.query(); !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !cancels {
		b.read(x.began)
	} else if !b.cancel(x.began) {
		x.refuse(http.StatusConflict, providerError{kind: invalidRequest, message: "Cannot cancel a batch with status '" +
			batchStates[b.phase] + "'."})
		return
	}
	x.sendJSON(http.StatusOK, b.describe())
}
