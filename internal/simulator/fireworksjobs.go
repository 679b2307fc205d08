package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A fireworksJob is a job of any kind.
type fireworksJob interface {
	control() *job
	place() string // name of the resource
	describe() any
}

// serveJobs answers the routes of a collection of jobs.
func (f *fireworksCall) serveJobs(collection string, create func(*fireworksCall)) {
	if f.id == "" && f.r.Method == http.MethodPost {
		create(f)
		return
	}
	if !f.readBody() || !f.begin(nil) {
		return
	}
	if f.id == "" && f.r.Method == http.MethodGet {
		var list []namedResource
		for _, v := range listRecords[fireworksJob](&f.sim.stored, f.family) {
			list = append(list, namedResource{v.place(), func() any {
				v.control().mu.Lock()
				defer v.control().mu.Unlock()
				return v.describe()
			}})
		}
		f.listNamed(collection, list)
		return
	}
	v, ok := findRecord[fireworksJob](&f.sim.stored, f.family, "accounts/"+f.account+"/"+collection+"/"+f.id)
	if !ok {
		f.missing()
		return
	}
	j := v.control()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch operation := f.r.Method + " " + f.verb; {
	case operation == "GET ":
		j.read(f.began)
		f.sendJSON(http.StatusOK, v.describe())
	case operation == "DELETE ":
		f.sim.stored.remove(f.family, v.place())
		f.sendJSON(http.StatusOK, object{})
	case f.family == fireworksTunings && operation == "POST cancel":
		if !j.cancel(f.began) {
			f.refuse(statusOf, invalid("", "the job has ended"))
			return
		}
		f.sendJSON(http.StatusOK, object{})
	case f.family == fireworksTunings && operation == "POST resume":
		if j.phase != jobCanceled && j.phase != jobFailed {
			f.refuse(statusOf, invalid("", "the job has neither failed nor been cancelled"))
			return
		}
		j.pace.mode = ""
		j.enter(jobQueued, f.began)
		f.sendJSON(http.StatusOK, v.describe())
	default:
		f.missing()
	}
}

// A fireworksBatch is a batch of Fireworks.
type fireworksBatch struct {
	*job
	itemRun
	name, input, output string
	request             map[string]any
	content             []byte
	skip                map[string]bool // requests that an earlier job has done
	message             string
}

func (b *fireworksBatch) control() *job { return b.job }
func (b *fireworksBatch) place() string { return b.name }

// datasetName returns the name of a dataset, which may be its id only.
func (f *fireworksCall) datasetName(id string) string {
	if strings.Contains(id, "/") {
		return id
	}
	return "accounts/" + f.account + "/datasets/" + id
}

func (f *fireworksCall) createBatch() {
	body, ok := f.open(nil)
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "model", "inputDatasetId", "outputDatasetId", "displayName", "inferenceParameters", "precision",
		"continuedFromJobName")
	parameters := c.child(body, "inferenceParameters", "")
	c.checkMembers(parameters, "inferenceParameters", "maxTokens", "temperature", "topP", "topK", "n", "extraBody")
	c.integer(parameters, "maxTokens", "inferenceParameters", 1)
	b := &fireworksBatch{request: body, name: f.newName(c, "batchInferenceJobs", f.r.URL.Query().Get("batchInferenceJobId"))}
	model := c.filled(body, "model", "")
	b.input = f.datasetName(c.filled(body, "inputDatasetId", ""))
	d, _ := findRecord[*dataset](&f.sim.stored, fireworksDatasets, b.input)
	content, ready := d.content()
	if c.wrong.kind == "" && !ready {
		c.fail("inputDatasetId", "the dataset does not exist or is not ready")
	}
	if from := c.text(body, "continuedFromJobName", ""); from != "" && c.wrong.kind == "" {
		b.skip = f.doneBy(c, from)
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	b.output = f.datasetName(valueOr(c.text(body, "outputDatasetId", ""), "out-"+strconv.FormatInt(f.number, 10)))
	b.content = content
	b.itemRun = itemRun{sim: f.sim, family: f.family, id: b.name, header: http.Header{"Content-Type": typeJSON}}
	b.job = newJob(f.jobPaceOf(model), b, f.began)
	f.sim.stored.add(f.family, b.name, len(f.in)+len(b.content), b)
	f.sendCreated(http.StatusOK, b.describe())
}

// doneBy returns the requests that a job has done. It must have expired.
func (f *fireworksCall) doneBy(c *checker, name string) map[string]bool {
	earlier, ok := findRecord[*fireworksBatch](&f.sim.stored, f.family, name)
	if !ok {
		c.fail("continuedFromJobName", "the job does not exist")
		return nil
	}
	earlier.mu.Lock()
	defer earlier.mu.Unlock()
	if earlier.phase != jobExpired {
		c.fail("continuedFromJobName", "the job has not expired")
	}
	done := map[string]bool{}
	for _, item := range earlier.items {
		done[item.key] = item.end == jobCompleted
	}
	return done
}

// check reads the lines of the dataset.
func (b *fireworksBatch) check() bool {
	model, _ := b.request["model"].(string)
	for number, raw := range eachLine(b.content) {
		var line struct {
			ID   string         `json:"custom_id"`
			Body map[string]any `json:"body"`
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&line) != nil || line.Body == nil {
			b.message = "line " + itoa(number) + " must have the members custom_id and body"
			return false
		}
		if b.skip[line.ID] {
			continue
		}
		line.Body["model"] = model
		body, _ := json.Marshal(line.Body) // it came from valid JSON
		b.items = append(b.items, &batchItem{key: valueOr(line.ID, itoa(number)), path: "/v1/chat/completions", body: body})
	}
	return true
}

