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
	j.itemRun = itemRun{sim: x.sim, family: cohereEmbedJobs, id: "sim-" + strconv.FormatInt(x.number, 10), header: http.Header{"Content-Type": typeJSON}}
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
		body, _ := json.Marshal(object{"model": j.model, "input_type": j.kind, "texts": []any{row["text"]}, "embedding_types": []string{"float"},
			"truncate": j.truncate}) // it came from valid JSON
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

// A cohereTuning is a model that is fine-tuned.
// https://docs.cohere.com/reference/createfinetunedmodel
type cohereTuning struct {
	*training
	name     string
	settings map[string]any
}

var cohereTuningStates = [jobPhaseCount]string{
	jobQueued: "STATUS_QUEUED", jobRunning: "STATUS_FINETUNING", jobWriting: "STATUS_DEPLOYING_API", jobCanceling: "STATUS_FINETUNING",
	jobCompleted: "STATUS_READY", jobFailed: "STATUS_FAILED", jobCanceled: "STATUS_DELETED", jobExpired: "STATUS_FAILED",
}

// serveFinetunedCreate answers POST /finetuning/finetuned-models.
func serveFinetunedCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "name", "settings")
	j := &cohereTuning{name: c.filled(body, "name", ""), settings: c.object(body["settings"], "settings")}
	c.checkMembers(j.settings, "settings", "base_model", "dataset_id", "hyperparameters", "multi_label", "wandb")
	base := c.object(j.settings["base_model"], "settings.base_model")
	c.checkMembers(base, "settings.base_model", "base_type", "name", "version", "strategy")
	c.filled(base, "base_type", "settings.base_model")
	c.word(base, "base_type", "settings.base_model", "BASE_TYPE_GENERATIVE", "BASE_TYPE_CLASSIFICATION", "BASE_TYPE_RERANK", "BASE_TYPE_CHAT")
	parameters := c.child(j.settings, "hyperparameters", "settings")
	c.checkMembers(parameters, "settings.hyperparameters", "early_stopping_patience", "early_stopping_threshold", "train_batch_size",
		"train_epochs", "learning_rate", "lora_alpha", "lora_rank", "lora_target_modules")
	d, ok := findRecord[*cohereDataset](&x.sim.stored, cohereDatasets, c.filled(j.settings, "dataset_id", "settings"))
	if c.wrong.kind == "" && (!ok || !strings.HasSuffix(d.kind, "finetune-input") || !d.validated()) {
		c.fail("settings.dataset_id", "there is no such validated dataset for fine-tuning")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	model := valueOr(c.text(base, "name", ""), "command")
	j.training = x.newTraining("sim-", model, d.content)
	j.queue = false
	j.epochs = max(c.integer(parameters, "train_epochs", "", 1), 1)
	x.sim.stored.add(cohereTunings, j.id, len(x.in)+len(j.content), j)
	x.sendCreated(http.StatusOK, object{"finetuned_model": j.describe()})
}

// describe returns the model. The caller holds mu, or nobody else has j.
func (j *cohereTuning) describe() any {
	return object{"id": j.id, "name": j.name, "creator_id": "user-sim", "organization_id": "org-sim", "settings": j.settings,
		"status": cohereTuningStates[j.phase], "created_at": j.stamp(jobQueued), "updated_at": stampOf(j.at[j.phase]),
		"completed_at": j.stamp(jobCompleted), "last_used": nil}
}

// serveFinetunedModels answers GET /finetuning/finetuned-models.
func serveFinetunedModels(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("page_size", "page_token", "order_by")
	if !ok {
		return
	}
	all := listRecords[*cohereTuning](&x.sim.stored, cohereTunings)
	page, more, wrong := pageAfter(pager{usual: 50, most: 1000}, all, func(j *cohereTuning) string { return j.id },
		map[string][]string{"limit": query["page_size"], "after": query["page_token"]})
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	list := make([]any, len(page))
	next := ""
	for i, j := range page {
		j.mu.Lock()
		list[i] = j.describe()
		j.mu.Unlock()
		if more {
			next = j.id
		}
	}
	x.sendJSON(http.StatusOK, object{"finetuned_models": list, "next_page_token": next, "total_size": len(all)})
}

// serveFinetunedModel answers GET and DELETE of a model, and GET of its events.
func serveFinetunedModel(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/finetuning/finetuned-models/")
	j, ok := findRecord[*cohereTuning](&x.sim.stored, cohereTunings, parts[0])
	operation := x.r.Method + " " + strings.Join(parts[1:], "/")
	if !ok {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "finetuned model " + parts[0] + " not found"})
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch operation {
	case "GET ":
		j.read(x.began)
		x.sendJSON(http.StatusOK, object{"finetuned_model": j.describe()})
	case "DELETE ":
		x.sim.stored.remove(cohereTunings, j.id)
		x.sendJSON(http.StatusOK, object{})
	case "GET events":
		var list []any
		for phase, at := range j.at {
			if !at.IsZero() {
				list = append(list, object{"user_id": "user-sim", "status": cohereTuningStates[phase], "created_at": stampOf(at)})
			}
		}
		x.sendJSON(http.StatusOK, object{"events": list, "next_page_token": "", "total_size": len(list)})
	case "GET training-step-metrics":
		var list []any
		for step := range trainingSteps {
			if j.tokens > 0 {
				list = append(list, object{"step_number": step + 1, "created_at": j.stamp(jobWriting), "metrics": object{"loss": lossOf(step)}})
			}
		}
		x.sendJSON(http.StatusOK, object{"step_metrics": list, "next_page_token": ""})
	default:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "there is no such operation of a model"})
	}
}
