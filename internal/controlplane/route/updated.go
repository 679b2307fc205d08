package route

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// describeState completes a successful response: an update also returns the object as it
// is now, and objects that accept If-Match have an ETag.
func (a *API) describeState(r *http.Request, c *Caller, pattern string, out *bufferedResponse) {
	method, path, _ := strings.Cut(pattern, " ")
	if out.status != http.StatusOK || method != http.MethodGet && method != http.MethodPut || c.route.protocol != nil {
		return
	}
	if method == http.MethodPut {
		a.showUpdated(r, c, out)
	}
	if !a.etags[path] {
		return
	}
	var object struct {
		LastUpdatedAt string `json:"last_updated_at"`
		Data          struct {
			LastUpdatedAt string `json:"last_updated_at"`
		} `json:"data"` // of families that wrap their objects
	}
	if json.Unmarshal(out.body.Bytes(), &object) != nil {
		return
	}
	if state := cmp.Or(object.LastUpdatedAt, object.Data.LastUpdatedAt); state != "" {
		out.header.Set("Etag", `"`+state+`"`)
	}
}

// showUpdated adds the members of the object to the response of an update, if its path
// can be read and the caller may do so. It leaves a response that is about another version
// of the object, such as a new one that is not published.
func (a *API) showUpdated(r *http.Request, c *Caller, out *bufferedResponse) {
	read := r.Clone(r.Context())
	read.Method, read.Body, read.ContentLength = http.MethodGet, http.NoBody, 0
	pattern, _ := a.mux.find(read)
	route := a.routes[pattern]
	if route == nil || !route.isAllowed(c.Identity) {
		return
	}
	reader := a.caller(read, route)
	reader.identify(c.Identity)
	object := &bufferedResponse{header: make(http.Header), status: http.StatusOK}
	a.mux.ServeHTTP(object, read.WithContext(withCaller(r.Context(), reader)))
	if object.status != http.StatusOK {
		return
	}
	if merged, ok := mergeObjects(object.body.Bytes(), out.body.Bytes()); ok {
		out.body.Reset()
		out.body.Write(append(merged, '\n'))
	}
}

// mergeObjects returns an object with the members of both. It returns false if a member
// differs, except for data, which is merged too.
func mergeObjects(shown, own []byte) (merged []byte, ok bool) {
	var all, further map[string]json.RawMessage
	if json.Unmarshal(shown, &all) != nil || json.Unmarshal(own, &further) != nil {
		return nil, false
	}
	for name, value := range further {
		before, both := all[name]
		switch {
		case both && name == "data":
			if value, ok = mergeObjects(before, value); !ok {
				return nil, false
			}
		case both && string(before) != string(value):
			return nil, false
		}
		all[name] = value
	}
	merged, err := json.Marshal(all)
	return merged, err == nil
}

// describeUpdates describes the responses of updates as [API.showUpdated] makes them.
func (a *API) describeUpdates() {
	doc := a.huma.OpenAPI()
	for _, item := range doc.Paths {
		if item.Get == nil || item.Put == nil {
			continue
		}
		shown, own := responseSchema(doc, item.Get), responseSchema(doc, item.Put)
		if shown == nil || own == nil {
			continue
		}
		both := *shown
		both.Properties = maps.Clone(own.Properties)
		maps.Copy(both.Properties, shown.Properties)
		item.Put.Responses["200"].Content["application/json"].Schema = &both
	}
}

// responseSchema returns the schema of an operation's response, nil if that is not an object.
func responseSchema(doc *huma.OpenAPI, op *huma.Operation) *huma.Schema {
	res := op.Responses["200"]
	if res == nil || res.Content["application/json"] == nil {
		return nil
	}
	s := res.Content["application/json"].Schema
	if s != nil && s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	if s == nil || s.Type != huma.TypeObject {
		return nil
	}
	return s
}
