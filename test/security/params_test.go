package security

import (
	"net/http"
	"strings"
	"testing"
)

// TestParametersThatCannotBeAppliedAreRefused sends bodies that the gateway does
// not read as JSON under a config that edits parameters.
func TestParametersThatCannotBeAppliedAreRefused(t *testing.T) {
	g, p := start(t)
	form := field("model", "dear") + field("file", "f") + "--x--\r\n"
	config := func(params string) string { return `{"provider":"@stored",` + params + `}` }
	ask := func(t *testing.T, target, kind, body, config string) response {
		t.Helper()
		p.reset()
		return g.as(t, rootKey, "POST", target, body, "Content-Type", kind, "x-gateway-config", config)
	}
	for _, tt := range []struct{ name, target, kind, body, params, field string }{
		{"override and a form", "/v1/audio/transcriptions", formKind, form, `"override_params":{"model":"cheap"}`, "override_params"},
		{"default and a form", "/v1/audio/transcriptions", formKind, form, `"default_params":{"language":"en"}`, "default_params"},
		{"drop and a form", "/v1/audio/transcriptions", formKind, form, `"drop_params":["prompt"]`, "drop_params"},
		{"override and a form that is passed through", "/v1/other", formKind, form, `"override_params":{"model":"cheap"}`, "override_params"},
		{"override and text", "/v1/other", "text/plain", `{"model":"dear"}`, `"override_params":{"model":"cheap"}`, "override_params"},
		{"override and another JSON", "/v1/other", "application/json", `[{"model":"dear"}]`, `"override_params":{"model":"cheap"}`, "override_params"},
		{"override and a large body", "/v1/other", "application/json", `{"model":"dear","x":"` + strings.Repeat("x", 2<<20) + `"}`, `"override_params":{"model":"cheap"}`, "override_params"},
	} {
		attack(t, "bodies", "parameters of a config, "+tt.name, func(t *testing.T) {
			r := ask(t, tt.target, tt.kind, tt.body, config(tt.params))
			r.refused(t, http.StatusBadRequest, "unsupported_parameter", tt.field)
			if n := len(p.seen()); n != 0 {
				t.Errorf("the provider received %d requests", n)
			}
		})
	}
	for _, tt := range []struct{ name, target, kind, body, params, want string }{
		{"an upload of a file", "/v1/files", formKind, field("purpose", "batch") + field("file", "f") + "--x--\r\n", `"override_params":{"model":"cheap"}`, "override_params;ignored"},
		{"a form without parameters in the config", "/v1/audio/transcriptions", formKind, form, `"retry":{"attempts":1}`, ""},
		{"JSON", "/v1/other", "application/json", `{"model":"dear"}`, `"override_params":{"model":"cheap"}`, ""},
	} {
		attack(t, "bodies", "parameters of a config, legitimate: "+tt.name, func(t *testing.T) {
			r := ask(t, tt.target, tt.kind, tt.body, config(tt.params)).ok(t)
			if got := r.header.Get("x-gateway-params"); got != tt.want || len(p.seen()) != 1 {
				t.Errorf("x-gateway-params = %q, want %q; the provider received %d requests", got, tt.want, len(p.seen()))
			}
		})
	}
}
