package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
)

const (
	// maxBatchLines is the limit of requests in a batch.
	maxBatchLines = 50000
	// maxBatchProblems is the limit of mistakes that a batch reports.
	maxBatchProblems = 100
)

// lineBuffer holds results of lines up to a limit.
type lineBuffer struct {
	lines [][]byte
	size  int64
}

func (b *lineBuffer) add(line []byte) {
	b.lines = append(b.lines, line)
	b.size += int64(len(line))
}

// bytes returns the lines in another order than they were sent: the last first.
func (b *lineBuffer) bytes() []byte {
	var all []byte
	for i := len(b.lines) - 1; i >= 0; i-- {
		all = append(append(all, b.lines[i]...), '\n')
	}
	return all
}

// A lineRun runs the lines of a file.
type lineRun struct {
	sim     *Simulator
	number  int64 // in ids of results
	content []byte
	half    bool   // the results are cut when they are read
	path    string // of lines that do not name one
	model   string // of lines that do not name one

	total, completed, failedLines int
	usage                         tokenUsage
	succeeded, failed             lineBuffer
}

// A lineForm says which members the lines of a file have.
type lineForm int

const (
	linesFull lineForm = iota // custom_id, method, url and body
	linesFree                 // method and url may be missing
	linesBare                 // custom_id and body
)

