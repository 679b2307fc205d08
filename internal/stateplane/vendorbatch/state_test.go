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
	"google":       {"GET /v1beta/batches/b", "batches/b", `{"name":"batches/b","metadata":{"state":%q}}`},
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
