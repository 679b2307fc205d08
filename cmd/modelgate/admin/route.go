package admin

import (
	_ "embed"
	"encoding/json"
	"maps"
	"strings"
	"sync"
)

// description describes a route of the API.
type description struct {
	Method  string  `json:"method"`
	Path    string  `json:"path"` // with /v1, and {name} for parameters
	Summary string  `json:"summary"`
	Query   []field `json:"query,omitempty"`
	Body    []field `json:"body,omitempty"`
}

// field is a query parameter, or a member of a body. Members of objects in a body are fields
// of their own, with dots in their names.
type field struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"` // see the constants
	Doc      string   `json:"doc,omitempty"`
	Enum     []string `json:"enum,omitempty"`
	Items    []field  `json:"items,omitempty"` // the members of an object in a list
	Required bool     `json:"required,omitempty"`
	Nullable bool     `json:"nullable,omitempty"`
	Most     int      `json:"most,omitempty"` // of a page size
}

// Types of fields.
const (
	typeText    = "text"
	typeInteger = "integer"
	typeNumber  = "number"
	typeFlag    = "flag"
	typeTime    = "time"
	typeTexts   = "texts"   // list of text
	typeNumbers = "numbers" // list of numbers
	typeMap     = "map"     // object with any names and texts
	typeValues  = "values"  // object with any names and values
	typeObjects = "objects" // list of objects
	typeBytes   = "bytes"   // sent in base64
	typeAny     = "any"
)

//go:embed routes.json
var routesJSON []byte

// routes returns the routes of all verbs by their name.
var routes = sync.OnceValue(func() map[string]*description {
	list := make(map[string]*description)
	if err := json.Unmarshal(routesJSON, &list); err != nil {
		panic("routes.json: " + err.Error()) // a test fails before
	}
	maps.Copy(list, undocumented)
	return list
})

// route returns the description of the route of a verb.
func (v *verb) route() *description { return routes()[v.op] }

// params returns the names of the parameters in the path, in order.
func (r *description) params() []string {
	var names []string
	for segment := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// param returns the query parameter with a name, nil if there is none.
func (r *description) param(name string) *field {
	for i := range r.Query {
		if r.Query[i].Name == name {
			return &r.Query[i]
		}
	}
	return nil
}

// workspaceParam returns the name of the query parameter or member of the body that names the
// workspace, and whether it is a member of the body.
func (r *description) workspaceParam() (name string, inBody bool) {
	for _, name := range []string{"workspace_id", "workspace"} {
		if r.param(name) != nil {
			return name, false
		}
	}
	for _, f := range r.Body {
		if f.Name == "workspace_id" {
			return f.Name, true
		}
	}
	return "", false
}
