package dataplane_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// TestLongUsersAreSentAsTheirHash sends the id of a user that Claude Code sends, of 150
// characters, to providers that refuse more than 64.
func TestLongUsersAreSentAsTheirHash(t *testing.T) {
	t.Parallel()
	id := "user_" + strings.Repeat("0123456789abcdef", 4) + "_account_11112222-3333-4444-5555-666677778888_session_99990000-aaaa"
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	for _, model := range []string{"@chat/gpt-4.1", "@chat/gpt-5.2", "@messages/claude-sonnet-4-5"} {
		seen := map[string]int{}
		for _, user := range []string{id, id, id + "x", "short"} {
			g.Sim.Reset()
			res := g.Post("/messages", `{"model":"`+model+`","max_tokens":100,"metadata":{"user_id":"`+user+`"},"messages":[{"role":"user","content":"hello"}]}`, "x-gateway-provider", "")
			if res.Status != 200 {
				t.Fatalf("%s: status %d: %s", model, res.Status, res.Body)
			}
			g.Entry(res) // the provider has noted the request
			var sent struct {
				User     string
				Metadata struct {
					UserID string `json:"user_id"`
				}
			}
			if err := json.Unmarshal(g.Sim.Requests()[0].Body, &sent); err != nil {
				t.Fatal(err)
			}
			foreign := !strings.HasPrefix(model, "@messages")
			if !foreign {
				sent.User = sent.Metadata.UserID
			}
			seen[sent.User]++
			short := len(user) <= 64 || !foreign
			if announced := strings.Contains(res.Header.Get(api.HeaderParams), "metadata.user_id;adapted"); announced == short || short != (sent.User == user) || foreign && len(sent.User) > 64 {
				t.Errorf("%s, %.10s…: sent as %q, announced %t: %s", model, user, sent.User, announced, res.Header.Get(api.HeaderParams))
			}
		}
		if len(seen) != 3 || seen["short"] != 1 {
			t.Errorf("%s: the ids are sent as %v; want one for each user", model, seen)
		}
	}
}
