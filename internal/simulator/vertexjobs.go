package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	predictionFamily   = "vertex.batchPredictionJobs"
	vertexTuningFamily = "vertex.tuningJobs"
)

// vertexStates are the states of jobs of Vertex AI by phase.
// https://cloud.google.com/vertex-ai/docs/reference/rest/v1/JobState
var vertexStates = [jobPhaseCount]string{
	jobQueued: "JOB_STATE_PENDING", jobRunning: "JOB_STATE_RUNNING", jobWriting: "JOB_STATE_RUNNING", jobCanceling: "JOB_STATE_CANCELLING",
	jobCompleted: "JOB_STATE_SUCCEEDED", jobFailed: "JOB_STATE_FAILED", jobCanceled: "JOB_STATE_CANCELLED", jobExpired: "JOB_STATE_EXPIRED",
}

// findVertexJob returns the service of a request for jobs in a project.
func findVertexJob(path string) (s service, ok bool) {
	if !strings.Contains(path, "projects/") || !strings.Contains(path, "/locations/") {
		return s, false
	}
	switch {
	case strings.Contains(path, "/batchPredictionJobs"):
		return service{servePredictions, &geminiProtocol}, true
	case strings.Contains(path, "/tuningJobs"):
		return service{serveVertexTunings, &geminiProtocol}, true
	}
	return s, false
}

// vertexPath is the path of a request for jobs.
type vertexPath struct {
	parent  string // project and location
	id      string // empty for all jobs
	cancels bool
}

func (x *exchange) vertexPath(collection string) (p vertexPath) {
	path := x.r.URL.Path
	path = path[strings.Index(path, "projects/"):]
	p.parent, p.id, _ = strings.Cut(path, "/"+collection)
	p.id, p.cancels = strings.CutSuffix(strings.TrimPrefix(p.id, "/"), ":cancel")
	return p
}

// A predictionJob is a batch of Vertex AI, which reads and writes objects in a
// bucket.
// https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.batchPredictionJobs
type predictionJob struct {
	*job
	itemRun
	parent  string
	request map[string]any
	inputs  []string // without the scheme
	output  string
	model   string
	half    bool
	odd     bool
	message string
	lines   []map[string]json.RawMessage // members of a line that the results repeat
}

// servePredictions answers the routes of batchPredictionJobs.
func servePredictions(x *exchange) {
	p := x.vertexPath("batchPredictionJobs")
	if p.id == "" && x.r.Method == http.MethodPost {
		createPrediction(x, p)
		return
	}
	if !x.readBody() || !x.begin(nil) {
		return
	}
	if p.id == "" {
		sendVertexPage(x, predictionFamily, "batchPredictionJobs")
		return
	}
	serveVertexJob(x, predictionFamily, p)
}

func createPrediction(x *exchange, p vertexPath) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	camel(body)
	c.checkMembers(body, "", "displayName", "model", "inputConfig", "outputConfig", "instanceConfig", "modelParameters", "labels",
		"encryptionSpec", "serviceAccount", "dedicatedResources", "manualBatchTuningParameters")
	c.filled(body, "displayName", "")
	j := &predictionJob{parent: p.parent, request: body, model: c.filled(body, "model", "")}
	input := camel(c.object(body["inputConfig"], "inputConfig"))
	c.checkMembers(input, "inputConfig", "instancesFormat", "gcsSource", "bigquerySource")
	c.filled(input, "instancesFormat", "inputConfig")
	c.word(input, "instancesFormat", "inputConfig", "jsonl")
	source := camel(c.object(input["gcsSource"], "inputConfig.gcsSource"))
	c.checkMembers(source, "inputConfig.gcsSource", "uris")
	c.needList(source, "uris", "inputConfig.gcsSource")
	for i, uri := range c.texts(source, "uris", "inputConfig.gcsSource") {
		j.inputs = append(j.inputs, c.gsURI(uri, nth("inputConfig.gcsSource.uris", i)))
	}
	output := camel(c.object(body["outputConfig"], "outputConfig"))
	c.checkMembers(output, "outputConfig", "predictionsFormat", "gcsDestination", "bigqueryDestination")
	c.filled(output, "predictionsFormat", "outputConfig")
	c.word(output, "predictionsFormat", "outputConfig", "jsonl")
	destination := camel(c.object(output["gcsDestination"], "outputConfig.gcsDestination"))
	c.checkMembers(destination, "outputConfig.gcsDestination", "outputUriPrefix")
	j.output = c.gsURI(c.filled(destination, "outputUriPrefix", "outputConfig.gcsDestination"),
		"outputConfig.gcsDestination.outputUriPrefix")
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j.itemRun = itemRun{sim: x.sim, family: predictionFamily, id: strconv.FormatInt(1000000+x.number, 10),
		header: http.Header{"Content-Type": typeJSON}}
	j.job = newJob(x.jobPaceOf(j.model), j, x.began)
	j.half, j.odd = x.plan.halfContent, x.plan.oddResults
	x.sim.stored.add(predictionFamily, j.itemRun.id, 2*len(x.in), j)
	x.sendCreated(http.StatusOK, j.describe())
}

