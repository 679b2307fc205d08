package dataplane_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// TestLongCallIDsAreSentAsTheTargetTakesThem continues a session whose calls have the ids of
// another provider, longer than the target takes: the call and its result get one that fits.
func TestLongCallIDsAreSentAsTheTargetTakesThem(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	ids := regexp.MustCompile(`"(?:id|call_id|tool_call_id)": ?"((?:call|toolu)_[^"]*)"`)
	for _, model := range []string{"@chat/gpt-4.1", "@chat/gpt-5.2"} {
		for _, id := range []string{"toolu_" + strings.Repeat("a", 58), "toolu_" + strings.Repeat("a", 59), "toolu_" + strings.Repeat("b", 200)} {
			g.Sim.Reset()
			res := g.Post("/messages", fmt.Sprintf(`{"model":%q,"max_tokens":100,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"},`+
				`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"r"}]}]}`, model, id, id), "x-gateway-provider", "")
			if res.Status != 200 {
				t.Fatalf("%s: status %d: %s", model, res.Status, res.Body)
			}
			g.Entry(res)
			found := ids.FindAllStringSubmatch(string(g.Sim.Requests()[0].Body), -1)
			if len(found) != 2 || found[0][1] != found[1][1] || len(found[0][1]) > 64 || (len(id) <= 64) != (found[0][1] == id) {
				t.Errorf("%s, %d characters: sent as %q", model, len(id), found)
			}
		}
	}
}
