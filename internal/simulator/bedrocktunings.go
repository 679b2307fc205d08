package simulator

import (
	"net/http"
	"strconv"
	"strings"
)

const customizationFamily = "bedrock.customization"

// A customizationJob is a job of fine-tuning of Bedrock.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelCustomizationJob.html
type customizationJob struct {
	*training
	request map[string]any
}

var customizationStates = [jobPhaseCount]string{
	jobQueued: "InProgress", jobRunning: "InProgress", jobWriting: "InProgress", jobCanceling: "Stopping", jobCompleted: "Completed",
	jobFailed: "Failed", jobCanceled: "Stopped", jobExpired: "Failed",
}

// serveCustomizationCreate answers POST /model-customization-jobs.
func serveCustomizationCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "jobName", "customModelName", "roleArn", "baseModelIdentifier", "trainingDataConfig", "validationDataConfig",
		"outputDataConfig", "hyperParameters", "customizationType", "customizationConfig", "clientRequestToken", "customModelKmsKeyId",
		"customModelTags", "jobTags", "vpcConfig")
	c.matches(c.filled(body, "jobName", ""), "jobName", jobName)
	c.filled(body, "customModelName", "")
	c.matches(c.filled(body, "roleArn", ""), "roleArn", roleName)
	model := c.filled(body, "baseModelIdentifier", "")
	c.word(body, "customizationType", "", "FINE_TUNING", "CONTINUED_PRE_TRAINING", "DISTILLATION", "REINFORCEMENT_FINE_TUNING", "IMPORTED")
	training := c.object(body["trainingDataConfig"], "trainingDataConfig")
	c.checkMembers(training, "trainingDataConfig", "s3Uri", "invocationLogsConfig")
	input := c.s3URI(training, "s3Uri", "trainingDataConfig")
	output := c.object(body["outputDataConfig"], "outputDataConfig")
	c.checkMembers(output, "outputDataConfig", "s3Uri")
	folder := c.s3URI(output, "s3Uri", "outputDataConfig")
	validation := c.child(body, "validationDataConfig", "")
	c.checkMembers(validation, "validationDataConfig", "validators")
	for i, v := range c.list(validation, "validators", "validationDataConfig") {
		where := nth("validationDataConfig.validators", i)
		c.s3URI(c.object(v, where), "s3Uri", where)
	}
	parameters := c.child(body, "hyperParameters", "")
	for _, name := range sortedNames(parameters) {
		c.text(parameters, name, "hyperParameters")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	j := &customizationJob{request: body}
	file, _ := x.sim.findObject(s3Family, input)
	var content []byte
	if file != nil {
		content = file.content
	}
	j.training = x.newTraining("sim", model, content)
	if n, err := strconv.Atoi(c.text(parameters, "epochCount", "")); err == nil {
		j.epochs = n
	}
	j.file = func(name string, content []byte) string {
		o := &bucketObject{name: strings.TrimSuffix(folder, "/") + "/model-customization-job-" + j.id + "/training_artifacts/" + name,
			content: content}
		j.sim.putObject(s3Family, o)
		return "s3://" + o.name
	}
	x.sim.stored.add(customizationFamily, j.id, len(x.in)+len(content), j)
	x.sendCreated(http.StatusCreated, object{"jobArn": j.arn()})
}

func (j *customizationJob) arn() string {
	return arnPrefix + "model-customization-job/" + j.base + "/" + j.id
}

// describe returns the job. The caller holds mu.
func (j *customizationJob) describe() object {
	model, _ := j.request["customModelName"].(string)
	d := object{"jobArn": j.arn(), "status": customizationStates[j.phase], "outputModelName": model, "creationTime": j.stamp(jobQueued),
		"lastModifiedTime": stampOf(j.at[j.phase]), "baseModelArn": "arn:aws:bedrock:us-east-1::foundation-model/" + j.base}
	for _, name := range []string{"jobName", "roleArn", "clientRequestToken", "hyperParameters", "trainingDataConfig",
		"validationDataConfig",
		"outputDataConfig", "customizationType", "vpcConfig"} {
		if v, ok := j.request[name]; ok {
			d[name] = v
		}
	}
	if j.phase.ended() {
		d["endTime"] = stampOf(j.last())
	}
	switch j.phase {
	case jobCompleted:
		d["outputModelArn"] = arnPrefix + "custom-model/" + j.base + "/" + j.id
		d["trainingMetrics"] = object{"trainingLoss": lossOf(trainingSteps - 1)}
	case jobFailed, jobExpired:
		d["failureMessage"] = j.failure().message
	}
	return d
}

// serveCustomizationJob answers GET /model-customization-jobs/{id} and POST of
// its stop.
func serveCustomizationJob(x *exchange) {
	serveBedrockJob(x, customizationFamily, &customizationStates)
}

// serveCustomizationJobs answers GET /model-customization-jobs.
func serveCustomizationJobs(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("statusEquals", "maxResults", "nextToken", "nameContains", "sortBy", "sortOrder", "creationTimeAfter",
		"creationTimeBefore")
	if !ok {
		return
	}
	list := listRecords[*customizationJob](&x.sim.stored, customizationFamily)
	sendBedrockPage(x, query, "modelCustomizationJobSummaries", collection[*customizationJob]{bedrockPages, list,
		func(j *customizationJob) string { return j.id },
		func(j *customizationJob) any {
			j.mu.Lock()
			defer j.mu.Unlock()
			d := j.describe()
			d["customModelName"] = d["outputModelName"]
			return d
		}})
}
