package route

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Documented is a route that other parts of the gateway serve, for the description of
// the API.
type Documented struct {
	Method, Path string
	Tag, Summary string
}

// Document adds a route to the description. It does not serve it.
func (a *API) Document(d Documented) {
	op := huma.Operation{
		OperationID: strings.ToLower(d.Method) + strings.NewReplacer("/", "-", "{", "", "}", "", ":", "-").Replace(d.Path),
		Method:      d.Method, Path: d.Path, Summary: d.Summary, Tags: []string{d.Tag},
		Security:  []map[string][]string{{"key": {}}, {"token": {}}},
		Responses: map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK)}},
	}
	for segment := range strings.SplitSeq(d.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name, _, _ = strings.Cut(name, "}")
			op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		}
	}
	a.pending = append(a.pending, func() { a.huma.OpenAPI().AddOperation(&op) })
}
