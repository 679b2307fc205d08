package dataplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// toolBodies are requests with two tools %[1]q and %[2]q, of which the second has been
// called.
var toolBodies = map[string]string{
	"chat": `{"model":%%q,"stream":%%t,"tools":[{"type":"function","function":{"name":%[1]q,"parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":%[2]q,"parameters":{"type":"object","properties":{}}}}],` +
		`"tool_choice":{"type":"function","function":{"name":%[2]q}},"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":%[2]q,"arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"},{"role":"assistant","content":"done"},{"role":"user","content":"again"}]}`,
	"messages": `{"model":%%q,"stream":%%t,"max_tokens":2048,"tools":[{"name":%[1]q,"input_schema":{"type":"object","properties":{}}},{"name":%[2]q,"input_schema":{"type":"object","properties":{}}}],` +
		`"tool_choice":{"type":"tool","name":%[2]q},"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":%[2]q,"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]},{"role":"assistant","content":"done"},{"role":"user","content":"again"}]}`,
	"responses": `{"model":%%q,"stream":%%t,"tools":[{"type":"function","name":%[1]q,"parameters":{"type":"object","properties":{}}},{"type":"function","name":%[2]q,"parameters":{"type":"object","properties":{}}}],` +
		`"tool_choice":{"type":"function","name":%[2]q},"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"a","name":%[2]q,"arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"r"},{"role":"assistant","content":"done"},{"role":"user","content":"again"}]}`,
	"gemini": `{"tools":[{"functionDeclarations":[{"name":%[1]q,"parameters":{"type":"OBJECT","properties":{"s":{"type":"STRING"}}}},{"name":%[2]q,"parameters":{"type":"OBJECT","properties":{"s":{"type":"STRING"}}}}]}],` +
		`"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[%[2]q]}},"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":%[2]q,"args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":%[2]q,"response":{"output":"r"}}}]},{"role":"model","parts":[{"text":"done"}]},{"role":"user","parts":[{"text":"again"}]}]}`,
}

// TestToolNamesAreSentAsTheTargetTakesThem sends names that a target rejects: the simulator
// calls the tool by the name that it got, and the client gets its own.
func TestToolNamesAreSentAsTheTargetTakesThem(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	long := strings.Repeat("mcp__office_", 6) // 72 characters
	targets := []struct {
		name, slug, model string
		names             *regexp.Regexp
	}{
		{"chat", "chat", "gpt-4.1", regexp.MustCompile(`^[\w-]{1,64}$`)},
		{"responses", "chat", "gpt-5-codex", regexp.MustCompile(`^[\w-]{1,64}$`)},
		{"messages", "messages", "claude-sonnet-4-5", regexp.MustCompile(`^[\w-]{1,128}$`)},
		{"gemini", "gemini", "gemini-2.5-flash", regexp.MustCompile(`^[a-zA-Z_][\w.:-]{0,127}$`)},
		{"converse", "converse", "amazon.nova-pro-v1:0", regexp.MustCompile(`^[\w-]{1,64}$`)},
		{"cohere", "cohere", "command-a-03-2025", regexp.MustCompile(`^[a-zA-Z_]\w*$`)},
	}
	for _, client := range clientFormats[:4] {
		for _, target := range targets {
			if client.name == target.name || client.name == "responses" && target.slug == "chat" {
				continue
			}
			for _, names := range [][2]string{{long + "x", long + "y"}, {"docs.readText", "docs.appendText"}, {"docs readText", "docs_readText"}, {"1c_probe", "a-b"}} {
				for _, stream := range []bool{false, true} {
					g.Sim.Reset()
					client.body = fmt.Sprintf(toolBodies[client.name], names[0], names[1])
					if client.stream != "" {
						client.body = strings.ReplaceAll(client.body, "%%", "%")
					}
					res := client.send(t, g, "@"+target.slug, target.model, stream)
					where := fmt.Sprintf("%s to %s, %.20s…, stream %t", client.name, target.name, names[1], stream)
					if res.Status != http.StatusOK {
						t.Errorf("%s: status %d: %.300s", where, res.Status, res.Body)
						continue
					}
					g.Entry(res)
					sent := toolNamesIn(t, g.Sim.Requests()[0].Body)
					for _, name := range sent {
						if !target.names.MatchString(name) {
							t.Errorf("%s: sent the name %q", where, name)
						}
					}
					if slices.Sort(sent); len(slices.Compact(sent)) > 2 {
						t.Errorf("%s: two tools have the names %q", where, sent)
					}
					if quoted := fmt.Sprintf("%q", names[1]); !strings.Contains(string(res.Body), quoted) {
						t.Errorf("%s: the response does not call %s: %.400s", where, quoted, res.Body)
					}
				}
			}
		}
	}
}

// toolNamesIn returns the values of all members "name", and of lists of names.
func toolNamesIn(t *testing.T, body []byte) (names []string) {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if name, ok := inner.(string); ok && key == "name" {
					names = append(names, name)
				}
				if list, ok := inner.([]any); ok && key == "allowedFunctionNames" {
					for _, name := range list {
						names = append(names, str(name))
					}
				}
				find(inner)
			}
		case []any:
			for _, inner := range v {
				find(inner)
			}
		}
	}
	find(v)
	return names
}
