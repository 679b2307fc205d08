package prompt_test

import (
	"testing"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/prompt"
)

// A rendered prompt replaces members of a request, which keeps the others and loses its
// variables.
func TestEditsMakeTheRenderedRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body, rendered, want string
		provider, model            string // of the prompt
		wantProvider, wantModel    string
	}{
		{"members", `{"variables":{"a":"b"},"temperature":1,"user":"u"}`, `{"messages":[],"temperature":0}`,
			`{"temperature":0,"user":"u","messages":[]}`, "p", "m", "p", "m"},
		{"a model with its provider", `{"model":"x"}`, `{"model":"@q/n"}`, `{"model":"n"}`, "p", "@q/n", "q", "n"},
		{"a model with a slash", `{}`, `{"model":"q/n"}`, `{"model":"q/n"}`, "", "q/n", "", "q/n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var doc jsonedit.Doc
			if err := doc.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			r := &prompt.Rendered{Body: []byte(tt.rendered), Provider: tt.provider, Model: tt.model}
			list, provider, model, err := r.Edits()
			if got := string(doc.Apply(nil, list...)); err != nil || got != tt.want || provider != tt.wantProvider || model != tt.wantModel {
				t.Errorf("Edits make %s for %q and %q, %v; want %s for %q and %q", got, provider, model, err, tt.want, tt.wantProvider, tt.wantModel)
			}
		})
	}
}
