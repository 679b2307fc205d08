package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	fireworksDatasets = "fireworks.datasets"
	fireworksBatches  = "fireworks.batchInferenceJobs"
	fireworksTunings  = "fireworks.supervisedFineTuningJobs"
)

// fireworksProtocol is the protocol of errors of the management API.
var fireworksProtocol = protocol{name: "chat", index: chatIndex, kind: framingEvents, stream: typeStream, fail: failFireworks}

func failFireworks(_ *exchange, dst []byte, status int, e providerError) []byte {
	return appendAll(dst, `{"code":`, itoa(cmp.Or(grpcCodes[status], 13)), `,"message":`, quoted(e.message), `,"details":[]}`)
}

// fireworksStates are the states of jobs by phase.
var fireworksStates = [jobPhaseCount]string{
	jobQueued: "JOB_STATE_VALIDATING", jobRunning: "JOB_STATE_RUNNING", jobWriting: "JOB_STATE_WRITING_RESULTS",
	jobCanceling: "JOB_STATE_CANCELLING", jobCompleted: "JOB_STATE_COMPLETED", jobFailed: "JOB_STATE_FAILED",
	jobCanceled: "JOB_STATE_CANCELLED", jobExpired: "JOB_STATE_EXPIRED",
}

// fireworksID is the form of ids of resources.
var fireworksID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// A dataset is lines in files, of Fireworks.
type dataset struct {
	name   string // of the resource
	about  map[string]any
	mu     sync.Mutex // guards all fields below
	files  map[string][]byte
	sizes  map[string]int64 // as announced, by the name of a file
	ready  bool
	wrong  string
	at     string // creation
	source string // job that made it
}

// describe returns the dataset. The caller holds mu, or nobody else has d.
func (d *dataset) describe() any {
	state, status := "UPLOADING", object{"code": "OK", "message": ""}
	if d.ready {
		state = "READY"
	}
	if d.wrong != "" {
		status = object{"code": "INVALID_ARGUMENT", "message": d.wrong}
	}
	count := 0
	for _, content := range d.files {
		for range eachLine(content) {
			count++
		}
	}
	v := object{"name": d.name, "createTime": d.at, "updateTime": d.at, "state": state, "status": status, "exampleCount": itoa(count),
		"userUploaded": object{}, "sourceJobName": d.source}
	for name, value := range d.about {
		if name == "displayName" || name == "format" {
			v[name] = value
		}
	}
	return v
}

// validate checks the lines, and makes the dataset ready. The caller holds mu.
func (d *dataset) validate() {
	d.wrong, d.ready = "", false
	if len(d.files) == 0 {
		d.wrong = "the dataset has no files"
	}
	for name, content := range d.files {
		if size, ok := d.sizes[name]; ok && size != int64(len(content)) {
			d.wrong = "the file " + name + " has another size than was announced"
		}
		for number, line := range eachLine(content) {
			if !json.Valid(line) {
				d.wrong = "the file " + name + " has an invalid line " + itoa(number)
				break
			}
		}
	}
	d.ready = d.wrong == ""
}

// content returns the lines of all files. It returns false unless the dataset is
// ready.
func (d *dataset) content() (all []byte, ok bool) {
	if d == nil {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		all = append(append(all, bytes.TrimRight(d.files[name], "\n")...), '\n')
	}
	return all, d.ready
}

// serveFireworks answers the routes below /accounts/{account}.
// https://docs.fireworks.ai/api-reference/introduction
func serveFireworks(x *exchange) {
	parts := x.segments("/accounts/")
	if len(parts) < 2 {
		parts = []string{"", ""}
	}
	collection := parts[1]
	id, verb := "", ""
	if len(parts) > 2 {
		id, verb, _ = strings.Cut(parts[2], ":")
	}
	f := &fireworksCall{exchange: x, account: parts[0], id: id, verb: verb}
	switch {
	case collection == "datasets":
		f.family = fireworksDatasets
		f.serveDatasets(parts)
	case collection == "batchInferenceJobs":
		f.family = fireworksBatches
		f.serveJobs("batchInferenceJobs", (*fireworksCall).createBatch)
	case collection == "supervisedFineTuningJobs":
		f.family = fireworksTunings
		f.serveJobs("supervisedFineTuningJobs", (*fireworksCall).createTuning)
	case x.readBody() && x.begin(nil):
		f.missing()
	}
}

// fireworksCall is a request to the management API.
type fireworksCall struct {
	*exchange
	account, family, id, verb string
}

func (f *fireworksCall) missing() {
	f.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "not found"})
}

// newName returns the name of a new resource, with the id of the request if it has
// one.
func (f *fireworksCall) newName(c *checker, collection, id string) string {
	if id == "" {
		id = "sim" + strconv.FormatInt(f.number, 10)
	}
	c.matches(id, collection+"Id", fireworksID)
	return "accounts/" + f.account + "/" + collection + "/" + id
}

