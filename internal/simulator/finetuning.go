package simulator

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const tuningFamily = "fine_tuning.job"

// A tuningJob is a job of fine-tuning of the chat protocol.
type tuningJob struct {
	*training
	trainingFile, validationFile string
	seed                         int
	metadata                     map[string]any
	method                       map[string]any
	hyperparameters              map[string]any
	integrations                 []any
}

// serveTuningCreate answers POST /fine_tuning/jobs.
// https://platform.openai.com/docs/api-reference/fine-tuning/create
func serveTuningCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	j := &tuningJob{}
	j.readCreate(c, body)
	training := x.tuningFile(c, "training_file", j.trainingFile)
	if j.validationFile != "" {
		x.tuningFile(c, "validation_file", j.validationFile)
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j.training = x.newTraining("ftjob-sim", body["model"].(string), training.kept)
	j.least = minExamples
	j.suffix = c.text(body, "suffix", "")
	if n, ok := j.hyperparameters["n_epochs"].(float64); ok {
		j.epochs = int(n)
	}
	j.file = func(name string, content []byte) string {
		return j.sim.storeResult(&storedFile{purpose: "fine-tune-results", upload: madeUpload(name, content)})
	}
	x.sim.stored.add(tuningFamily, j.id, len(x.in)+len(j.content), j)
	x.sendCreated(http.StatusOK, j.describe())
}

// tuningFile returns a file for fine-tuning.
func (x *exchange) tuningFile(c *checker, name, id string) *storedFile {
	file := x.sim.files.find(x.protocol, id)
	switch {
	case c.wrong.kind != "":
	case file == nil:
		c.wrong = providerError{kind: invalidRequest, param: name, code: "invalid_file", message: "invalid " + name + ": " + id}
	case file.purpose != "fine-tune":
		c.wrong = providerError{kind: invalidRequest, param: name, code: "invalid_file_purpose",
			message: "File '" + id + "' has the purpose '" + file.purpose + "', must be 'fine-tune'."}
	}
	return file
}

func (j *tuningJob) readCreate(c *checker, m map[string]any) {
	c.checkMembers(m, "", "model", "training_file", "validation_file", "hyperparameters", "integrations", "metadata", "method",
		"seed", "suffix")
	c.filled(m, "model", "")
	j.trainingFile, j.validationFile = c.filled(m, "training_file", ""), c.text(m, "validation_file", "")
	c.short(m, "suffix", "", 64)
	j.seed = c.integer(m, "seed", "", 0)
	c.metadata(m)
	j.metadata = c.child(m, "metadata", "")
	j.integrations = c.list(m, "integrations", "")
	if len(j.integrations) > 5 {
		c.fail("integrations", "at most 5 integrations are supported")
	}
	for i, v := range j.integrations {
		path := nth("integrations", i)
		integration := c.object(v, path)
		c.checkMembers(integration, path, "type", "wandb")
		c.filled(integration, "type", path)
		c.word(integration, "type", path, "wandb")
		wandb := c.object(integration["wandb"], at(path, "wandb"))
		c.checkMembers(wandb, at(path, "wandb"), "project", "entity", "name", "tags")
		c.filled(wandb, "project", at(path, "wandb"))
	}
	j.readMethod(c, m)
}

