package attempt

import (
	"testing"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// Models are checked as they are sent: pending edits may set another one, and drops may
// leave none.
func TestModelsAreCheckedAsTheyAreSent(t *testing.T) {
	path, err := jsonedit.ParsePath("model")
	if err != nil {
		t.Fatal(err)
	}
	other := []jsonedit.Edit{{Name: "model", Value: []byte(`"other"`)}}
	known := []jsonedit.Edit{{Name: "model", Value: []byte(`"known"`)}}
	for _, tt := range []struct {
		name, body string
		edits      []jsonedit.Edit
		drop       []jsonedit.Path
		refused    bool
	}{
		{"an enabled model", `{"model":"known"}`, nil, nil, false},
		{"another model", `{"model":"other"}`, nil, nil, true},
		{"an edit to another model", `{"model":"known"}`, other, nil, true},
		{"an edit to the enabled model", `{"model":"other"}`, known, nil, false},
		{"no model", `{"model":null}`, nil, nil, false},
		{"no model after a drop", `{"model":null}`, nil, []jsonedit.Path{path}, true},
	} {
		doc := new(jsonedit.Doc)
		if err := doc.Scan([]byte(tt.body)); err != nil {
			t.Fatal(err)
		}
		a := &attempt{
			plan: plan{record: exchange.Attempt{Target: &provider.Target{Slug: "p", Models: provider.NewModelList(false, []string{"known"}, nil)}},
				handler: &TargetHandler{Params: exchange.ConfigParams{Drop: tt.drop}}, request: &exchange.Request{Received: exchange.Received{Doc: doc}}},
		}
		if err := a.plan.checkModels(doc, tt.edits); (err != nil) != tt.refused {
			t.Errorf("%s: %v, want a refusal: %t", tt.name, err, tt.refused)
		}
	}
}