// A batchLine is a line of an input file.
type batchLine struct {
	CustomID json.RawMessage `json:"custom_id"`
	Method   json.RawMessage `json:"method"`
	URL      json.RawMessage `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// eachLine returns the lines of a file with their numbers from 1. Empty lines at
// the end are left out.
func eachLine(content []byte) iter.Seq2[int, []byte] {
	content = bytes.TrimRight(content, "\r\n")
	return func(yield func(int, []byte) bool) {
		number := 0
		for line := range bytes.SplitSeq(content, []byte{'\n'}) {
			if number++; !yield(number, bytes.TrimSuffix(line, []byte{'\r'})) {
				return
			}
		}
	}
}

// problem records a mistake in a line; none means the complete file.
func (b *batch) problem(line int, code, param, format string, args ...any) {
	if len(b.problems) >= maxBatchProblems {
		return
	}
	p := batchProblem{Code: code, Message: fmt.Sprintf(format, args...), Param: orNull(param)}
	if line > 0 {
		p.Line = &line
	}
	b.problems = append(b.problems, p)
}

// check checks the input line by line.
func (b *batch) check() bool {
	if len(bytes.TrimSpace(b.content)) == 0 {
		b.problem(0, "empty_file", "", "The batch input file is empty. Please ensure that the batch contains at least one request.")
		return false
	}
	ids := map[string]bool{}
	for number, line := range eachLine(b.content) {
		if b.total = number; number > maxBatchLines {
			b.problem(0, "too_many_tasks", "", "The batch input file contains too many requests. The limit is %d.", maxBatchLines)
			return false
		}
		b.checkLine(number, line, ids)
	}
	return len(b.problems) == 0
}

func (b *batch) checkLine(number int, raw []byte, ids map[string]bool) {
	var line batchLine
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&line); err != nil || decoder.More() {
		b.problem(number, "invalid_json_line", "", "This line is not parseable as valid JSON.")
		return
	}
	text := func(raw json.RawMessage, name string) (s string, ok bool) {
		if len(raw) == 0 || string(raw) == "null" {
			b.problem(number, "missing_required_parameter", name, "Missing required parameter: '%s'.", name)
			return "", false
		}
		if json.Unmarshal(raw, &s) != nil || s == "" {
			b.problem(number, "invalid_type", name, "Invalid type for '%s': expected a string.", name)
			return "", false
		}
		return s, true
	}
	if id, ok := text(line.CustomID, "custom_id"); ok {
		if ids[id] {
			b.problem(number, "duplicate_custom_id", "custom_id",
				"The custom_id '%s' for this request is a duplicate of another request.", id)
		}
		ids[id] = true
	}
	b.checkLineBody(number, line.Body)
	switch {
	case b.lines == linesBare && (line.Method != nil || line.URL != nil):
		b.problem(number, "invalid_value", "method", "A line must have the members custom_id and body only.")
		return
	case b.lines != linesFull && line.Method == nil && line.URL == nil:
		return
	}
	if method, ok := text(line.Method, "method"); ok && method != http.MethodPost {
		b.problem(number, "invalid_method", "method", "Invalid value: '%s'. Supported values are: 'POST'.", method)
	}
	if url, ok := text(line.URL, "url"); ok && url != b.endpoint {
		b.problem(number, "url_mismatch", "url", "The URL '%s' does not match the endpoint of the batch, '%s'.", url, b.endpoint)
	}
}

func (b *batch) checkLineBody(number int, raw json.RawMessage) {
	var body map[string]json.RawMessage
	if json.Unmarshal(raw, &body) != nil || body == nil {
		b.problem(number, "missing_required_parameter", "body", "Missing required parameter: 'body'.")
		return
	}
	var model string
	if json.Unmarshal(body["model"], &model) != nil || model == "" {
		if b.model == "" || b.lines == linesFull {
			b.problem(number, "missing_required_parameter", "body.model", "Missing required parameter: 'body.model'.")
		}
	} else if model != b.model {
		b.problem(number, "model_mismatch", "body.model", "The model '%s' does not match the model of the batch, '%s'.", model, b.model)
	}
	if string(body["stream"]) == "true" {
		b.problem(number, "invalid_value", "body.stream", "Streaming is not supported in batches.")
	}
}

// run runs the lines of a job that ends in this phase: half of them unless it
// completes.
func (r *lineRun) run(end jobPhase) {
	most := r.total
	if end != jobCompleted {
		most = r.total / 2
	}
	for number, raw := range eachLine(r.content) {
		var line batchLine
		if json.Unmarshal(raw, &line) != nil {
			continue
		}
		switch {
		case number > most && end == jobExpired:
			r.fail(line, number, "batch_expired", "This request could not be executed before the completion window expired.")
		case number > most:
			return
		case r.succeeded.size+r.failed.size > r.sim.files.limit:
			r.fail(line, number, "output_too_large", "The results are larger than the simulator keeps; raise its limit.")
		default:
			r.call(line, number)
		}
	}
}

// call runs a line.
func (r *lineRun) call(line batchLine, number int) {
	path, body := r.path, line.Body
	json.Unmarshal(line.URL, &path) // has been checked
	if r.model != "" && modelOf(body) == "" {
		body = withModel(body, r.model)
	}
	got := r.sim.call(path, body, http.Header{"Content-Type": typeJSON})
	if got.status == 0 || !json.Valid(got.body) {
		r.fail(line, number, "server_error", "The server had an error while processing the request.")
		return
	}
	response := append([]byte(nil), r.begin(line, number)...)
	response = append(response, `{"status_code":`...)
	response = strconv.AppendInt(response, int64(got.status), 10)
	response = appendAll(response, `,"request_id":"`, got.header.Get("X-Request-Id"), `","body":`)
	response = append(append(response, bytes.TrimSpace(got.body)...), `},"error":null}`...)
	if got.status != http.StatusOK {
		r.failedLines++
		r.failed.add(response)
		return
	}
	r.completed++
	r.usage.add(got.body)
	r.succeeded.add(response)
}

// withModel returns a body with a model.
func withModel(body []byte, model string) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	m["model"] = model
	raw, _ := json.Marshal(m) // it came from valid JSON
	return raw
}

// begin returns the beginning of a result.
func (r *lineRun) begin(line batchLine, number int) string {
	return `{"id":"batch_req_sim` + strconv.FormatInt(r.number,
		10) + "_" + strconv.Itoa(number) + `","custom_id":` + string(line.CustomID) +
		`,"response":`
}

// fail adds the result of a line that was not run.
func (r *lineRun) fail(line batchLine, number int, code, message string) {
	r.failedLines++
	r.failed.add(appendAll(nil, r.begin(line, number), `null,"error":{"code":"`, code, `","message":`, quoted(message), `}}`))
}

// madeUpload returns a file that the simulator made.
func madeUpload(name string, content []byte) upload {
	digest := sha256.Sum256(content)
	return upload{found: true, name: name, mime: "application/jsonl", size: int64(len(content)), sum: hex.EncodeToString(digest[:]),
		kept: content}
}
