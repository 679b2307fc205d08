package route

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// formType is the media type of forms, in which RFC 7662 sends tokens.
const formType = "application/x-www-form-urlencoded"

// normaliseInput replaces the spellings of a request that a route accepts in addition to
// those that handlers read: forms, and other names and forms of parameters.
func (r *Route) normaliseInput(req *http.Request, c *Caller) error {
	if err := r.params.normalise(req, c); err != nil {
		return err
	}
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); !r.Form || err != nil || kind != formType {
		return nil
	}
	fields, err := url.ParseQuery(string(c.body))
	if err != nil {
		return Invalid("body", "is not a form: %v", err)
	}
	members := make(map[string]string)
	for name, values := range fields {
		if !slices.Contains(r.fields, name) {
			continue
		}
		if len(values) > 1 {
			return Invalid(name, "is duplicated; send it once")
		}
		members[name] = values[0]
	}
	c.body, err = json.Marshal(members)
	req.Header.Set("Content-Type", "application/json")
	return err
}

// bodyFields returns the names of the members of an input's body.
func bodyFields(input reflect.Type) []string {
	body, ok := input.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(body.Type) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
