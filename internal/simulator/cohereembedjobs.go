package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An embedJob is a batch of embeddings.
// https://docs.cohere.com/reference/create-embed-job
type embedJob struct {
	*job
	itemRun
	name, model, kind, truncate string
	input                       *cohereDataset
	output                      string
	rows                        []map[string]any
}

// embedStates are the states of jobs by phase.
var embedStates = [jobPhaseCount]string{
	jobQueued: "processing", jobRunning: "processing", jobWriting: "processing", jobCanceling: "cancelling", jobCompleted: "complete",
	jobFailed: "failed", jobCanceled: "cancelled", jobExpired: "failed",
}

// serveEmbedJobCreate answers POST /embed-jobs.
func serveEmbedJobCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "model", "dataset_id", "input_type", "name", "embedding_types", "truncate")
	j := &embedJob{name: c.text(body, "name", ""), model: c.filled(body, "model", ""), kind: c.filled(body, "input_type", "")}
	c.word(body, "input_type", "", "search_document", "search_query", "classification", "clustering", "image")
	j.truncate = valueOr(c.word(body, "truncate", "", "START", "END"), "END")
	for i, name := range c.texts(body, "embedding_types", "") {
		if !slices.Contains([]string{"float", "int8", "uint8", "binary", "ubinary"}, name) {
			c.fail(nth("embedding_types", i), "must be one of float, int8, uint8, binary, ubinary")
		}
	}
	id := c.filled(body, "dataset_id", "")
	j.input, ok = findRecord[*cohereDataset](&x.sim.stored, cohereDatasets, id)
	if c.wrong.kind == "" && (!ok || j.input.kind != "embed-input") {
		c.fail("dataset_id", "there is no such dataset of the type embed-input")
	}
	if c.wrong.kind == "" && !j.input.validated() {
		c.fail("dataset_id", "the dataset is not validated")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j.itemRun = itemRun{sim: x.sim, family: cohereEmbedJobs, id: "sim-" + strconv.FormatInt(x.number, 10),
		header: http.Header{"Content-Type": typeJSON}}
	j.job = newJob(x.jobPaceOf(""), j, x.began)
	j.direct = true
	x.sim.stored.add(cohereEmbedJobs, j.itemRun.id, len(x.in)+len(j.input.content), j)
	x.sendCreated(http.StatusOK, object{"job_id": j.itemRun.id, "meta": object{"api_version": object{"version": "1"}}})
}

// validated reports whether the rows have been validated.
func (d *cohereDataset) validated() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.phase == jobCompleted
}

// check makes a request of every row.
func (j *embedJob) check() bool {
	for _, line := range eachLine(j.input.content) {
		var row map[string]any
		json.Unmarshal(line, &row) // has been validated
		body, _ := json.Marshal(object{"model": j.model, "input_type": j.kind, "texts": []any{row["text"]},
			"embedding_types": []string{"float"},
			"truncate":        j.truncate}) // it came from valid JSON
		j.rows = append(j.rows, row)
		j.items = append(j.items, &batchItem{path: "/v2/embed", body: body})
	}
	return true
}

// produce makes a dataset of two parts with the embeddings.
func (j *embedJob) produce(end jobPhase, began bool) {
	if j.itemRun.produce(end, began); end != jobCompleted {
		return
	}
	var rows []embedRow
	for i, item := range j.items {
		var got struct {
			Embeddings struct{ Float [][]float64 }
		}
		if item.end != jobCompleted || json.Unmarshal(item.got.body, &got) != nil || len(got.Embeddings.Float) != 1 {
			continue
		}
		text, _ := j.rows[i]["text"].(string)
		row := embedRow{text: text, vector: got.Embeddings.Float[0]}
		for _, name := range j.input.keep {
			value, _ := j.rows[i][name].(string)
			row.more = append(row.more, value)
		}
		rows = append(rows, row)
	}
	d := &cohereDataset{id: j.itemRun.id + "-out", name: cmp.Or(j.name, "embed") + "-result", kind: "embed-result", keep: j.input.keep}
	d.job = newJob(jobPace{}, d, time.Now())
	d.enter(jobCompleted, time.Now())
	half := (len(rows) + 1) / 2
	for _, part := range [][]embedRow{rows[:half], rows[half:]} {
		if len(part) > 0 {
			d.parts = append(d.parts, avroFile(j.input.keep, part))
		}
	}
	size := 0
	for _, part := range d.parts {
		size += len(part)
	}
	j.output, j.rows = d.id, nil
	j.sim.stored.add(cohereDatasets, d.id, size, d)
}

// describe returns the job. The caller holds mu.
func (j *embedJob) describe() any {
	d := object{"job_id": j.itemRun.id, "name": j.name, "status": embedStates[j.phase], "created_at": j.stamp(jobQueued),
		"input_dataset_id": j.input.id, "model": j.model, "truncate": j.truncate, "meta": object{"api_version": object{"version": "1"}}}
	if j.phase == jobCompleted {
		d["output_dataset_id"] = j.output
		d["meta"].(object)["billed_units"] = object{"input_tokens": tokensOf(len(j.input.content))}
	}
	return d
}

// serveEmbedJobs answers GET /embed-jobs.
func serveEmbedJobs(x *exchange) {
	if !x.begin(nil) {
		return
	}
	list := []any{}
	for _, j := range listRecords[*embedJob](&x.sim.stored, cohereEmbedJobs) {
		j.mu.Lock()
		list = append(list, j.describe())
		j.mu.Unlock()
	}
	x.sendJSON(http.StatusOK, object{"embed_jobs": list})
}

// serveEmbedJob answers GET /embed-jobs/{id} and POST /embed-jobs/{id}/cancel.
func serveEmbedJob(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/embed-jobs/")
	j, ok := findRecord[*embedJob](&x.sim.stored, cohereEmbedJobs, parts[0])
	operation := x.r.Method + " " + strings.Join(parts[1:], "/")
	if !ok || operation != "GET " && operation != "POST cancel" {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "embed job " + parts[0] + " not found"})
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case operation == "GET ":
		j.read(x.began)
		x.sendJSON(http.StatusOK, j.describe())
	case !j.cancel(x.began):
		x.refuse(statusOf, invalid("", "invalid request: the job is "+embedStates[j.phase]))
	default:
		x.sendJSON(http.StatusOK, object{})
	}
}