// readMethod reads the method and its hyperparameters, which may also be outside
// of it.
func (j *tuningJob) readMethod(c *checker, m map[string]any) {
	supervised := []string{"batch_size", "learning_rate_multiplier", "n_epochs"}
	j.hyperparameters = c.child(m, "hyperparameters", "")
	c.hyperparameters(j.hyperparameters, "hyperparameters", supervised...)
	if j.method = c.child(m, "method", ""); j.method == nil {
		j.method = map[string]any{"type": "supervised"}
		if j.hyperparameters != nil {
			j.method["supervised"] = map[string]any{"hyperparameters": j.hyperparameters}
		}
		return
	}
	c.checkMembers(j.method, "method", "type", "supervised", "dpo", "reinforcement")
	kind := c.filled(j.method, "type", "method")
	c.word(j.method, "type", "method", "supervised", "dpo", "reinforcement")
	path := at("method", kind)
	chosen := c.child(j.method, kind, "method")
	names, members := supervised, []string{"hyperparameters"}
	switch kind {
	case "dpo":
		names = append(slices.Clone(supervised), "beta")
	case "reinforcement":
		names = append(slices.Clone(supervised), "compute_multiplier", "eval_interval", "eval_samples", "reasoning_effort")
		members = append(members, "grader")
		c.object(chosen["grader"], at(path, "grader"))
	}
	c.checkMembers(chosen, path, members...)
	parameters := c.child(chosen, "hyperparameters", path)
	c.hyperparameters(parameters, at(path, "hyperparameters"), names...)
	if parameters != nil {
		j.hyperparameters = parameters
	}
}

// hyperparameters checks that each is a positive number or auto.
func (c *checker) hyperparameters(m map[string]any, path string, names ...string) {
	c.checkMembers(m, path, names...)
	for _, name := range sortedNames(m) {
		n, ok := m[name].(float64)
		if m[name] != "auto" && name != "reasoning_effort" && (!ok || n <= 0) {
			c.fail(at(path, name), "Input should be 'auto' or a number greater than 0")
		}
	}
}

// status returns the state. The caller holds mu.
func (j *tuningJob) status() string {
	switch {
	case j.paused:
		return "paused"
	case j.phase == jobQueued && j.waits(time.Now()):
		return "queued"
	}
	return [jobPhaseCount]string{
		jobQueued: "validating_files", jobRunning: "running", jobWriting: "running", jobCanceling: "running",
		jobCompleted: "succeeded", jobFailed: "failed", jobCanceled: "cancelled", jobExpired: "failed",
	}[j.phase]
}

// describe returns the job object. The caller holds mu, or nobody else has j.
func (j *tuningJob) describe() any {
	parameters := object{"batch_size": "auto", "learning_rate_multiplier": "auto", "n_epochs": "auto"}
	maps.Copy(parameters, j.hyperparameters)
	d := object{
		"id": j.id, "object": "fine_tuning.job", "model": j.base, "created_at": j.unix(jobQueued), "finished_at": nil, "error": nil,
		"fine_tuned_model": j.model(), "hyperparameters": parameters, "organization_id": "org-sim", "result_files": []string{},
		"status": j.status(), "trained_tokens": nil, "training_file": j.trainingFile, "validation_file": orNull(j.validationFile),
		"estimated_finish": nil, "integrations": j.integrations, "seed": j.seed, "metadata": orNull(j.metadata), "method": j.method,
		"user_provided_suffix": orNull(j.suffix),
	}
	if j.phase.ended() {
		d["finished_at"] = j.last().Unix()
	}
	switch {
	case j.phase == jobCompleted:
		d["trained_tokens"], d["result_files"] = j.tokens, []string{j.results}
	case j.phase == jobCanceled && j.tokens > 0:
		d["trained_tokens"] = j.tokens
	case j.status() == "failed":
		e := j.failure()
		d["error"] = object{"code": e.code, "message": e.message, "param": orNull(e.param)}
	}
	return d
}

var tuningPages = pager{usual: 20, most: 100}

// serveTuningJobs answers GET /fine_tuning/jobs.
func serveTuningJobs(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("after", "limit", "metadata", "metadata[")
	if !ok {
		return
	}
	list := slices.DeleteFunc(listRecords[*tuningJob](&x.sim.stored, tuningFamily), func(j *tuningJob) bool { return !j.matches(query) })
	collection[*tuningJob]{tuningPages, list, func(j *tuningJob) string { return j.id }, func(j *tuningJob) any {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.describe()
	}}.send(x, query)
}