// produce runs the lines and makes a dataset of their results.
func (b *fireworksBatch) produce(end jobPhase, began bool) {
	if !began {
		return
	}
	b.itemRun.produce(end, began)
	var results, failures []byte
	for _, item := range slices.Backward(b.items) {
		if item.end == jobCompleted {
			raw, _ := json.Marshal(object{"custom_id": item.key, "response": json.RawMessage(item.got.body)}) // its parts are valid JSON
			results = append(append(results, raw...), '\n')
		} else if item.got != nil {
			raw, _ := json.Marshal(object{"custom_id": item.key, "error": item.failure()}) // likewise
			failures = append(append(failures, raw...), '\n')
		}
	}
	at, _ := stampOf(b.at[jobRunning]).(string)
	d := &dataset{name: b.output, files: map[string][]byte{"BIJOutputSet.jsonl": results}, ready: true, at: at, source: b.name}
	if len(failures) > 0 {
		d.files["error-data"] = failures
	}
	b.sim.stored.add(fireworksDatasets, d.name, len(results)+len(failures), d)
}

// describe returns the job. The caller holds mu, or nobody else has b.
func (b *fireworksBatch) describe() any {
	counts, used := b.count(), b.usageOf()
	d := object{"name": b.name, "createTime": b.stamp(jobQueued), "updateTime": stampOf(b.at[b.phase]), "state": fireworksStates[b.phase],
		"status": object{"code": "OK", "message": ""}, "inputDatasetId": b.input, "outputDatasetId": b.output,
		"createdBy": "sim@example.com"}
	for _, name := range []string{"model", "displayName", "inferenceParameters", "precision", "continuedFromJobName"} {
		if v, ok := b.request[name]; ok {
			d[name] = v
		}
	}
	if b.phase == jobFailed {
		d["status"] = object{"code": "INVALID_ARGUMENT", "message": valueOr(b.message, "the job failed")}
	}
	processed := counts[jobCompleted] + counts[jobFailed]
	d["jobProgress"] = object{"percent": 100 * processed / max(len(b.items), 1), "totalInputRequests": len(b.items),
		"totalProcessedRequests": processed, "successfullyProcessedRequests": counts[jobCompleted], "failedRequests": counts[jobFailed],
		"outputRows": counts[jobCompleted], "inputTokens": used.input, "outputTokens": used.output, "cachedInputTokenCount": used.cached}
	return d
}

// A fireworksTuning is a job of fine-tuning of Fireworks.
type fireworksTuning struct {
	*training
	name, data string
	request    map[string]any
}

func (j *fireworksTuning) control() *job { return j.job }
func (j *fireworksTuning) place() string { return j.name }

func (f *fireworksCall) createTuning() {
	body, ok := f.open(nil)
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "dataset", "awsS3Config", "azureBlobStorageConfig", "baseModel", "batchSize", "batchSizeSamples",
		"samplerCheckpointSaveIntervalSteps", "displayName", "earlyStop", "epochs", "evalAutoCarveout", "evaluationDataset",
		"gradientAccumulationSteps", "isTurbo", "jinjaTemplate", "learningRate", "learningRateWarmupSteps", "loraRank", "maxContextLength",
		"metricsFileSignedUrl", "nodes", "optimizerWeightDecay", "outputModel", "region", "usePurpose", "wandbConfig", "warmStartFrom")
	j := &fireworksTuning{request: body, name: f.newName(c, "supervisedFineTuningJobs", f.r.URL.Query().Get("supervisedFineTuningJobId"))}
	j.data = f.datasetName(c.filled(body, "dataset", ""))
	model := c.text(body, c.one(body, "", "baseModel", "warmStartFrom"), "")
	epochs := c.integer(body, "epochs", "", 1)
	c.text(body, "outputModel", "")
	d, _ := findRecord[*dataset](&f.sim.stored, fireworksDatasets, j.data)
	content, ready := d.content()
	if c.wrong.kind == "" && !ready {
		c.fail("dataset", "the dataset does not exist or is not ready")
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	j.training = f.newTraining("sim", model, content)
	j.epochs = cmp.Or(epochs, 1)
	f.sim.stored.add(f.family, j.name, len(f.in)+len(j.content), j)
	f.sendCreated(http.StatusOK, j.describe())
}

// describe returns the job. The caller holds mu, or nobody else has j.
func (j *fireworksTuning) describe() any {
	d := object{"name": j.name, "createTime": j.stamp(jobQueued), "updateTime": stampOf(j.at[j.phase]), "state": fireworksStates[j.phase],
		"status": object{"code": "OK", "message": ""}, "createdBy": "sim@example.com"}
	maps.Copy(d, j.request)
	account, _, _ := strings.Cut(strings.TrimPrefix(j.name, "accounts/"), "/")
	if d["outputModel"] == nil {
		d["outputModel"] = "accounts/" + account + "/models/" + j.id
	}
	switch j.phase {
	case jobCompleted:
		d["completedTime"] = stampOf(j.last())
	case jobFailed, jobExpired:
		d["status"] = object{"code": "INVALID_ARGUMENT", "message": j.failure().message}
	}
	return d
}
