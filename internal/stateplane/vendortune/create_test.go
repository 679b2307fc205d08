package vendortune_test

import (
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
)

// creations are bodies in the unified shape, what each vendor gets, and what it responds.
var creations = []struct {
	name, provider string
	body           string
	request, sent  string            // of the first call
	script         map[string]string // the responses
	want           string            // the job
}{
	{
		name: "openai", provider: "openai",
		body: `{"model":"gpt-4o-mini","training_file":"file-1","validation_file":"file-2","suffix":"mine","seed":7,"metadata":{"team":"a"},
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1}}},"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["x"]}}],"new":1}`,
		request: "POST /fine_tuning/jobs",
		sent: `{"model":"gpt-4o-mini","training_file":"file-1","validation_file":"file-2","suffix":"mine","seed":7,
			"metadata":{"team":"a","gateway_job_id":"ftjob_Own1"},
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1}}},"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["x"]}}],"new":1}`,
		script: map[string]string{"POST /fine_tuning/jobs": `{"object":"fine_tuning.job","id":"ftjob-1","model":"gpt-4o-mini-2024-07-18","created_at":1721764800,
			"fine_tuned_model":null,"organization_id":"org-1","result_files":[],"status":"validating_files","validation_file":"file-2",
			"training_file":"file-1","seed":7,"error":{"code":"","message":"","param":null},"user_provided_suffix":"mine","trained_tokens":null,
			"hyperparameters":{"n_epochs":"auto"},"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1}}},
			"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["x"]}}],"metadata":{"team":"a","gateway_job_id":"ftjob_Own1"},
			"finished_at":null,"estimated_finish":null}`},
		want: `{"object":"fine_tuning.job","id":"ftjob-1","model":"gpt-4o-mini","created_at":1721764800,"fine_tuned_model":null,
			"organization_id":"org-1","result_files":[],"status":"validating_files","validation_file":"file-2","training_file":"file-1","seed":7,
			"error":null,"user_provided_suffix":"mine","trained_tokens":null,"hyperparameters":{"n_epochs":"auto","beta":0.1},
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.1}}},"integrations":[{"type":"wandb","wandb":{"project":"p","tags":["x"]}}],
			"metadata":{"team":"a"},"finished_at":null,"estimated_finish":null,"provider_status":"validating_files"}`,
	},
	{
		name: "azure", provider: "azure-openai",
		body:    `{"model":"gpt-4o-mini","training_file":"file-1"}`,
		request: "POST /fine_tuning/jobs",
		sent:    `{"model":"gpt-4o-mini","training_file":"file-1","metadata":{"gateway_job_id":"ftjob_Own1"}}`,
		script: map[string]string{"POST /fine_tuning/jobs": `{"id":"ftjob-2","object":"fine_tuning.job","status":"pending","created_at":1700000000,
			"model":"gpt-4o-mini","training_file":"file-1","hyperparameters":{"n_epochs":-1}}`},
		want: `{"object":"fine_tuning.job","id":"ftjob-2","model":"gpt-4o-mini","created_at":1700000000,"fine_tuned_model":null,"organization_id":"",
			"result_files":[],"status":"queued","validation_file":null,"training_file":"file-1","seed":0,"error":null,"trained_tokens":null,
			"hyperparameters":{"n_epochs":-1},"integrations":null,"metadata":null,"finished_at":null,"estimated_finish":null,"provider_status":"pending"}`,
	},
	{
		name: "bedrock", provider: "bedrock",
		body: `{"model":"amazon.nova-micro-v1:0:128k","training_file":"s3%3A%2F%2Fbucket%2Ftrain%2Fa.jsonl","validation_file":"s3://bucket/v.jsonl",
			"suffix":"mine","hyperparameters":{"n_epochs":3,"batch_size":"auto"},"role_arn":"arn:aws:iam::1:role/r","job_name":"night"}`,
		request: "POST bedrock/model-customization-jobs",
		sent: `{"customizationType":"FINE_TUNING","baseModelIdentifier":"amazon.nova-micro-v1:0:128k","roleArn":"arn:aws:iam::1:role/r",
			"jobName":"night-ftjob-own1","clientRequestToken":"ftjob-own1","customModelName":"mine","trainingDataConfig":{"s3Uri":"s3://bucket/train/a.jsonl"},
			"validationDataConfig":{"validators":[{"s3Uri":"s3://bucket/v.jsonl"}]},"outputDataConfig":{"s3Uri":"s3://bucket/train/"},
			"hyperParameters":{"epochCount":"3"}}`,
		script: map[string]string{
			"POST bedrock/model-customization-jobs": `201 {"jobArn":"arn:aws:bedrock:us-east-1:1:model-customization-job/m/abc"}`,
			"GET bedrock/model-customization-jobs/arn:aws:bedrock:us-east-1:1:model-customization-job%2Fm%2Fabc": `{
				"jobArn":"arn:aws:bedrock:us-east-1:1:model-customization-job/m/abc","jobName":"night-ftjob-own1","outputModelName":"mine","status":"InProgress",
				"creationTime":"2026-11-01T10:00:00.123Z","baseModelArn":"arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-micro-v1:0:128k",
				"hyperParameters":{"epochCount":"3","batchSize":"8"},"trainingDataConfig":{"s3Uri":"s3://bucket/train/a.jsonl"},
				"validationDataConfig":{"validators":[{"s3Uri":"s3://bucket/v.jsonl"}]},"outputDataConfig":{"s3Uri":"s3://bucket/train/"}}`,
		},
		want: `{"object":"fine_tuning.job","id":"arn:aws:bedrock:us-east-1:1:model-customization-job/m/abc","model":"amazon.nova-micro-v1:0:128k",
			"created_at":1793527200,"fine_tuned_model":null,"organization_id":"","result_files":[],"status":"running","validation_file":"s3://bucket/v.jsonl",
			"training_file":"s3%3A%2F%2Fbucket%2Ftrain%2Fa.jsonl","seed":0,"error":null,"trained_tokens":null,"hyperparameters":{"n_epochs":3,"batch_size":8},
			"integrations":null,"metadata":null,"finished_at":null,"estimated_finish":null,"provider_status":"InProgress"}`,
	},
	{
		name: "vertex", provider: "vertex-ai",
		body: `{"model":"gemini-3-flash","training_file":"gs://b/t.jsonl","suffix":"mine",
			"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":4,"adapter_size":4,"learning_rate_multiplier":0.5}}}}`,
		request: "POST /v1/projects/p1/locations/europe-west4/tuningJobs",
		sent: `{"baseModel":"gemini-3-flash","tunedModelDisplayName":"mine","labels":{"gateway_job_id":"ftjob-own1"},
			"supervisedTuningSpec":{"trainingDatasetUri":"gs://b/t.jsonl","hyperParameters":{"epochCount":4,"adapterSize":"ADAPTER_SIZE_FOUR","learningRateMultiplier":0.5}}}`,
		script: map[string]string{"POST /v1/projects/p1/locations/europe-west4/tuningJobs": `{"name":"projects/1/locations/europe-west4/tuningJobs/77",
			"state":"JOB_STATE_PENDING","createTime":"2026-11-01T10:00:00Z","baseModel":"gemini-3-flash","labels":{"gateway_job_id":"ftjob-own1"},
			"supervisedTuningSpec":{"trainingDatasetUri":"gs://b/t.jsonl","hyperParameters":{"epochCount":"4","adapterSize":"ADAPTER_SIZE_FOUR","learningRateMultiplier":0.5}}}`},
		want: `{"object":"fine_tuning.job","id":"77","model":"gemini-3-flash","created_at":1793527200,"fine_tuned_model":null,"organization_id":"",
			"result_files":[],"status":"queued","validation_file":null,"training_file":"gs://b/t.jsonl","seed":0,"error":null,"trained_tokens":null,
			"hyperparameters":{"n_epochs":4,"adapter_size":4,"learning_rate_multiplier":0.5},"integrations":null,"metadata":null,"finished_at":null,
			"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":4,"adapter_size":4,"learning_rate_multiplier":0.5}}},
			"estimated_finish":null,"provider_status":"JOB_STATE_PENDING"}`,
	},
	{
		name: "fireworks dpo", provider: "fireworks-ai",
		body: `{"model":"llama-v3p1-8b-instruct","training_file":"data1","suffix":"My Model","method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.2,"n_epochs":2}}},
			"integrations":[{"type":"wandb","wandb":{"project":"p","entity":"e","api_key":"wandb-key"}}]}`,
		request: "POST host/v1/accounts/acme/dpoJobs?dpoJobId=ftjob-own1",
		sent: `{"dataset":"accounts/acme/datasets/data1","displayName":"My Model","lossConfig":{"method":"DPO","dpo":{"beta":0.2}},
			"trainingConfig":{"baseModel":"accounts/fireworks/models/llama-v3p1-8b-instruct","outputModel":"accounts/acme/models/my-model","epochs":2},
			"wandbConfig":{"enabled":true,"project":"p","entity":"e","apiKey":"wandb-key"}}`,
		script: map[string]string{"POST host/v1/accounts/acme/dpoJobs": `{"name":"accounts/acme/dpoJobs/ftjob-own1","state":"JOB_STATE_VALIDATING",
			"createTime":"2026-11-01T10:00:00Z","dataset":"accounts/acme/datasets/data1","trainingConfig":{"baseModel":"x","epochs":2},"lossConfig":{"dpo":{"beta":0.2}}}`},
		want: `{"object":"fine_tuning.job","id":"dpoJobs/ftjob-own1","model":"llama-v3p1-8b-instruct","created_at":1793527200,"fine_tuned_model":null,
			"organization_id":"","result_files":[],"status":"validating_files","validation_file":null,"training_file":"data1","seed":0,"error":null,
			"trained_tokens":null,"hyperparameters":{"n_epochs":2,"beta":0.2},"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.2,"n_epochs":2}}},
			"integrations":[{"type":"wandb","wandb":{"project":"p","entity":"e"}}],"metadata":null,"finished_at":null,"estimated_finish":null,
			"provider_status":"JOB_STATE_VALIDATING"}`,
	},
	{
		name: "fireworks", provider: "fireworks-ai",
		body:    `{"model":"accounts/other/models/m","training_file":"data1","validation_file":"data2","metadata":{"a":"b"}}`,
		request: "POST host/v1/accounts/acme/supervisedFineTuningJobs?supervisedFineTuningJobId=ftjob-own1",
		sent:    `{"dataset":"accounts/acme/datasets/data1","evaluationDataset":"accounts/acme/datasets/data2","baseModel":"accounts/other/models/m"}`,
		script: map[string]string{"POST host/v1/accounts/acme/supervisedFineTuningJobs": `{"name":"accounts/acme/supervisedFineTuningJobs/ftjob-own1",
			"state":"JOB_STATE_COMPLETED","createTime":"2026-11-01T10:00:00Z","completedTime":"2026-11-01T11:00:00Z","outputModel":"accounts/acme/models/out","epochs":1}`},
		want: `{"object":"fine_tuning.job","id":"ftjob-own1","model":"accounts/other/models/m","created_at":1793527200,"fine_tuned_model":"accounts/acme/models/out",
			"organization_id":"","result_files":[],"status":"succeeded","validation_file":"data2","training_file":"data1","seed":0,"error":null,
			"trained_tokens":null,"hyperparameters":{"n_epochs":1},"integrations":null,"metadata":{"a":"b"},"finished_at":1793530800,"estimated_finish":null,
			"provider_status":"JOB_STATE_COMPLETED"}`,
	},
	{
		name: "together", provider: "together-ai",
		body: `{"model":"meta-llama/L","training_file":"file-1","suffix":"mine","seed":42,
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.2,"n_epochs":2,"batch_size":"auto","learning_rate":0.00001}}},
			"integrations":[{"type":"wandb","wandb":{"project":"p","name":"n","entity":"e","api_key":"wandb-key"}}]}`,
		request: "POST /fine-tunes",
		sent: `{"model":"meta-llama/L","training_file":"file-1","suffix":"mine","random_seed":42,"n_epochs":2,"learning_rate":0.00001,
			"training_method":{"method":"dpo","dpo_beta":0.2},"wandb_project_name":"p","wandb_name":"n","wandb_entity":"e","wandb_api_key":"wandb-key"}`,
		script: map[string]string{"POST /fine-tunes": `{"id":"ft-1","status":"pending","created_at":"2026-11-01T10:00:00.5Z","updated_at":"2026-11-01T10:00:00Z",
			"user_id":"u1","model":"meta-llama/L","n_epochs":2,"batch_size":"max","learning_rate":0.00001,"training_file":"file-1","validation_file":"",
			"training_method":{"method":"dpo","dpo_beta":0.2},"random_seed":42}`},
		want: `{"object":"fine_tuning.job","id":"ft-1","model":"meta-llama/L","created_at":1793527200,"fine_tuned_model":null,"organization_id":"u1",
			"result_files":[],"status":"queued","validation_file":null,"training_file":"file-1","seed":42,"error":null,"trained_tokens":null,
			"hyperparameters":{"n_epochs":2,"beta":0.2,"batch_size":"auto","learning_rate":0.00001},
			"method":{"type":"dpo","dpo":{"hyperparameters":{"beta":0.2,"n_epochs":2,"batch_size":"auto","learning_rate":0.00001}}},
			"integrations":[{"type":"wandb","wandb":{"project":"p","name":"n","entity":"e"}}],"metadata":null,"finished_at":null,"estimated_finish":null,
			"provider_status":"pending"}`,
	},
	{
		name: "mistral", provider: "mistral-ai",
		body: `{"model":"open-mistral-7b","training_file":"f1","validation_file":"f2","suffix":"mine","hyperparameters":{"n_epochs":3,"training_steps":10},
			"integrations":[{"type":"wandb","wandb":{"project":"p","name":"n","api_key":"wandb-key"}}]}`,
		request: "POST /fine_tuning/jobs",
		sent: `{"model":"open-mistral-7b","training_files":[{"file_id":"f1"}],"validation_files":["f2"],"suffix":"mine","auto_start":true,
			"hyperparameters":{"epochs":3,"training_steps":10},"integrations":[{"type":"wandb","project":"p","run_name":"n","api_key":"wandb-key"}]}`,
		script: map[string]string{"POST /fine_tuning/jobs": `{"id":"j1","auto_start":true,"model":"open-mistral-7b","status":"QUEUED","created_at":1793527200,
			"modified_at":1793527200,"training_files":["f1"],"validation_files":["f2"],"hyperparameters":{"epochs":3,"training_steps":10,"learning_rate":0.0001},
			"object":"job","fine_tuned_model":null,"trained_tokens":null}`},
		want: `{"object":"fine_tuning.job","id":"j1","model":"open-mistral-7b","created_at":1793527200,"fine_tuned_model":null,"organization_id":"",
			"result_files":[],"status":"queued","validation_file":"f2","training_file":"f1","seed":0,"error":null,"trained_tokens":null,
			"hyperparameters":{"n_epochs":3,"training_steps":10,"learning_rate":0.0001},
			"integrations":[{"type":"wandb","wandb":{"project":"p","name":"n"}}],"metadata":null,"finished_at":null,"estimated_finish":null,"provider_status":"QUEUED"}`,
	},
	{
		name: "cohere", provider: "cohere",
		body:    `{"model":"command-r-08-2024","training_file":"ds-1","suffix":"mine","hyperparameters":{"n_epochs":2,"batch_size":16}}`,
		request: "POST /v1/finetuning/finetuned-models",
		sent: `{"name":"mine-ftjob_Own1","settings":{"base_model":{"base_type":"BASE_TYPE_CHAT","name":"command-r-08-2024"},"dataset_id":"ds-1",
			"hyperparameters":{"train_epochs":2,"train_batch_size":16}}}`,
		script: map[string]string{"POST /v1/finetuning/finetuned-models": `{"finetuned_model":{"id":"m1","name":"mine-ftjob_Own1","organization_id":"o1",
			"status":"STATUS_FINETUNING","created_at":"2026-11-01T10:00:00Z","settings":{"base_model":{"name":"command-r-08-2024","base_type":"BASE_TYPE_CHAT"},
			"dataset_id":"ds-1","hyperparameters":{"train_epochs":2,"train_batch_size":16}}}}`},
		want: `{"object":"fine_tuning.job","id":"m1","model":"command-r-08-2024","created_at":1793527200,"fine_tuned_model":null,"organization_id":"o1",
			"result_files":[],"status":"running","validation_file":null,"training_file":"ds-1","seed":0,"error":null,"trained_tokens":null,
			"hyperparameters":{"n_epochs":2,"batch_size":16},"integrations":null,"metadata":null,"finished_at":null,"estimated_finish":null,
			"provider_status":"STATUS_FINETUNING"}`,
	},
}

