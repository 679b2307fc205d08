package vendorbatch

import (
	"modelgate/api"
	"modelgate/internal/provider/table"
)

// Sizes of inputs, which vendors give in megabytes.
const mega = 1 << 20

// Windows of vendors that have one.
var dayOnly = []string{"24h"}

// vendors is the table of vendors by the id of their row in the provider table.
var vendors = prepare(map[string]*Vendor{
	// https://platform.openai.com/docs/guides/batch
	"openai": {
		driver: &openAI{}, states: openAIStates,
		Limits: Limits{
			Endpoints: []string{chatEndpoint, completionsEndpoint, embeddingsEndpoint, responsesEndpoint, moderationsEndpoint},
			Lines:     50_000, Bytes: 200 * mega, OneModel: true, Windows: dayOnly, Inputs: 50_000,
		},
	},
	// The model of a line is a deployment.
	// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/batch
	"azure-openai": {
		driver: &openAI{}, states: openAIStates,
		Limits: Limits{
			Endpoints: []string{chatEndpoint, completionsEndpoint, embeddingsEndpoint, responsesEndpoint},
			Lines:     100_000, Bytes: 200 * mega, OneModel: true, Windows: dayOnly,
		},
	},
	// https://console.groq.com/docs/batch
	"groq": {
		driver: &openAI{}, states: openAIStates,
		Limits: Limits{Endpoints: []string{chatEndpoint}, Lines: 50_000, Bytes: 200 * mega},
	},
	// https://www.alibabacloud.com/help/en/model-studio/batch-interfaces-compatible-with-openai
	"dashscope": {
		driver: &openAI{}, states: openAIStates,
		Limits: Limits{Endpoints: []string{chatEndpoint, embeddingsEndpoint}},
	},
	// https://docs.litellm.ai/docs/batches
	"litellm-proxy": {
		driver: &openAI{}, states: openAIStates,
		Limits: Limits{Endpoints: []string{chatEndpoint, completionsEndpoint, embeddingsEndpoint}},
	},
	// https://docs.together.ai/docs/batch-inference
	"together-ai": {
		driver: &openAI{upload: "/files/upload", purpose: "batch-api", noMetadata: true}, states: openAIStates,
		Limits: Limits{Endpoints: []string{chatEndpoint}, Lines: 50_000, Bytes: 100 * mega, OneModel: true, Windows: dayOnly},
	},
	// https://docs.x.ai/docs/guides/batch-api
	"x-ai": {
		driver: &xai{},
		Limits: Limits{Endpoints: []string{chatEndpoint}, Bytes: 500 * mega, Windows: dayOnly},
	},
	// https://docs.mistral.ai/capabilities/batch
	"mistral-ai": {
		driver: &mistral{},
		states: states{
			"QUEUED": Validating, "RUNNING": InProgress, "SUCCESS": Completed, "FAILED": Failed, "TIMEOUT_EXCEEDED": Expired,
			"CANCELLATION_REQUESTED": Cancelling, "CANCELLED": Cancelled,
		},
		Limits: Limits{
			Endpoints: []string{chatEndpoint, embeddingsEndpoint, moderationsEndpoint}, Lines: 1_000_000, Bytes: 512 * mega, OneModel: true,
		},
	},
	// It needs the option account_id.
	// https://docs.fireworks.ai/guides/batch-inference
	"fireworks-ai": {
		driver: fireworks{}, Settings: []string{"account_id"}, Choices: []string{"account_id"},
		states: states{
			"UNSPECIFIED": Validating, "CREATING": Validating, "VALIDATING": Validating, "PENDING": Validating, "CREATING_INPUT_DATASET": Validating,
			"RE_QUEUEING": Validating, "IDLE": Validating, "RUNNING": InProgress, "PAUSED": InProgress, "WRITING_RESULTS": Finalizing,
			"COMPLETED": Completed, "EARLY_STOPPED": Completed, "FAILED": Failed, "CANCELLING": Cancelling, "CANCELLED": Cancelled,
			"DELETING": Cancelling, "DELETING_CLEANING_UP": Cancelling, "EXPIRED": Expired,
		},
		Limits: Limits{Endpoints: []string{chatEndpoint}, Bytes: 500 * mega, OneModel: true, Windows: dayOnly},
	},
	// https://docs.claude.com/en/docs/build-with-claude/batch-processing
	"anthropic": {
		driver: anthropic{}, speaks: api.DialectMessages, fits: shortKey,
		states: states{"IN_PROGRESS": InProgress, "CANCELING": Cancelling, "ENDED": Completed},
		Limits: Limits{
			Endpoints: []string{chatEndpoint, responsesEndpoint, messagesEndpoint}, Lines: 100_000, Bytes: 256 * mega, Windows: dayOnly,
		},
	},
	// https://ai.google.dev/gemini-api/docs/batch-api
	"google": {
		driver: google{}, speaks: api.DialectGemini, states: googleStates,
		Limits: Limits{
			Endpoints: []string{chatEndpoint, responsesEndpoint, messagesEndpoint, embeddingsEndpoint},
			Bytes:     2048 * mega, OneModel: true, Windows: dayOnly,
		},
	},
	// https://docs.cohere.com/docs/embed-jobs-api
	"cohere": {
		driver: cohereJobs{}, speaks: api.DialectCohere,
		states: states{
			"PROCESSING": InProgress, "COMPLETE": Completed, "CANCELLING": Cancelling, "CANCELLED": Cancelled, "FAILED": Failed,
		},
		Limits: Limits{Endpoints: []string{embeddingsEndpoint}, Bytes: 1500 * mega, OneModel: true, Windows: dayOnly},
	},
	// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/batch-prediction-api
	"vertex-ai": {
		driver: vertex{}, byModel: true, states: googleStates, fits: func(string) bool { return false },
		Settings: []string{"project_id", "region", "storage_bucket_name"}, Choices: []string{"storage_bucket_name", "output_data_config"},
		Limits: Limits{
			Endpoints: []string{chatEndpoint, responsesEndpoint, messagesEndpoint},
			Lines:     200_000, Bytes: 1024 * mega, OneModel: true, Windows: dayOnly,
		},
	},
	// https://docs.aws.amazon.com/general/latest/gr/bedrock.html
	"bedrock": {
		driver: bedrock{}, speaks: api.DialectConverse, fits: plainKey,
		Settings: []string{"s3_bucket", "batch_role_arn", "kms_key_id"},
		Choices:  []string{"s3_bucket", "role_arn", "kms_key_id", "output_data_config"},
		states: states{
			"SUBMITTED": Validating, "VALIDATING": Validating, "SCHEDULED": Validating, "INPROGRESS": InProgress, "COMPLETED": Completed,
			"PARTIALLYCOMPLETED": Completed, "FAILED": Failed, "STOPPING": Cancelling, "STOPPED": Cancelled, "EXPIRED": Expired,
		},
		Limits: Limits{
			Endpoints: []string{chatEndpoint, responsesEndpoint, messagesEndpoint, embeddingsEndpoint},
			Lines:     50_000, MinLines: 100, Bytes: 1024 * mega, OneModel: true, Windows: dayOnly,
		},
	},
})

