package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	cohereDatasets   = "cohere.datasets"
	cohereEmbedJobs  = "cohere.embed-jobs"
	cohereTunings    = "cohere.finetuned-models"
	cohereDatasetURL = "/v1/datasets/"
)

// cohereTypes are the types of datasets that can be uploaded.
var cohereTypes = []string{
	"embed-input", "reranker-finetune-input", "single-label-classification-finetune-input", "multi-label-classification-finetune-input",
	"chat-finetune-input", "batch-chat-input", "batch-openai-chat-input",
}

// A cohereDataset is rows in parts.
// https://docs.cohere.com/reference/create-dataset
type cohereDataset struct {
	*job     // its validation
	id, name string
	kind     string
	keep     []string // members that results repeat
	content  []byte
	parts    [][]byte
	wrong    string
}

// check validates the rows.
func (d *cohereDataset) check() bool {
	rows := 0
	for number, line := range eachLine(d.content) {
		var row map[string]any
		isText := true
		if json.Unmarshal(line, &row) == nil && row != nil {
			if d.kind == "embed-input" {
				_, isText = row["text"].(string)
			}
			rows++
		}
		if row == nil || !isText {
			d.wrong = "row " + itoa(number) + " is not an object with the member text, a string"
			return false
		}
	}
	return rows > 0
}

func (d *cohereDataset) produce(jobPhase, bool) {}

// status returns the state of the validation.
func (d *cohereDataset) status() string {
	return [jobPhaseCount]string{jobQueued: "queued", jobRunning: "processing", jobWriting: "processing", jobCompleted: "validated",
		jobFailed: "failed", jobExpired: "failed", jobCanceled: "skipped", jobCanceling: "processing"}[d.phase]
}

// describe returns the dataset. The caller holds mu.
func (d *cohereDataset) describe(x *exchange) any {
	v := object{"id": d.id, "name": d.name, "created_at": d.stamp(jobQueued), "updated_at": stampOf(d.at[d.phase]), "dataset_type": d.kind,
		"validation_status": d.status(), "preserve_fields": d.keep}
	if d.wrong != "" {
		v["validation_error"] = d.wrong
	}
	parts := make([]any, len(d.parts))
	for i, part := range d.parts {
		path := cohereDatasetURL + d.id + "/parts/" + itoa(i)
		parts[i] = object{"id": d.id + "-" + itoa(i), "name": d.name, "index": i, "size_bytes": len(part), "url": x.signedURL(path)}
	}
	v["dataset_parts"] = parts
	return v
}

// serveDatasetCreate answers POST /datasets.
func serveDatasetCreate(x *exchange) {
	up, ok := x.readForm(x.sim.files.limit, "data")
	if !ok || !x.begin(nil) {
		return
	}
	query, ok := x.query("name", "type", "keep_original_file", "skip_malformed_input", "keep_fields", "optional_fields", "text_separator",
		"csv_delimiter", "dry_run")
	if !ok {
		return
	}
	d := &cohereDataset{id: "sim-" + strconv.FormatInt(x.number, 10), name: query.Get("name"), kind: query.Get("type"), content: up.kept}
	for _, names := range query["keep_fields"] {
		d.keep = append(d.keep, strings.Split(names, ",")...)
	}
	wrong := ""
	switch {
	case d.name == "":
		wrong = "name is required"
	case !slices.Contains(cohereTypes, d.kind):
		wrong = "type must be one of " + strings.Join(cohereTypes, ", ")
	case !up.found:
		wrong = "a file data is required"
	case int64(len(up.kept)) < up.size:
		wrong = "the file is larger than the simulator keeps"
	}
	if wrong != "" {
		x.refuse(statusOf, invalid("", "invalid request: "+wrong))
		return
	}
	d.job = newJob(x.jobPaceOf(""), d, x.began)
	d.direct = true
	d.parts = [][]byte{up.kept}
	x.sim.stored.add(cohereDatasets, d.id, len(up.kept), d)
	x.sendCreated(http.StatusOK, object{"id": d.id})
}

// serveDatasets answers GET /datasets.
func serveDatasets(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("datasetType", "before", "after", "limit", "offset", "validationStatus")
	if !ok {
		return
	}
	list := []any{}
	for _, d := range listRecords[*cohereDataset](&x.sim.stored, cohereDatasets) {
		d.mu.Lock()
		if (query.Get("datasetType") == "" || query.Get("datasetType") == d.kind) &&
			(query.Get("validationStatus") == "" || query.Get("validationStatus") == d.status()) {
			list = append(list, d.describe(x))
		}
		d.mu.Unlock()
	}
	limit, wrong := strconv.Atoi(valueOr(query.Get("limit"), "100"))
	offset, err := strconv.Atoi(valueOr(query.Get("offset"), "0"))
	if wrong != nil || err != nil || limit < 0 || offset < 0 {
		x.refuse(statusOf, invalid("limit", "invalid request: limit and offset must be numbers"))
		return
	}
	list = list[min(offset, len(list)):]
	x.sendJSON(http.StatusOK, object{"datasets": list[:min(limit, len(list))]})
}

// serveDataset answers GET and DELETE /datasets/{id}, and the signed addresses of
// its parts.
func serveDataset(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/datasets/")
	if parts[0] == "usage" && x.r.Method == http.MethodGet {
		used := 0
		for _, d := range listRecords[*cohereDataset](&x.sim.stored, cohereDatasets) {
			used += len(d.content)
		}
		x.sendJSON(http.StatusOK, object{"organization_usage": used})
		return
	}
	d, ok := findRecord[*cohereDataset](&x.sim.stored, cohereDatasets, parts[0])
	if !ok {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "dataset " + parts[0] + " not found"})
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(parts) == 3 && parts[1] == "parts":
		i, err := strconv.Atoi(parts[2])
		if err != nil || i < 0 || i >= len(d.parts) || !isSigned(x.r) {
			x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "there is no such part"})
			return
		}
		x.sendBody(http.StatusOK, []string{"application/octet-stream"}, d.parts[i])
	case x.r.Method == http.MethodDelete:
		x.sim.stored.remove(cohereDatasets, d.id)
		x.sendJSON(http.StatusOK, object{})
	default:
		d.read(x.began)
		x.sendJSON(http.StatusOK, object{"dataset": d.describe(x)})
	}
}
