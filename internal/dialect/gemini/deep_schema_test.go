package gemini_test

import (
	"strings"
	"testing"

	"modelgate/internal/dialect/gemini"
)

// Each level of a schema is read for all levels around it, so a hostile body must not
// choose how many there are.
func TestDeepSchemasAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		levels     int
		want       string // part of the error; empty for none
	}{
		{"tool", `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":SCHEMA}]}]}`, 64, ""},
		{"tool", `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":SCHEMA}]}]}`, 65,
			"tools[0].functionDeclarations[0].parameters: has schemas nested deeper than 64 levels"},
		{"format", `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":SCHEMA}}`, 65,
			"generationConfig.responseSchema: has schemas nested deeper than 64 levels"},
	} {
		schema := strings.Repeat(`{"type":"ARRAY","items":`, tt.levels-1) + `{"type":"STRING"}` + strings.Repeat(`}`, tt.levels-1)
		_, err := gemini.Dialect{}.DecodeRequest([]byte(strings.Replace(tt.body, "SCHEMA", schema, 1)))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with %d levels: error %v, want %q", tt.name, tt.levels, err, tt.want)
		}
	}
}
