package security

import (
	"strings"
	"testing"
)

// Of two members with one name, readers take the first or the last: the gateway takes
// neither.
func TestDuplicateMembersAreRefused(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	for _, tt := range []struct{ name, path, body, metadata, says string }{
		{"in metadata", "/v1/chat/completions", chatBody, `{"team":"a","team":"b"}`, "team"},
		{"in metadata, escaped", "/v1/chat/completions", chatBody, `{"team":"a","t\u0065am":"b"}`, "team"},
		{"in explain", "/v1/explain", `{"request":{"body":` + chatBody + `},"request":{"body":{}}}`, "", "request"},
		{"in a request to explain", "/v1/explain", `{"request":{"path":"/v1/chat/completions","path":"/v1/messages","body":` + chatBody + `}}`, "", "request.path"},
		{"in another spelling in explain", "/v1/explain", `{"request":{"body":` + chatBody + `},"Request":{}}`, "", "Request"},
		{"after the body to explain", "/v1/explain", `{"request":{"body":` + chatBody + `}}{"config":{}}`, "", "the body of POST /v1/explain must be"},
	} {
		attack(t, "bodies", "duplicate members "+tt.name, func(t *testing.T) {
			headers := []string{"x-gateway-api-key", rootKey, "x-gateway-provider", "openai"}
			if tt.metadata != "" {
				headers = append(headers, "x-gateway-metadata", tt.metadata)
			}
			got := g.do(t, "POST", tt.path, tt.body, headers...)
			if text := string(got.body); got.status != 400 || !strings.Contains(text, tt.says) {
				t.Errorf("status %d, %s; want 400 that names %s", got.status, text, tt.says)
			}
		})
	}
}

// Readers disagree on a member that occurs twice, on a name in other capitals and on
// text that is not UTF-8: the administration stores none of them.
func TestAdministrationReadsMembersInOneWay(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	k := g.create(t, rootKey, "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`, "id")
	const policies = "/v1/policies/rate-limits"
	// A policy of a model would apply to the requests of tests that run at the same time.
	policy := g.create(t, rootKey, policies, `{"name":"p","workspace_id":"default","type":"requests","unit":"rpm","value":9,"conditions":[{"key":"api_key","value":"`+k+`"}],"group_by":[{"key":"api_key"}]}`, "id")
	key, rate := "/v1/api-keys/"+k, policies+"/"+policy
	before := string(g.as(t, rootKey, "GET", key, "").ok(t).body) + string(g.as(t, rootKey, "GET", rate, "").ok(t).body)
	for _, tt := range []struct{ name, path, body, says string }{
		{"twice", key, `{"name":"a","name":"b"}`, "name"},
		{"twice, escaped", key, `{"name":"a","n\u0061me":"b"}`, "name"},
		{"twice in a limit", key, `{"usage_limits":{"credit_limit":5,"credit_limit":500000}}`, "usage_limits.credit_limit"},
		{"in other capitals", rate, `{"Value":500}`, "Value"},
		{"of a unit in other capitals too", rate, `{"unit":"rpm","Unit":"rpy"}`, "Unit"},
		{"of a budget in other capitals too", key, `{"usage_limits":{"credit_limit":5,"Credit_Limit":-7}}`, "Credit_Limit"},
		{"of a name in other capitals too", key, `{"name":"a","NAME":"` + strings.Repeat("x", 5000) + `"}`, "NAME"},
		{"with text that is not UTF-8", key, "{\"name\":\"a\xff\"}", "UTF-8"},
	} {
		attack(t, "bodies", "members of the administration "+tt.name, func(t *testing.T) {
			g.as(t, rootKey, "PUT", tt.path, tt.body).refused(t, 400, tt.says)
		})
	}
	if after := string(g.as(t, rootKey, "GET", key, "").ok(t).body) + string(g.as(t, rootKey, "GET", rate, "").ok(t).body); after != before {
		t.Errorf("the objects are %s, want %s", after, before)
	}
}
