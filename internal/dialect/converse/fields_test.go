package converse_test

import (
	"testing"

	"modelgate/internal/dialect/converse"
	"modelgate/internal/model/llm"
)

// Clients of the models of Anthropic at AWS ask for a form in the terms of those
// models.
func TestTheFormatOfAResponseIsReadFromTheModelsFields(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"string"}}}`
	for _, tt := range []struct {
		name, output   string
		format, effort string
		kept           int // parameters for the same dialect alone
	}{
		{"a schema", `{"format":{"type":"json_schema","schema":` + schema + `}}`, schema, "", 0},
		{"a schema and an effort", `{"effort":"low","format":{"type":"json_schema","schema":` + schema + `}}`, schema, "low", 0},
		{"an effort", `{"effort":"low"}`, "", "low", 0},
		{"something else", `{"effort":"low","task_budget":{}}`, "", "", 1},
		{"a form of another kind", `{"format":{"type":"grammar"}}`, "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"messages":[{"role":"user","content":[{"text":"x"}]}],"additionalModelRequestFields":{"output_config":` + tt.output + `}}`
			r, err := converse.Dialect{}.DecodeRequest([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Format.Schema) != tt.format || (r.Format.Kind == llm.FormatSchema) != (tt.format != "") {
				t.Errorf("format = %s %s, want %s", r.Format.Kind, r.Format.Schema, tt.format)
			}
			if r.Reasoning.Effort != tt.effort || len(r.Extra) != tt.kept {
				t.Errorf("effort %q and %d kept, want %q and %d", r.Reasoning.Effort, len(r.Extra), tt.effort, tt.kept)
			}
		})
	}
}
