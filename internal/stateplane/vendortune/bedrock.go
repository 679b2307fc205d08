package vendortune

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strconv"
	"strings"

	"modelgate/internal/stateplane/vendorcall"
)

const bedrockPath = "/model-customization-jobs"

// bedrockVendor returns the API of model customization of Bedrock. The name of a job carries the
// id of the gateway.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelCustomizationJob.html
func bedrockVendor() *Vendor {
	return &Vendor{
		states: map[string]State{
			"InProgress": Running,
			"Completed":  Succeeded,
			"Failed":     Failed,
			"Stopping":   Cancelled,
			"Stopped":    Cancelled,
		},
		methods: []method{{supervised, under("hyperParameters",
			parameter{name: "n_epochs", field: "epochCount", form: textNumber},
			parameter{name: "batch_size", field: "batchSize", form: textNumber},
			parameter{name: "learning_rate_multiplier", field: "learningRateMultiplier", form: textNumber},
			parameter{name: "learning_rate", field: "learningRate", form: textNumber},
			parameter{name: "learning_rate_warmup_steps", field: "learningRateWarmupSteps", form: textNumber},
			parameter{name: "early_stopping_patience", field: "earlyStoppingPatience", form: textNumber},
			parameter{name: "early_stopping_threshold", field: "earlyStoppingThreshold", form: textNumber},
		)}},
		suffix: 63, noSeed: true,
		create: bedrockCreate, get: bedrockGet, list: bedrockList, cancel: bedrockCancel, find: bedrockFind,
	}
}

// bedrockJob is a job of Bedrock. Summaries in lists name the model differently.
type bedrockJob struct {
	JobARN          string `json:"jobArn"`
	JobName         string `json:"jobName"`
	Status          string `json:"status"`
	FailureMessage  string `json:"failureMessage"`
	CreationTime    moment `json:"creationTime"`
	EndTime         moment `json:"endTime"`
	BaseModelARN    string `json:"baseModelArn"`
	OutputModelARN  string `json:"outputModelArn"`
	CustomModelARN  string `json:"customModelArn"`
	OutputModelName string `json:"outputModelName"`
	CustomModelName string `json:"customModelName"`
	Training        struct {
		S3URI string `json:"s3Uri"`
	} `json:"trainingDataConfig"`
	Validation struct {
		Validators []struct {
			S3URI string `json:"s3Uri"`
		} `json:"validators"`
	} `json:"validationDataConfig"`
}

func bedrockCreate(ctx context.Context, s *session, in *Input) (*Job, error) {
	o, err := s.bedrockBody(in)
	if err != nil {
		return nil, err
	}
	var made struct {
		JobARN string `json:"jobArn"`
	}
	if err := s.callBedrock(ctx, "POST", bedrockPath, o, &made); err != nil {
		return nil, err
	}
	if made.JobARN == "" {
		return nil, s.decodeError()
	}
	if job, err := bedrockGet(ctx, s, made.JobARN); err == nil {
		return job, nil
	}
	// The job exists, so a failed read is not an error. Bedrock begins by validating.
	job := &Job{ID: made.JobARN, Status: Running, ProviderStatus: "InProgress"}
	job.normalise()
	return job, nil
}

// bedrockBody returns the body of a new job. Results go to the folder of the training file
// unless output_data_config names another.
func (s *session) bedrockBody(in *Input) (object, error) {
	role := cmp.Or(in.Options["role_arn"], s.options["role_arn"])
	if role == "" {
		return nil, refuse("role_arn", "provider %q needs role_arn: send the ARN of the role that reads the files", s.id)
	}
	training, err := s.storageURI(in.TrainingFile, "training_file", "s3://")
	if err != nil {
		return nil, err
	}
	folder := training[:strings.LastIndexByte(training, '/')+1]
	o := object{"customizationType": "FINE_TUNING", "baseModelIdentifier": in.Model, "roleArn": role}
	name := strings.Trim(in.Options["job_name"]+"-"+resourceName(in.OwnID), "-")
	o.setText("jobName", name)
	o.setText("clientRequestToken", resourceName(in.OwnID))
	o.setText("customModelName", cmp.Or(in.Suffix, name))
	o.set("trainingDataConfig.s3Uri", training)
	o.set("outputDataConfig.s3Uri", cmp.Or(in.Options["output_data_config"], folder))
	if in.ValidationFile != "" {
		validation, err := s.storageURI(in.ValidationFile, "validation_file", "s3://")
		if err != nil {
			return nil, err
		}
		o.set("validationDataConfig.validators", []object{{"s3Uri": validation}})
	}
	s.setParameters(o, in)
	return o, nil
}