// matches reports whether a job has the metadata of a query.
func (j *tuningJob) matches(query url.Values) bool {
	if query.Get("metadata") == "null" && len(j.metadata) > 0 {
		return false
	}
	for name := range query {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && j.metadata[strings.TrimSuffix(key, "]")] != query.Get(name) {
			return false
		}
	}
	return true
}

// serveTuningJob answers the routes of one job.
func serveTuningJob(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/fine_tuning/jobs/")
	j, ok := findRecord[*tuningJob](&x.sim.stored, tuningFamily, parts[0])
	serve := map[string]func(*exchange, *tuningJob){
		"GET ": readTuningJob, "POST cancel": cancelTuningJob, "POST pause": pauseTuningJob, "POST resume": resumeTuningJob,
		"GET events": listTuningEvents, "GET checkpoints": listCheckpoints,
	}[x.r.Method+" "+strings.Join(parts[1:], "/")]
	if !ok || serve == nil {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, param: "fine_tuning_job_id", code: "fine_tuning_job_not_found",
			message: "Could not find fine tune: " + parts[0]})
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	serve(x, j)
}

func readTuningJob(x *exchange, j *tuningJob) {
	if _, ok := x.query(); ok {
		j.read(x.began)
		x.sendJSON(http.StatusOK, j.describe())
	}
}

// refuseStep sends the error for an operation that the state forbids.
func (j *tuningJob) refuseStep(x *exchange, operation string) {
	x.refuse(statusOf, providerError{kind: invalidRequest, message: "Cannot " + operation + " a job with the status '" + j.status() + "'."})
}

func cancelTuningJob(x *exchange, j *tuningJob) {
	if !j.cancel(x.began) {
		j.refuseStep(x, "cancel")
		return
	}
	if j.pace.mode != jobSlowCancels {
		j.next(x.began)
	}
	x.sendJSON(http.StatusOK, j.describe())
}

func pauseTuningJob(x *exchange, j *tuningJob) {
	if j.phase != jobRunning || j.paused {
		j.refuseStep(x, "pause")
		return
	}
	j.paused = true
	x.sendJSON(http.StatusOK, j.describe())
}

func resumeTuningJob(x *exchange, j *tuningJob) {
	if !j.paused {
		j.refuseStep(x, "resume")
		return
	}
	j.paused = false
	x.sendJSON(http.StatusOK, j.describe())
}

func listTuningEvents(x *exchange, j *tuningJob) {
	query, ok := x.query("after", "limit")
	if !ok {
		return
	}
	collection[trainingEvent]{tuningPages, j.events(), func(e trainingEvent) string { return e.id }, func(e trainingEvent) any {
		kind := "message"
		if e.data != nil {
			kind = "metrics"
		}
		return object{"object": "fine_tuning.job.event", "id": e.id, "created_at": e.at.Unix(), "level": e.level, "message": e.message,
			"type": kind, "data": e.data}
	}}.send(x, query)
}

func listCheckpoints(x *exchange, j *tuningJob) {
	query, ok := x.query("after", "limit")
	if !ok {
		return
	}
	var steps []int
	for step := trainingSteps; step > 0 && !j.at[jobWriting].IsZero(); step-- {
		steps = append(steps, step)
	}
	id := func(step int) string { return "ftckpt-sim" + strconv.FormatInt(j.number, 10) + "_" + itoa(step) }
	collection[int]{pager{usual: 10, most: 100}, steps, id, func(step int) any {
		name := j.modelName(":ckpt-step-" + itoa(step))
		if step == trainingSteps {
			name = j.modelName("")
		}
		return object{"object": "fine_tuning.job.checkpoint", "id": id(step), "created_at": j.unix(jobWriting),
			"fine_tuned_model_checkpoint": name, "fine_tuning_job_id": j.id, "step_number": step,
			"metrics": object{"step": step, "train_loss": lossOf(step - 1), "train_mean_token_accuracy": 1 - lossOf(step-1)}}
	}}.send(x, query)
}
