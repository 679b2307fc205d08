package vendorbatch_test

import (
	"fmt"
	"testing"

	"modelgate/internal/stateplane/vendorbatch"
)

// descriptions are batches in the formats of the vendors, with a place for the state.
var descriptions = map[string]struct{ route, id, body string }{
	"openai":       {"GET /batches/b", "b", `{"id":"b","status":%q}`},
	"azure-openai": {"GET /batches/b", "b", `{"id":"b","status":%q}`},
	"groq":         {"GET /batches/b", "b", `{"id":"b","status":%q}`},
	"together-ai":  {"GET /batches/b", "b", `{"id":"b","status":%q}`},
	"mistral-ai":   {"GET /batch/jobs/b", "b", `{"id":"b","status":%q}`},
	"fireworks-ai": {"GET host:/v1/accounts/a/batchInferenceJobs/b", "accounts/a/batchInferenceJobs/b",
		`{"name":"accounts/a/batchInferenceJobs/b","state":%q}`},
	"vertex-ai": {"GET /v1/projects/p/locations/r/batchPredictionJobs/1", "projects/p/locations/r/batchPredictionJobs/1",
		`{"name":"projects/p/locations/r/batchPredictionJobs/1","state":%q}`},
	"bedrock": {"GET bedrock:/model-invocation-job/arn:aws:bedrock:us-east-1:1:model-invocation-job%2Fj",
		"arn:aws:bedrock:us-east-1:1:model-invocation-job/j", `{"jobArn":"arn:aws:bedrock:us-east-1:1:model-invocation-job/j","status":%q}`},
	"cohere": {"GET /v1/embed-jobs/b", "b", `{"job_id":"b","status":%q}`},
	"google": {"GET /v1beta/batches/b", "batches/b", `{"name":"batches/b","metadata":{"state":%q}}`},
}

const (
	validating = vendorbatch.Validating
	inProgress = vendorbatch.InProgress
	finalizing = vendorbatch.Finalizing
	cancelling = vendorbatch.Cancelling
	completed  = vendorbatch.Completed
	failed     = vendorbatch.Failed
	expired    = vendorbatch.Expired
	cancelled  = vendorbatch.Cancelled
)

var openAIStates = map[string]vendorbatch.Status{
	"validating": validating, "failed": failed, "in_progress": inProgress, "finalizing": finalizing, "completed": completed,
	"expired": expired, "cancelling": cancelling, "cancelled": cancelled,
}

// documented are all states that the vendors' references list.
var documented = map[string]map[string]vendorbatch.Status{
	"openai":       openAIStates,
	"azure-openai": openAIStates,
	"groq":         openAIStates,
	"together-ai": {
		"VALIDATING": validating, "IN_PROGRESS": inProgress, "COMPLETED": completed, "FAILED": failed, "EXPIRED": expired, "CANCELLED": cancelled,
	},
	"mistral-ai": {
		"QUEUED": validating, "RUNNING": inProgress, "SUCCESS": completed, "FAILED": failed, "TIMEOUT_EXCEEDED": expired,
		"CANCELLATION_REQUESTED": cancelling, "CANCELLED": cancelled,
	},
	"fireworks-ai": {
		"JOB_STATE_UNSPECIFIED": validating, "JOB_STATE_CREATING": validating, "JOB_STATE_RUNNING": inProgress, "JOB_STATE_COMPLETED": completed,
		"JOB_STATE_FAILED": failed, "JOB_STATE_CANCELLED": cancelled, "JOB_STATE_DELETING": cancelling, "JOB_STATE_WRITING_RESULTS": finalizing,
		"JOB_STATE_VALIDATING": validating, "JOB_STATE_DELETING_CLEANING_UP": cancelling, "JOB_STATE_PENDING": validating,
		"JOB_STATE_EXPIRED": expired, "JOB_STATE_RE_QUEUEING": validating, "JOB_STATE_CREATING_INPUT_DATASET": validating,
		"JOB_STATE_IDLE": validating, "JOB_STATE_CANCELLING": cancelling, "JOB_STATE_EARLY_STOPPED": completed, "JOB_STATE_PAUSED": inProgress,
	},
	"vertex-ai": {
		"JOB_STATE_UNSPECIFIED": validating, "JOB_STATE_QUEUED": validating, "JOB_STATE_PENDING": validating, "JOB_STATE_RUNNING": inProgress,
		"JOB_STATE_SUCCEEDED": completed, "JOB_STATE_FAILED": failed, "JOB_STATE_CANCELLING": cancelling, "JOB_STATE_CANCELLED": cancelled,
		"JOB_STATE_PAUSED": inProgress, "JOB_STATE_EXPIRED": expired, "JOB_STATE_UPDATING": inProgress, "JOB_STATE_PARTIALLY_SUCCEEDED": completed,
	},
	"bedrock": {
		"Submitted": validating, "Validating": validating, "Scheduled": validating, "InProgress": inProgress, "Completed": completed,
		"PartiallyCompleted": completed, "Failed": failed, "Stopping": cancelling, "Stopped": cancelled, "Expired": expired,
	},
	"cohere": {"processing": inProgress, "complete": completed, "cancelling": cancelling, "cancelled": cancelled, "failed": failed},
	"google": {
		"BATCH_STATE_UNSPECIFIED": validating, "BATCH_STATE_PENDING": validating, "BATCH_STATE_RUNNING": inProgress,
		"BATCH_STATE_SUCCEEDED": completed, "BATCH_STATE_FAILED": failed, "BATCH_STATE_CANCELLED": cancelled, "BATCH_STATE_EXPIRED": expired,
		"JOB_STATE_PAUSED": inProgress, "JOB_STATE_UPDATING": inProgress, "JOB_STATE_PARTIALLY_SUCCEEDED": completed,
		"JOB_STATE_QUEUED": validating, "JOB_STATE_CANCELLING": cancelling,
	},
}

func TestEveryDocumentedStateIsOneOfEight(t *testing.T) {
	if len(documented) != len(descriptions) {
		t.Fatalf("%d vendors have states and %d a description", len(documented), len(descriptions))
	}
	for id, states := range documented {
		d := descriptions[id]
		for state, want := range states {
			b, err := mustVendor(t, id).Get(t.Context(), newFake(t, map[string]string{d.route: fmt.Sprintf(d.body, state)}), d.id)
			if err != nil {
				t.Errorf("%s, %s: %v", id, state, err)
				continue
			}
			if b.Status != want || b.UnknownStatus || b.VendorStatus != state {
				t.Errorf("%s: the state %s is %s, from %q, unknown: %t; want %s", id, state, b.Status, b.VendorStatus, b.UnknownStatus, want)
			}
		}
	}
}

func TestNewStatesAreInProgressAndReported(t *testing.T) {
	for id, d := range descriptions {
		b, err := mustVendor(t, id).Get(t.Context(), newFake(t, map[string]string{d.route: fmt.Sprintf(d.body, "HIBERNATING")}), d.id)
		if err != nil || b.Status != inProgress || !b.UnknownStatus || b.VendorStatus != "HIBERNATING" {
			t.Errorf("%s: %+v, %v", id, b, err)
		}
	}
}