// gsURI returns an address of Google's storage without the scheme.
func (c *checker) gsURI(uri, path string) string {
	name, ok := strings.CutPrefix(uri, "gs://")
	if !ok {
		c.fail(path, "must begin with gs://")
	}
	return name
}

// embeds reports whether the model makes embeddings.
func (j *predictionJob) embeds() bool { return strings.Contains(j.model, "embedding") }

// check reads the input, line by line.
func (j *predictionJob) check() bool {
	address := "/v1/" + j.parent + "/" + strings.TrimPrefix(j.model, j.parent+"/")
	switch {
	case j.embeds():
		address += ":predict"
	case strings.Contains(j.model, "publishers/anthropic/"):
		address += ":rawPredict"
	default:
		address += ":generateContent"
	}
	for _, name := range j.inputs {
		o, ok := findRecord[*bucketObject](&j.sim.stored, gsFamily, name)
		if !ok {
			j.message = "The input gs://" + name + " does not exist."
			return false
		}
		for number, raw := range eachLine(o.content) {
			var line map[string]json.RawMessage
			if json.Unmarshal(raw, &line) != nil || line == nil || line["request"] == nil && !j.embeds() {
				j.message = "The input gs://" + name + " is not valid at line " + itoa(number) + ": expected an object with a request."
				return false
			}
			request := []byte(line["request"])
			if j.embeds() {
				instance := map[string]json.RawMessage{"content": line["content"]}
				request, _ = json.Marshal(object{"instances": []any{instance}}) // it came from valid JSON
			}
			j.lines = append(j.lines, line)
			j.items = append(j.items, &batchItem{path: address, body: request})
		}
	}
	return true
}

// folder returns the name of the folder with the results.
func (j *predictionJob) folder() string {
	return strings.TrimSuffix(j.output, "/") + "/prediction-model-" + j.itemRun.id
}

// produce writes the results, in another order than the lines.
func (j *predictionJob) produce(end jobPhase, began bool) {
	if !began {
		return
	}
	j.itemRun.produce(end, began)
	var all []byte
	for i, item := range slices.Backward(j.items) {
		if item.got == nil {
			continue
		}
		line := object{"status": "", "processed_time": stampOf(j.at[jobRunning])}
		for name, v := range j.lines[i] {
			line[name] = v
		}
		response := json.RawMessage(`{}`)
		if item.end == jobCompleted {
			response = item.got.body
		} else {
			line["status"] = "Bad Request: " + string(item.failure())
		}
		line["response"] = response
		raw, _ := json.Marshal(line) // its parts are valid JSON
		all = append(append(all, raw...), '\n')
	}
	if j.odd {
		all = oddLines(all)
	}
	name := "/predictions.jsonl"
	if j.embeds() {
		name = "/000000000000.jsonl"
	}
	j.sim.putObject(gsFamily, &bucketObject{name: j.folder() + name, content: all, kind: "application/octet-stream", half: j.half})
	j.lines = nil
}

