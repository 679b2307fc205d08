package oracle_test

import (
	"regexp"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/model/llm"
)

// Names of tools fit the format that a model or the request has, and lead back to the client's.
func TestToolNamesFitTheFormat(t *testing.T) {
	cohere := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	generic := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	byRequest := []llm.Member{{Name: "api_format", Value: []byte(`"COHERE"`)}}
	for _, tt := range []struct {
		model  string
		extra  []llm.Member
		accept *regexp.Regexp
	}{
		{"cohere.command-a-03-2025", nil, cohere},
		{"ocid1.generativeaiendpoint.oc1..x", byRequest, cohere},
		{"meta.llama-3.3-70b-instruct", nil, generic},
	} {
		for _, name := range []string{"docs.readText", "a-b", "1c_probe", "plain_1", strings.Repeat("mcp__office_", 6)} {
			r := &llm.Request{Extra: tt.extra, Tools: []llm.Tool{{Name: name}}, Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "go"}}},
				{Role: llm.Assistant, Parts: []llm.Part{llm.ToolCall{ID: "a", Name: name, Arguments: "{}"}}},
				{Role: llm.User, Parts: []llm.Part{llm.ToolResult{ID: "a", Name: name, Parts: []llm.Part{llm.Text{Text: "r"}}}}},
			}}
			to := dialect.RequestTarget{Provider: "oracle", Model: tt.model}
			sent, names, changes := dialect.FitToolNames(r, oracle.Dialect{}.ToolNames(r, to))
			fitted := sent.Tools[0].Name
			if !tt.accept.MatchString(fitted) || tt.accept.MatchString(name) != (fitted == name) || names.Original(fitted) != name || (len(changes) > 0) != (fitted != name) {
				t.Errorf("%s: %q is sent as %q, which leads back to %q, announced %v", tt.model, name, fitted, names.Original(fitted), changes)
			}
			body, _, err := oracle.Dialect{}.EncodeRequest(nil, sent, to)
			if err != nil || strings.Count(string(body), `"`+fitted+`"`) < 2 || fitted != name && strings.Contains(string(body), `"`+name+`"`) {
				t.Errorf("%s: %q is sent in %s, error %v", tt.model, name, body, err)
			}
		}
	}
}