// storageURI returns the address of a file in the provider's storage. Ids of such files are
// their addresses, escaped or not.
func (s *session) storageURI(id, param, scheme string) (string, error) {
	uri := id
	if decoded, err := url.PathUnescape(id); err == nil && !strings.HasPrefix(id, scheme) {
		uri = decoded
	}
	if bucket, key, _ := strings.Cut(strings.TrimPrefix(uri, scheme), "/"); !strings.HasPrefix(uri, scheme) || bucket == "" || key == "" {
		return "", refuse(param, "%s must be a file of provider %q: %sBUCKET/KEY", param, s.id, scheme)
	}
	return uri, nil
}

// resourceName returns an id as vendors allow it in names: lower-case letters, digits and
// hyphens.
func resourceName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(id))
	return strings.Trim(name[:min(len(name), 60)], "-")
}

func (s *session) callBedrock(ctx context.Context, method, path string, in, out any) error {
	path, query, _ := strings.Cut(path, "?")
	r := &vendorcall.Request{Service: vendorcall.ServiceBedrock, Method: method, Path: path, Query: query}
	return s.client.JSON(ctx, r, in, out)
}

func bedrockGet(ctx context.Context, s *session, id string) (*Job, error) {
	var raw json.RawMessage
	if err := s.callBedrock(ctx, "GET", bedrockPath+"/"+url.PathEscape(id), nil, &raw); err != nil {
		return nil, err
	}
	_, job, err := s.decodeBedrock(raw)
	return job, err
}

func (s *session) decodeBedrock(raw json.RawMessage) (*bedrockJob, *Job, error) {
	var b bedrockJob
	if json.Unmarshal(raw, &b) != nil || b.JobARN == "" {
		return nil, nil, s.decodeError()
	}
	job := &Job{
		ID: b.JobARN, CreatedAt: int64(b.CreationTime), FinishedAt: b.EndTime.optional(), ProviderStatus: b.Status,
		Model: path.Base(b.BaseModelARN), TrainingFile: b.Training.S3URI, Hyperparameters: s.parameters(supervised, raw),
		FineTunedModel: optional(cmp.Or(b.OutputModelARN, b.CustomModelARN, b.OutputModelName, b.CustomModelName)),
	}
	if len(b.Validation.Validators) > 0 {
		job.ValidationFile = optional(b.Validation.Validators[0].S3URI)
	}
	if b.FailureMessage != "" {
		job.Error = &JobError{Message: b.FailureMessage}
	}
	job.Status, job.UnknownStatus = s.state(b.Status)
	job.normalise()
	return &b, job, nil
}

func bedrockList(ctx context.Context, s *session, p Page) (*Jobs, error) {
	q := url.Values{"maxResults": {strconv.Itoa(p.limit(1000))}, "sortBy": {"CreationTime"}, "sortOrder": {"Descending"}}
	if p.After != "" {
		q.Set("nextToken", p.After)
	}
	jobs, _, err := s.bedrockPage(ctx, q)
	return jobs, err
}

// bedrockPage returns jobs, and their names.
func (s *session) bedrockPage(ctx context.Context, q url.Values) (*Jobs, []string, error) {
	var page struct {
		Summaries []json.RawMessage `json:"modelCustomizationJobSummaries"`
		NextToken string            `json:"nextToken"`
	}
	if err := s.callBedrock(ctx, "GET", bedrockPath+"?"+q.Encode(), nil, &page); err != nil {
		return nil, nil, err
	}
	jobs := &Jobs{Next: page.NextToken}
	var names []string
	for _, raw := range page.Summaries {
		b, job, err := s.decodeBedrock(raw)
		if err != nil {
			return nil, nil, err
		}
		jobs.Data, names = append(jobs.Data, job), append(names, b.JobName)
	}
	return jobs, names, nil
}

func bedrockFind(ctx context.Context, s *session, ownID string) (*Job, error) {
	name := resourceName(ownID)
	jobs, names, err := s.bedrockPage(ctx, url.Values{"nameContains": {name}})
	if err != nil {
		return nil, err
	}
	for i := range names {
		if names[i] == name || strings.HasSuffix(names[i], "-"+name) {
			return bedrockGet(ctx, s, jobs.Data[i].ID)
		}
	}
	return nil, nil
}

func bedrockCancel(ctx context.Context, s *session, id string) error {
	return s.callBedrock(ctx, "POST", bedrockPath+"/"+url.PathEscape(id)+"/stop", nil, nil)
}
