package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
)

// conditionalStrategy sends a request to the target of the first condition that
// is true.
type conditionalStrategy struct {
	picker
	conditions []config.Condition
	byName     map[string]int
	otherwise  string
}

func newConditional(p picker, s *config.Strategy) *conditionalStrategy {
	c := &conditionalStrategy{picker: p, conditions: s.Conditions, otherwise: s.Default, byName: make(map[string]int, len(p.branches))}
	for i, b := range p.branches {
		if b.name != "" {
			c.byName[b.name] = i
		}
	}
	return c
}

// Handle evaluates the conditions in order.
func (c *conditionalStrategy) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	name := c.otherwise
	for i, cond := range c.conditions {
		tested := new(strings.Builder)
		look := func(path string) (json.RawMessage, bool) { return findField(&t.Lookups, r, path) }
		if t.Explain {
			look = describing(look, tested)
		}
		holds := cond.Query.Match(look, &t.Lookups.Work)
		if t.Lookups.Work.Exceeded() {
			return nil, apierr.New(apierr.Invalid,
				"AB01: %s: testing its conditions takes more than %d steps (bytes of fields times the size of patterns, and bytes of the body); use fewer or shorter conditions, or a smaller request", c.path, config.MaxWork).
				WithParam("x-gateway-config").WithCode("AB01")
		}
		if holds {
			name = cond.Then
			t.Decide(c.path, "condition %d holds, so %s:%s", i, name, tested)
			break
		}
		t.Decide(c.path, "condition %d does not hold:%s", i, tested)
	}
	i, ok := c.byName[name]
	if !ok {
		return nil, apierr.New(apierr.Invalid, "AB01: %s: no target is named %q", c.path, name).WithCode("AB01")
	}
	return c.branches[i].Handle(ctx, r, t)
}

// findField returns a field of the request by its name in conditions; see
// config.Lookup. A metadata key may contain dots.
func findField(l *exchange.Lookups, r *exchange.Request, path string) (json.RawMessage, bool) {
	root, rest, _ := strings.Cut(path, ".")
	switch root {
	case "metadata":
		v, ok := r.Metadata[rest]
		return quoted(v), ok
	case "headers":
		v := r.Received.Header.Values(rest)
		if len(v) == 0 || sensitive(rest) {
			return nil, false
		}
		return quoted(strings.Join(v, ", ")), true
	case "url":
		return lookupURL(r, rest)
	case "params":
		return findParam(l, r, rest)
	case config.PrefixField:
		return findPrefix(l, r)
	}
	return nil, false
}

// maxFound is the limit of cached fields.
const maxFound = 64

// findParam returns a field of the body. A search costs a step for every eight
// bytes of the body; when the steps are used up, all further fields are
// missing.
func findParam(l *exchange.Lookups, r *exchange.Request, path string) (json.RawMessage, bool) {
	if v, ok := l.Found[path]; ok {
		return v, v != nil
	}
	if r.Received.Doc == nil || !l.Work.Spend(len(r.Received.Doc.Bytes())/8+1) {
		return nil, false
	}
	v, ok := lookupParam(r, path)
	if len(l.Found) < maxFound {
		if l.Found == nil {
			l.Found = make(map[string]json.RawMessage)
		}
		l.Found[path] = v
	}
	return v, ok
}

// describing returns find with a description of each result appended to to.
// Decisions are logged, and headers and strings of the body belong to the
// client: only their length is written.
func describing(find config.Lookup, to *strings.Builder) config.Lookup {
	const most = 80
	return func(path string) (json.RawMessage, bool) {
		v, ok := find(path)
		switch {
		case !ok:
			fmt.Fprintf(to, " %s is missing", path)
		case len(v) > most || !tellable(path, v):
			fmt.Fprintf(to, " %s has %d bytes", path, len(v))
		default:
			fmt.Fprintf(to, " %s is %s", path, v)
		}
		return v, ok
	}
}

func tellable(path string, v json.RawMessage) bool {
	if strings.HasPrefix(path, "metadata.") || path == "url.pathname" || path == "params.model" {
		return true
	}
	return strings.HasPrefix(path, "params.") && !strings.ContainsAny(string(v), `"`)
}

// sensitive reports whether a header may hold a credential. Conditions do not
// see such headers, since their results are explained.
func sensitive(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", strings.ToLower(api.HeaderKey),
		strings.ToLower(api.HeaderConfig):
		return true
	}
	return false
}

func lookupURL(r *exchange.Request, name string) (json.RawMessage, bool) {
	if name == "pathname" {
		return quoted(api.BasePath + r.Received.Path), true
	}
	if key, ok := strings.CutPrefix(name, "query."); ok {
		values, _ := url.ParseQuery(r.Received.Query)
		return quoted(values.Get(key)), values.Has(key)
	}
	return nil, false
}

func lookupParam(r *exchange.Request, path string) (json.RawMessage, bool) {
	if r.Received.Doc == nil {
		return nil, false
	}
	p, err := jsonedit.ParsePath(path)
	if err != nil {
		return nil, false
	}
	v, ok := jsonedit.Get(r.Received.Doc.Bytes(), p)
	return v.Raw(), ok
}

func quoted(s string) json.RawMessage { return jsonedit.AppendString(nil, s) }
