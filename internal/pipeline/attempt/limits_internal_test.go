package attempt

import (
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

func TestEachPromptOfACompletionCounts(t *testing.T) {
	for _, tt := range []struct {
		op   api.Operation
		body string
		want int64
	}{
		{api.Completions, `{"prompt":["a","b","c"]}`, 3},
		{api.Completions, `{"prompt":[[1,2],[3]]}`, 2},
		{api.Completions, `{"prompt":[1,2,3]}`, 1},
		{api.Completions, `{"prompt":"a"}`, 1},
		{api.Completions, `{}`, 1},
		{api.Chat, `{"prompt":["a","b","c"]}`, 1},
	} {
		doc := new(jsonedit.Doc)
		if err := doc.Scan([]byte(tt.body)); err != nil {
			t.Fatal(err)
		}
		if got := fieldsOf[tt.op].promptsIn(doc); got != tt.want {
			t.Errorf("%s with %s: %d prompts, want %d", tt.op, tt.body, got, tt.want)
		}
	}
	if got := fieldsOf[api.Completions].promptsIn(nil); got != 1 {
		t.Errorf("without a body: %d prompts, want 1", got)
	}
}

func TestDryRunTellsWhetherALimitHasRoom(t *testing.T) {
	for max, want := range map[int64]bool{0: false, 1: true, 2: true} {
		l := &quota.Limit{Counter: "key/requests", Max: max, Window: time.Minute}
		a := &attempt{
			plan: plan{record: exchange.Attempt{Target: new(provider.Target)}, handler: &TargetHandler{Engine: &Engine{Quota: new(quota.Memory)}},
				request: &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: []*quota.Limit{l}}}},
		}
		states, err := a.limitStates(t.Context())
		if err != nil || len(states) != 1 || states[0].Fits != want || states[0].Claimed != 1 {
			t.Errorf("a limit of %d requests: %+v, %v, want room: %t", max, states, err, want)
		}
	}
}
