package pipeline

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/apierr"
	"modelgate/internal/jsonedit"
)

// conditional sends an exchange where the first condition that holds says.
type conditional struct {
	picker
	conditions []config.Condition
	byName     map[string]int
	otherwise  string
}

func newConditional(p picker, s *config.Strategy) *conditional {
	c := &conditional{picker: p, conditions: s.Conditions, otherwise: s.Default, byName: make(map[string]int, len(p.branches))}
	for i, b := range p.branches {
		if b.name != "" {
			c.byName[b.name] = i
		}
	}
	return c
}

// Handle tests the conditions in their order.
func (c *conditional) Handle(ctx context.Context, x *Exchange) (*Response, error) {
	name := c.otherwise
	for i, cond := range c.conditions {
		if cond.Query.Match(x.Lookup) {
			name = cond.Then
			x.decide(c.path, "condition %d holds: %s", i, name)
			break
		}
		x.decide(c.path, "condition %d does not hold", i)
	}
	i, ok := c.byName[name]
	if !ok {
		return nil, apierr.New(apierr.Invalid, "AB01: %s: no target is named %q", c.path, name).WithCode("AB01")
	}
	return c.branches[i].Handle(ctx, x)
}

// Lookup finds a field of the exchange as conditions name it; see
// config.Lookup. A metadata key may hold dots.
func (x *Exchange) Lookup(path string) (json.RawMessage, bool) {
	root, rest, _ := strings.Cut(path, ".")
	switch root {
	case "metadata":
		v, ok := x.Entry.Metadata[rest]
		return quoted(v), ok
	case "headers":
		v := x.Header.Values(rest)
		if len(v) == 0 || sensitive(rest) {
			return nil, false
		}
		return quoted(strings.Join(v, ", ")), true
	case "url":
		return x.lookupURL(rest)
	case "params":
		return x.lookupParam(rest)
	}
	return nil, false
}

// sensitive keeps credentials out of conditions, whose results are explained.
func sensitive(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", strings.ToLower(api.HeaderKey), strings.ToLower(api.HeaderConfig):
		return true
	}
	return false
}

func (x *Exchange) lookupURL(name string) (json.RawMessage, bool) {
	if name == "pathname" {
		return quoted(api.BasePath + x.Path), true
	}
	if key, ok := strings.CutPrefix(name, "query."); ok {
		values, _ := url.ParseQuery(x.Query)
		return quoted(values.Get(key)), values.Has(key)
	}
	return nil, false
}

func (x *Exchange) lookupParam(path string) (json.RawMessage, bool) {
	if x.Doc == nil {
		return nil, false
	}
	p, err := jsonedit.ParsePath(path)
	if err != nil {
		return nil, false
	}
	v, ok := jsonedit.Get(x.Doc.Bytes(), p)
	return v.Raw(), ok
}

func quoted(s string) json.RawMessage { return jsonedit.AppendString(nil, s) }
