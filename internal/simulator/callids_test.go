package simulator_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

// The protocol refuses an id that is duplicated, so one that is used can't be
// given again.
func TestCallsOfLaterTurnsHaveOtherIDs(t *testing.T) {
	const body = `{"model":"m","max_tokens":99,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"x"},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_sim1","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_sim1","content":"y"}]},` +
		`{"role":"assistant","content":"z"},{"role":"user","content":"x"}]}`
	r := httptest.NewRequest("POST", "/v1/messages", strings.NewReader(body))
	r.Header.Set("Anthropic-Version", "2023-06-01")
	w := httptest.NewRecorder()
	simulator.New(simulator.Options{}).ServeHTTP(w, r)
	if got := w.Body.String(); !strings.Contains(got, `"id":"toolu_sim2"`) {
		t.Errorf("the response is %s, want a call toolu_sim2", got)
	}
}