func (f *fireworksCall) serveDatasets(parts []string) {
	if f.id == "" && f.r.Method == http.MethodPost {
		f.createDataset()
		return
	}
	name := "accounts/" + f.account + "/datasets/" + f.id
	d, ok := findRecord[*dataset](&f.sim.stored, f.family, name)
	if f.verb == "upload" && ok && f.r.Method == http.MethodPost {
		f.uploadDataset(d)
		return
	}
	if !f.readBody() || !f.begin(nil) {
		return
	}
	if ok {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	operation := f.r.Method + " " + f.verb
	switch {
	case f.id == "" && f.r.Method == http.MethodGet:
		f.listNamed("datasets", func() (list []namedResource) {
			for _, d := range listRecords[*dataset](&f.sim.stored, f.family) {
				list = append(list, namedResource{d.name, func() any {
					d.mu.Lock()
					defer d.mu.Unlock()
					return d.describe()
				}})
			}
			return list
		}())
	case !ok:
		f.missing()
	case len(parts) == 4: // a signed address of a file
		f.serveDatasetFile(d, parts[3])
	case operation == "GET ":
		f.sendJSON(http.StatusOK, d.describe())
	case operation == "DELETE ":
		f.sim.stored.remove(f.family, d.name)
		f.sendJSON(http.StatusOK, object{})
	case operation == "POST getUploadEndpoint":
		f.sendUploadEndpoint(d)
	case operation == "POST validateUpload":
		d.validate()
		if d.wrong != "" {
			f.refuse(statusOf, invalid("", d.wrong))
			return
		}
		f.sendJSON(http.StatusOK, object{})
	case operation == "GET getDownloadEndpoint":
		urls := object{}
		for name := range d.files {
			urls[name] = f.signedURL("/v1/" + d.name + "/" + name)
		}
		f.sendJSON(http.StatusOK, object{"filenameToSignedUrls": urls})
	default:
		f.missing()
	}
}

func (f *fireworksCall) createDataset() {
	body, ok := f.open(nil)
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "dataset", "datasetId", "sourceDatasetId")
	about := c.object(body["dataset"], "dataset")
	c.checkMembers(about, "dataset", "displayName", "evalProtocol", "evaluationResult", "exampleCount", "externalUrl", "format",
		"sourceJobName", "splitted", "transformed", "userUploaded")
	c.word(about, "format", "dataset", "FORMAT_UNSPECIFIED", "CHAT", "COMPLETION", "RL")
	c.text(about, "exampleCount", "dataset")
	d := &dataset{about: about, name: f.newName(c, "datasets", c.filled(body, "datasetId", "")), files: map[string][]byte{}, sizes: map[string]int64{}}
	if _, exists := findRecord[*dataset](&f.sim.stored, f.family, d.name); exists {
		c.fail("datasetId", "already exists")
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	d.at, _ = stampOf(f.began).(string)
	f.sim.stored.add(f.family, d.name, len(f.in), d)
	f.sendCreated(http.StatusOK, d.describe())
}

// uploadDataset takes a file in a form.
func (f *fireworksCall) uploadDataset(d *dataset) {
	up, ok := f.readForm(f.sim.files.limit, "file")
	if !ok || !f.begin(nil) {
		return
	}
	if !up.found || int64(len(up.kept)) < up.size {
		f.refuse(statusOf, missing("file"))
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[valueOr(up.name, "file")] = up.kept
	f.sim.stored.grow(f.family, d.name, len(up.kept))
	if d.validate(); d.wrong != "" {
		f.refuse(statusOf, invalid("file", d.wrong))
		return
	}
	f.sendJSON(http.StatusOK, object{})
}

func (f *fireworksCall) sendUploadEndpoint(d *dataset) {
	body, ok := f.decodeObject()
	if !ok {
		return
	}
	c := newChecker(f.protocol)
	c.checkMembers(body, "", "filenameToSize", "readMask")
	urls := object{}
	sizes := c.child(body, "filenameToSize", "")
	for _, name := range sortedNames(sizes) {
		n, err := strconv.ParseInt(textOf(sizes[name]), 10, 64)
		if err != nil || strings.ContainsAny(name, "/:") {
			c.fail("filenameToSize", "must have sizes of files by name")
		}
		d.sizes[name] = n
		urls[name] = f.signedURL("/v1/" + d.name + "/" + name)
	}
	if len(sizes) == 0 {
		c.fail("filenameToSize", "must not be empty")
	}
	if c.wrong.kind != "" {
		f.refuse(statusOf, c.wrong)
		return
	}
	f.sendJSON(http.StatusOK, object{"filenameToSignedUrls": urls})
}

// serveDatasetFile answers the signed address of a file.
func (f *fireworksCall) serveDatasetFile(d *dataset, name string) {
	content, ok := d.files[name]
	size, announced := d.sizes[name]
	switch {
	case f.r.Method == http.MethodGet && ok:
		f.sendBody(http.StatusOK, []string{"application/octet-stream"}, content)
	case f.r.Method != http.MethodPut || !announced:
		f.missing()
	case size != int64(len(f.in)):
		f.refuse(statusOf, invalid("", "the content has another size than was announced"))
	default:
		d.files[name] = bytes.Clone(f.in)
		f.sim.stored.grow(f.family, d.name, len(f.in)-len(content))
		f.sendBody(http.StatusOK, typeJSON, nil)
	}
}

// A namedResource is a resource in a list.
type namedResource struct {
	name     string
	describe func() any
}

// listNamed sends a page of the resources of the account.
func (f *fireworksCall) listNamed(collection string, list []namedResource) {
	query, ok := f.query("pageSize", "pageToken", "filter", "orderBy", "readMask")
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(r namedResource) bool { return !strings.HasPrefix(r.name, "accounts/"+f.account+"/") })
	page, next, wrong := pageByToken(list, query, func(r namedResource) string { return r.name })
	if wrong.kind != "" {
		f.refuse(statusOf, wrong)
		return
	}
	data := make([]any, len(page))
	for i, r := range page {
		data[i] = r.describe()
	}
	f.sendJSON(http.StatusOK, withToken(object{collection: data, "totalSize": len(list)}, next))
}

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
	c.checkMembers(body, "", "model", "inputDatasetId", "outputDatasetId", "displayName", "inferenceParameters", "precision", "continuedFromJobName")
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
		"status": object{"code": "OK", "message": ""}, "inputDatasetId": b.input, "outputDatasetId": b.output, "createdBy": "sim@example.com"}
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
	for name, v := range j.request {
		d[name] = v
	}
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
