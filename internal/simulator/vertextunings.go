package simulator

import (
	"maps"
	"net/http"
	"strconv"
)

// A vertexTuning is a job of fine-tuning of Vertex AI.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/tuning
type vertexTuning struct {
	*training
	parent  string
	request map[string]any
}

func (j *vertexTuning) control() *job { return j.job }
func (j *vertexTuning) place() string { return j.parent + "/" + j.id }

// serveVertexTunings answers the routes of tuningJobs.
func serveVertexTunings(x *exchange) {
	p := x.vertexPath("tuningJobs")
	if p.id == "" && x.r.Method == http.MethodPost {
		createVertexTuning(x, p)
		return
	}
	if !x.readBody() || !x.begin(nil) {
		return
	}
	if p.id == "" {
		sendVertexPage(x, vertexTuningFamily, "tuningJobs")
		return
	}
	serveVertexJob(x, vertexTuningFamily, p)
}

func createVertexTuning(x *exchange, p vertexPath) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	camel(body)
	c.checkMembers(body, "", "baseModel", "tunedModelDisplayName", "supervisedTuningSpec", "preferenceOptimizationSpec", "description",
		"labels", "encryptionSpec", "serviceAccount", "outputUri")
	model := c.filled(body, "baseModel", "")
	kind := c.one(body, "", "supervisedTuningSpec", "preferenceOptimizationSpec")
	spec := camel(c.child(body, kind, ""))
	c.checkMembers(spec, kind, "trainingDatasetUri", "validationDatasetUri", "hyperParameters", "exportLastCheckpointOnly", "tuningMode")
	input := c.gsURI(c.filled(spec, "trainingDatasetUri", kind), at(kind, "trainingDatasetUri"))
	parameters := camel(c.child(spec, "hyperParameters", kind))
	where := at(kind, "hyperParameters")
	c.checkMembers(parameters, where, "epochCount", "learningRateMultiplier", "learningRate", "adapterSize", "batchSize", "beta")
	c.word(parameters, "adapterSize", where, "ADAPTER_SIZE_ONE", "ADAPTER_SIZE_TWO", "ADAPTER_SIZE_FOUR", "ADAPTER_SIZE_EIGHT",
		"ADAPTER_SIZE_SIXTEEN", "ADAPTER_SIZE_THIRTY_TWO")
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j := &vertexTuning{parent: p.parent, request: body}
	var content []byte
	if o, ok := findRecord[*bucketObject](&x.sim.stored, gsFamily, input); ok {
		content = o.content
	}
	j.training = x.newTraining("", model, content)
	if n, err := strconv.Atoi(textOf(parameters["epochCount"])); err == nil && n > 0 {
		j.epochs = n
	}
	x.sim.stored.add(vertexTuningFamily, j.id, len(x.in)+len(content), j)
	x.sendCreated(http.StatusOK, j.describe())
}

// textOf returns a number or a string as text: in the JSON of protocol buffers,
// integers of 64 bits are strings.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

// describe returns the job. The caller holds mu, or nobody else has j.
func (j *vertexTuning) describe() any {
	d := object{"name": j.parent + "/tuningJobs/" + j.id, "state": vertexStates[j.phase], "createTime": j.stamp(jobQueued),
		"updateTime": stampOf(j.at[j.phase])}
	maps.Copy(d, j.request)
	if !j.at[jobRunning].IsZero() {
		d["startTime"] = j.stamp(jobRunning)
	}
	if j.phase.ended() {
		d["endTime"] = stampOf(j.last())
	}
	switch j.phase {
	case jobCompleted:
		d["tunedModel"] = object{"model": j.parent + "/models/" + j.id + "@1", "endpoint": j.parent + "/endpoints/" + j.id}
		d["tuningDataStats"] = object{"supervisedTuningDataStats": object{"totalBillableTokenCount": itoa(j.tokens)}}
	case jobFailed, jobExpired:
		d["error"] = object{"code": 3, "message": j.failure().message}
	}
	return d
}