func TestJobsAreCreatedInTheShapeOfTheVendor(t *testing.T) {
	for _, tt := range creations {
		t.Run(tt.name, func(t *testing.T) {
			a, v := account(tt.script)
			job, err := mustFor(t, tt.provider).Create(t.Context(), a, mustParse(t, tt.body))
			if err != nil || len(v.requests) == 0 {
				t.Fatalf("Create() = %v, requests %q", err, v.requests)
			}
			if v.requests[0] != tt.request {
				t.Errorf("request %q, want %q", v.requests[0], tt.request)
			}
			compareJSON(t, "the request", v.bodies[0], tt.sent)
			compareJSON(t, "the job", mustMarshal(t, job), tt.want)
		})
	}
}

// The keys of services are for the vendor, not for readers of the job.
func TestKeysOfIntegrationsAreNotShown(t *testing.T) {
	seen := 0
	for _, tt := range creations {
		if !strings.Contains(tt.body, "wandb-key") {
			continue
		}
		seen++
		a, v := account(tt.script)
		job, err := mustFor(t, tt.provider).Create(t.Context(), a, mustParse(t, tt.body))
		if err != nil || !strings.Contains(v.bodies[0], "wandb-key") || strings.Contains(mustMarshal(t, job), "wandb-key") {
			t.Errorf("%s: %v, job %s", tt.name, err, mustMarshal(t, job))
		}
	}
	if seen < 3 {
		t.Errorf("only %d jobs have a key", seen)
	}
}

