package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	invocationFamily = "bedrock.invocation"
	// minRecords is the least number of records in a job.
	// https://docs.aws.amazon.com/bedrock/latest/userguide/quotas.html
	minRecords = 100
	arnPrefix  = "arn:aws:bedrock:us-east-1:123456789012:"
)

var (
	jobName  = regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9+.]){0,62}$`)
	roleName = regexp.MustCompile(`^arn:aws(-[^:]+)?:iam::[0-9]{12}:role/.+$`)
)

// An invocationJob is a batch of Bedrock: a job that invokes a model for every
// line of objects in a bucket.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelInvocationJob.html
type invocationJob struct {
	*job
	itemRun
	request       map[string]any
	input, output string // without the scheme
	converse      bool
	half, odd     bool
	message       string
	names         []string // of input objects, by item
}

var invocationStates = [jobPhaseCount]string{
	jobQueued: "Validating", jobRunning: "InProgress", jobWriting: "InProgress", jobCanceling: "Stopping", jobCompleted: "Completed",
	jobFailed: "Failed", jobCanceled: "Stopped", jobExpired: "PartiallyCompleted",
}

// serveInvocationCreate answers POST /model-invocation-job.
func serveInvocationCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "jobName", "roleArn", "modelId", "inputDataConfig", "outputDataConfig", "clientRequestToken",
		"timeoutDurationInHours", "vpcConfig", "tags", "modelInvocationType")
	c.matches(c.filled(body, "jobName", ""), "jobName", jobName)
	c.matches(c.filled(body, "roleArn", ""), "roleArn", roleName)
	model := c.filled(body, "modelId", "")
	c.word(body, "modelInvocationType", "", "InvokeModel", "Converse")
	if hours := c.integer(body, "timeoutDurationInHours", "", 24); hours > 168 {
		c.fail("timeoutDurationInHours", "must be at most 168")
	}
	j := &invocationJob{request: body, converse: body["modelInvocationType"] == "Converse"}
	j.input = c.bucketURI(body, "inputDataConfig", "s3InputDataConfig", "s3InputFormat", "s3BucketOwner")
	j.output = c.bucketURI(body, "outputDataConfig", "s3OutputDataConfig", "s3EncryptionKeyId", "s3BucketOwner")
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j.itemRun = itemRun{sim: x.sim, family: invocationFamily, id: "sim" + strconv.FormatInt(x.number, 10),
		header: http.Header{"Content-Type": typeJSON}}
	j.job = newJob(x.jobPaceOf(model), j, x.began)
	j.half, j.odd = x.plan.halfContent, x.plan.oddResults
	x.sim.stored.add(invocationFamily, j.itemRun.id, 2*len(x.in), j)
	x.sendCreated(http.StatusOK, object{"jobArn": j.arn()})
}

// bucketURI returns the address of an object below two members, without the
// scheme.
func (c *checker) bucketURI(m map[string]any, outer, inner string, names ...string) string {
	config := c.object(m[outer], outer)
	c.checkMembers(config, outer, inner)
	place := c.object(config[inner], at(outer, inner))
	c.checkMembers(place, at(outer, inner), append(names, "s3Uri")...)
	return c.s3URI(place, "s3Uri", at(outer, inner))
}

// s3URI returns a required address of S3, without the scheme.
func (c *checker) s3URI(m map[string]any, name, path string) string {
	uri, ok := strings.CutPrefix(c.filled(m, name, path), "s3://")
	if !ok {
		c.fail(at(path, name), "Member must satisfy regular expression pattern: s3://.+")
	}
	return uri
}

func (j *invocationJob) arn() string { return arnPrefix + "model-invocation-job/" + j.itemRun.id }

// check reads the input, which is one object or all objects in a folder.
func (j *invocationJob) check() bool {
	list := j.sim.objectsBelow(s3Family, j.input)
	if !strings.HasSuffix(j.input, "/") {
		list = slices.DeleteFunc(list, func(o *bucketObject) bool { return o.name != j.input })
	}
	operation := "/invoke"
	if j.converse {
		operation = "/converse"
	}
	model, _ := j.request["modelId"].(string)
	address := "/model/" + url.PathEscape(model) + operation
	for _, o := range list {
		for number, line := range eachLine(o.content) {
			var record struct {
				RecordID   string          `json:"recordId"`
				ModelInput json.RawMessage `json:"modelInput"`
			}
			if json.Unmarshal(line, &record) != nil || len(record.ModelInput) == 0 {
				j.message = "The input file " + path.Base(o.name) + " has a malformed record at line " + itoa(number) + "."
				return false
			}
			j.items = append(j.items, &batchItem{key: valueOr(record.RecordID, "rec"+itoa(number)), path: address, body: record.ModelInput})
			j.names = append(j.names, o.name)
		}
	}
	if len(list) == 0 {
		j.message = "The input s3://" + j.input + " does not exist or cannot be read by the role."
	} else if len(j.items) < minRecords {
		j.message = "The number of records, " + itoa(len(j.items)) + ", is less than the required minimum of " + itoa(minRecords) + "."
	}
	return j.message == ""
}

// produce writes an object for every object of the input, and a manifest.
func (j *invocationJob) produce(end jobPhase, began bool) {
	if !began {
		return
	}
	j.itemRun.produce(end, began)
	folder := strings.TrimSuffix(j.output, "/") + "/" + j.itemRun.id + "/"
	outputs := map[string][]byte{}
	for i, item := range slices.Backward(j.items) {
		if item.got == nil {
			continue
		}
		record := object{"recordId": item.key, "modelInput": json.RawMessage(item.body)}
		if item.end == jobCompleted {
			record["modelOutput"] = json.RawMessage(item.got.body)
		} else {
			record["error"] = item.invocationError()
		}
		raw, _ := json.Marshal(record) // its parts are valid JSON
		outputs[j.names[i]] = append(append(outputs[j.names[i]], raw...), '\n')
	}
	for name, content := range outputs {
		if j.odd {
			content = oddLines(content)
		}
		j.sim.putObject(s3Family, &bucketObject{name: folder + path.Base(name) + ".out", content: content, half: j.half})
	}
	counts, used := j.count(), j.bedrockUsage()
	raw, _ := json.Marshal(object{"totalRecordCount": len(j.items), "processedRecordCount": counts[jobCompleted] + counts[jobFailed],
		"successRecordCount": counts[jobCompleted], "errorRecordCount": counts[jobFailed], "inputTokenCount": used.input,
		"outputTokenCount": used.output}) // numbers
	j.sim.putObject(s3Family, &bucketObject{name: folder + "manifest.json.out", content: raw})
}

// bedrockUsage returns the sum of the usage of all records.
func (j *invocationJob) bedrockUsage() tokenUsage {
	used := j.usageOf()
	for _, item := range j.items {
		var got struct {
			Usage struct{ InputTokens, OutputTokens int }
		}
		if j.converse && item.end == jobCompleted && json.Unmarshal(item.got.body, &got) == nil {
			used.input += got.Usage.InputTokens
			used.output += got.Usage.OutputTokens
		}
	}
	return used
}

// invocationError returns the error of a record.
func (item *batchItem) invocationError() any {
	var got struct{ Message string }
	if item.got.status == 0 || json.Unmarshal(item.got.body, &got) != nil {
		return object{"errorCode": http.StatusInternalServerError, "errorMessage": "Internal server error"}
	}
	return object{"errorCode": item.got.status, "errorMessage": got.Message}
}

// describe returns the job. The caller holds mu.
func (j *invocationJob) describe() object {
	d := object{"jobArn": j.arn(), "status": invocationStates[j.phase], "submitTime": j.stamp(jobQueued),
		"lastModifiedTime":  stampOf(j.at[j.phase]),
		"jobExpirationTime": stampOf(j.at[jobQueued].Add(batchLifetime))}
	for _, name := range []string{"jobName", "modelId", "roleArn", "inputDataConfig", "outputDataConfig", "clientRequestToken", "vpcConfig",
		"timeoutDurationInHours", "modelInvocationType"} {
		if v, ok := j.request[name]; ok {
			d[name] = v
		}
	}
	if j.reads == 0 && j.phase == jobQueued {
		d["status"] = "Submitted"
	}
	if j.phase.ended() {
		d["endTime"] = stampOf(j.last())
	}
	if j.phase == jobFailed {
		d["message"] = valueOr(j.message, "The job failed due to an internal error.")
	}
	return d
}

// serveInvocationJob answers GET /model-invocation-job/{id} and POST of its stop.
func serveInvocationJob(x *exchange) { serveBedrockJob(x, invocationFamily, &invocationStates) }

// A bedrockJob is a job of Bedrock of any kind.
type bedrockJob interface {
	control() *job
	describe() object
}

func (j *invocationJob) control() *job    { return j.job }
func (j *customizationJob) control() *job { return j.job }

// serveBedrockJob answers GET of a job and POST of its stop.
func serveBedrockJob(x *exchange, family string, states *[jobPhaseCount]string) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	id, stops := bedrockID(x)
	v, ok := findRecord[bedrockJob](&x.sim.stored, family, id)
	if !ok || stops != (x.r.Method == http.MethodPost) {
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Could not find a job with the identifier " + id + "."})
		return
	}
	j := v.control()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case !stops:
		j.read(x.began)
		x.sendJSON(http.StatusOK, v.describe())
	case !j.cancel(x.began):
		x.protocol = &bedrockConflict
		x.refuse(http.StatusConflict, providerError{kind: invalidRequest, message: "The job is " + states[j.phase] + " and cannot be stopped."})
	default:
		x.sendJSON(http.StatusOK, object{})
	}
}

// bedrockConflict is the protocol of errors of conflicts.
var bedrockConflict = protocol{name: "converse", index: converseIndex, fail: failBedrock, kinds: map[int]string{
	http.StatusBadRequest: "ConflictException", http.StatusInternalServerError: "InternalServerException",
}}

// bedrockID returns the id of a job, which may be a complete ARN, and whether
// the path ends in /stop.
func bedrockID(x *exchange) (id string, stops bool) {
	id, stops = strings.CutSuffix(x.r.URL.Path, "/stop")
	return id[strings.LastIndexByte(id, '/')+1:], stops
}

// serveInvocationJobs answers GET /model-invocation-jobs.
func serveInvocationJobs(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("statusEquals", "maxResults", "nextToken", "nameContains", "sortBy", "sortOrder", "submitTimeAfter",
		"submitTimeBefore")
	if !ok {
		return
	}
	list := slices.DeleteFunc(listRecords[*invocationJob](&x.sim.stored, invocationFamily), func(j *invocationJob) bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		name, _ := j.request["jobName"].(string)
		status := query.Get("statusEquals")
		return !strings.Contains(name, query.Get("nameContains")) || status != "" && status != j.describe()["status"]
	})
	sendBedrockPage(x, query, "invocationJobSummaries", collection[*invocationJob]{bedrockPages, list,
		func(j *invocationJob) string { return j.itemRun.id },
		func(j *invocationJob) any {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.describe()
		}})
}

// bedrockPages are the pages of all lists.
var bedrockPages = pager{usual: 100, most: 1000}

// sendBedrockPage sends a page in Bedrock's shape.
func sendBedrockPage[T any](x *exchange, query url.Values, name string, c collection[T]) {
	data, more, ends, ok := c.page(x, url.Values{"limit": query["maxResults"], "after": query["nextToken"]})
	if !ok {
		return
	}
	d := object{name: data}
	if more {
		d["nextToken"] = ends[1]
	}
	x.sendJSON(http.StatusOK, d)
}