// openAIStates are the states of OpenAI, and of Together in upper case.
var openAIStates = states{
	"VALIDATING": Validating, "FAILED": Failed, "IN_PROGRESS": InProgress, "FINALIZING": Finalizing, "COMPLETED": Completed,
	"EXPIRED": Expired, "CANCELLING": Cancelling, "CANCELLED": Cancelled,
}

// googleStates are the states of jobs of Google, without the prefix of their type.
// https://cloud.google.com/vertex-ai/docs/reference/rest/v1/JobState
var googleStates = states{
	"UNSPECIFIED": Validating, "QUEUED": Validating, "PENDING": Validating, "RUNNING": InProgress, "UPDATING": InProgress,
	"PAUSED": InProgress, "SUCCEEDED": Completed, "PARTIALLY_SUCCEEDED": Completed, "FAILED": Failed, "CANCELLING": Cancelling,
	"CANCELLED": Cancelled, "EXPIRED": Expired,
}

// prepare completes the rows with what the provider table has.
func prepare(rows map[string]*Vendor) map[string]*Vendor {
	for id, v := range rows {
		spec, ok := table.Lookup(id)
		if !ok {
			panic("vendorbatch: the provider table has no " + id)
		}
		v.ID, v.spec = id, spec
		if v.fits == nil {
			v.fits = anyKey
		}
	}
	return rows
}