func TestDatedVersionsOfAzureGetHyperparametersAtTheTop(t *testing.T) {
	a, v := account(creations[1].script)
	a.Options = map[string]string{"api_version": "2024-10-21"}
	azure := mustFor(t, "azure-openai")
	in := mustParse(t, `{"model":"m","training_file":"f","metadata":{"a":"b"},"method":{"type":"supervised","supervised":{"hyperparameters":{"n_epochs":2}}}}`)
	if _, err := azure.Create(t.Context(), a, in); err != nil {
		t.Fatal(err)
	}
	compareJSON(t, "the request", v.bodies[0], `{"model":"m","training_file":"f","hyperparameters":{"n_epochs":2}}`)
	_, err := azure.Create(t.Context(), a, mustParse(t, `{"model":"m","training_file":"f","method":{"type":"dpo"}}`))
	checkError(t, "DPO", err, apierr.Invalid, "method.type", "api_version", "v1")
	_, err = azure.Find(t.Context(), a, "ftjob_Own1")
	checkError(t, "finding", err, apierr.Unsupported, "", "azure-openai")
}

// A seventeenth pair would be refused.
func TestFullMetadataIsSentUnchanged(t *testing.T) {
	pairs := []string{}
	for c := 'a'; c < 'a'+16; c++ {
		pairs = append(pairs, `"`+string(c)+`":"1"`)
	}
	body := `{"model":"m","training_file":"f","metadata":{` + strings.Join(pairs, ",") + `}}`
	a, v := account(creations[0].script)
	if _, err := mustFor(t, "openai").Create(t.Context(), a, mustParse(t, body)); err != nil || v.bodies[0] != body {
		t.Errorf("Create() = %v, sent %s, want %s", err, v.bodies[0], body)
	}
}

func TestBedrockJobsExistEvenIfTheyCannotBeRead(t *testing.T) {
	a, _ := account(map[string]string{"POST bedrock/model-customization-jobs": `201 {"jobArn":"arn:x"}`})
	job, err := mustFor(t, "bedrock").Create(t.Context(), a, mustParse(t, creations[2].body))
	if err != nil || job.ID != "arn:x" || job.Status != "running" {
		t.Errorf("Create() = %+v, %v", job, err)
	}
}
