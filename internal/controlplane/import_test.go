package controlplane_test

import (
	"encoding/json"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/provider/toolserver/openapi"
	"modelgate/internal/testing/routetest"
)

// TestOwnDocumentBecomesTools makes tools of the description of the control plane, which is large
// and uses much of OpenAPI 3.1.
func TestOwnDocumentBecomesTools(t *testing.T) {
	text, err := routetest.New(t, controlplane.Families{}.Add).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openapi.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Tools) < 200 || len(d.LeftOut) > 20 {
		t.Errorf("%d bytes make %d tools; left out: %q", len(text), len(d.Tools), d.LeftOut)
	}
	for _, tool := range d.Tools {
		var v struct {
			Name, Description string
			InputSchema       struct{ Type string }
		}
		if err := json.Unmarshal(tool.Definition, &v); err != nil || v.Name != tool.Name || v.Description == "" || v.InputSchema.Type != "object" {
			t.Errorf("%s: %v", tool.Definition, err)
		}
	}
	if d.Tool("create-mcp-integration") == nil {
		t.Error("create-mcp-integration has no tool")
	}
}
