package policies_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/policies"
	"modelgate/internal/testing/routetest"
)

const toolBody = `{"name":"writes","conditions":[{"key":"tool","value":"github/create_*"}],"group_by":[{"key":"user"},{"key":"mcp_server"}],"type":"requests","unit":"rpm","value":10,"target":"mcp_tools","loop_detection":{"same_tool_call":3}}`

func TestAPolicyHasATargetThatStays(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	for body, want := range map[string]string{toolBody: "mcp_tools", rateBody: "llm", strings.Replace(rateBody, "{", `{"target":"llm",`, 1): "llm"} {
		var p created
		c.Must("POST", rates, body, &p)
		if len(p.Warnings) > 0 {
			t.Errorf("%s: warnings %q", body, p.Warnings)
		}
		for range 2 {
			var got struct {
				Target string `json:"target"`
			}
			if c.Must("GET", rates+"/"+p.ID, "", &got); got.Target != want {
				t.Errorf("%s: target %q, want %q", body, got.Target, want)
			}
			c.Must("PUT", rates+"/"+p.ID, `{"value":11}`, nil)
		}
		for _, target := range []string{"llm", "mcp_tools"} {
			if a := c.Call("PUT", rates+"/"+p.ID, `{"target":"`+target+`"}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"target"`) {
				t.Errorf("a change of the target: %d %s", a.Status, a.Body)
			}
		}
	}
}

// What a policy says must have an effect on its target.
func TestAPolicyHasTheKeysAndTypesOfItsTarget(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	tool := strings.NewReplacer
	for _, tt := range []struct{ path, body, param string }{
		{rates, tool(`"requests"`, `"tokens"`).Replace(toolBody), "type"},
		{rates, tool(`"key":"tool"`, `"key":"model"`).Replace(toolBody), "conditions[0].key"},
		{rates, tool(`"key":"tool"`, `"key":"provider"`).Replace(toolBody), "conditions[0].key"},
		{rates, tool(`"mcp_server"`, `"virtual_key"`).Replace(toolBody), "group_by[1].key"},
		{rates, tool(`"mcp_server"`, `"config"`).Replace(toolBody), "group_by[1].key"},
		{rates, tool(`"same_tool_call"`, `"context_growth_without_progress"`).Replace(toolBody), "loop_detection.context_growth_without_progress"},
		{rates, tool(`"mcp_tools"`, `"llm"`).Replace(toolBody), "conditions[0].key"},
		{rates, tool(`"mcp_tools"`, `"all"`).Replace(toolBody), "target"},
		{rates, tool(`"mcp_tools"`, `""`).Replace(toolBody), "target"},
	} {
		if a := c.Call("POST", tt.path, tt.body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+tt.param+`"`) {
			t.Errorf("%s: %d %s, want the field %s", tt.body, a.Status, a.Body, tt.param)
		}
	}
	for _, key := range []string{"api_key", "workspace_id", "organisation_id", "user", "endpoint_type", "trace_id", "session", "metadata.x", "mcp_server", "tool"} {
		c.Must("POST", rates, tool(`"user"`, `"`+key+`"`, `,{"key":"mcp_server"}`, ``).Replace(toolBody), nil)
	}
	var p created
	c.Must("POST", rates, toolBody, &p)
	if a := c.Call("PUT", rates+"/"+p.ID, `{"loop_detection":{"context_growth_without_progress":3}}`); a.Status != http.StatusBadRequest {
		t.Errorf("a change to what has no effect: %d %s", a.Status, a.Body)
	}
}