// describe returns the job. The caller holds mu, or nobody else has j.
func (j *predictionJob) describe() any {
	d := object{"name": j.parent + "/batchPredictionJobs/" + j.itemRun.id, "state": vertexStates[j.phase], "createTime": j.stamp(jobQueued),
		"updateTime": stampOf(j.at[j.phase]), "modelVersionId": "1"}
	for _, name := range []string{"displayName", "model", "inputConfig", "outputConfig", "instanceConfig", "labels", "modelParameters"} {
		if v, ok := j.request[name]; ok {
			d[name] = v
		}
	}
	if !j.at[jobRunning].IsZero() {
		d["startTime"] = j.stamp(jobRunning)
	}
	if !j.phase.ended() {
		return d
	}
	d["endTime"] = stampOf(j.last())
	if j.phase == jobFailed {
		d["error"] = object{"code": 3, "message": cmp.Or(j.message, "The job failed due to an internal error.")}
		return d
	}
	counts := j.count()
	if j.phase == jobCompleted && counts[jobFailed] > 0 {
		d["state"] = "JOB_STATE_PARTIALLY_SUCCEEDED"
	}
	d["completionStats"] = object{"successfulCount": itoa(counts[jobCompleted]), "failedCount": itoa(counts[jobFailed]),
		"incompleteCount": itoa(len(j.items) - counts[jobCompleted] - counts[jobFailed])}
	if !j.at[jobRunning].IsZero() {
		d["outputInfo"] = object{"gcsOutputDirectory": "gs://" + j.folder()}
	}
	return d
}

// A vertexJob is a job of Vertex AI of any kind.
type vertexJob interface {
	control() *job
	describe() any
	place() string
}

func (j *predictionJob) control() *job { return j.job }
func (j *predictionJob) place() string { return j.parent + "/" + j.itemRun.id }

// serveVertexJob answers GET and DELETE of a job, and :cancel.
func serveVertexJob(x *exchange, family string, p vertexPath) {
	v, ok := findRecord[vertexJob](&x.sim.stored, family, p.id)
	if !ok || v.place() != p.parent+"/"+p.id || p.cancels != (x.r.Method == http.MethodPost) {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "The job " + p.id + " does not exist."})
		return
	}
	j := v.control()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case x.r.Method == http.MethodDelete && !j.phase.ended():
		x.refuse(statusOf, invalid("name", "The job has not ended: cancel it before it is deleted."))
	case x.r.Method == http.MethodDelete:
		x.sim.stored.remove(family, p.id)
		x.sendJSON(http.StatusOK, object{"name": p.parent + "/operations/" + p.id, "done": true, "response": object{}})
	case !p.cancels:
		j.read(x.began)
		x.sendJSON(http.StatusOK, v.describe())
	case !j.cancel(x.began):
		x.refuse(statusOf, invalid("name", "The job is "+vertexStates[j.phase]+" and cannot be cancelled."))
	default:
		x.sendJSON(http.StatusOK, object{})
	}
}

// sendVertexPage lists the jobs of a project and location.
func sendVertexPage(x *exchange, family, name string) {
	query, ok := x.query("pageSize", "pageToken", "filter", "readMask")
	if !ok {
		return
	}
	parent := x.vertexPath(name).parent
	list := slices.DeleteFunc(listRecords[vertexJob](&x.sim.stored, family), func(v vertexJob) bool {
		return !strings.HasPrefix(v.place(), parent+"/")
	})
	page, next, wrong := pageByToken(list, query, vertexJob.place)
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	data := make([]any, len(page))
	for i, v := range page {
		v.control().mu.Lock()
		data[i] = v.describe()
		v.control().mu.Unlock()
	}
	x.sendJSON(http.StatusOK, withToken(object{name: data}, next))
}
