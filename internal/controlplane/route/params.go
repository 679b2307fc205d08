package route

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/moment"
)

// otherNames are further names of the query parameters of logs, analytics and audit logs,
// mostly earlier ones. A route accepts them for a parameter that it has.
var otherNames = map[string]string{
	"time_of_generation_min": "from", "time_of_generation_max": "to", "start_time": "from", "end_time": "to",
	"workspace_id": "workspace", "workspace_slug": "workspace", "status_code": "status", "api_key_ids": "api_key", "api_key_id": "api_key",
	"configs": "config", "prompt_slug": "prompt", "order_by_type": "order",
}

// RenameParams gives the parameters of a query the names that has reports true for. It returns
// the name that was sent for each renamed one.
func RenameParams(query url.Values, has func(name string) bool) (sent map[string]string, err error) {
	for old, name := range otherNames {
		values, ok := query[old]
		if !ok || has(old) || !has(name) {
			continue
		}
		if query.Has(name) {
			return nil, Invalid(old, "is another name of %s; send one of them", name)
		}
		query[name] = values
		delete(query, old)
		if sent == nil {
			sent = make(map[string]string)
		}
		sent[name] = old
	}
	return sent, nil
}

// AsSent returns err for the parameter names that the client sent.
func AsSent(err error, sent map[string]string) error {
	e, ok := err.(*apierr.Error)
	if !ok {
		return err
	}
	name, index, _ := strings.Cut(e.Param, "[") // of a list
	if sent[name] == "" {
		return err
	}
	named := *e
	if named.Param = sent[name]; index != "" {
		named.Param += "[" + index
	}
	for _, form := range [...]string{"NAME ", "NAME: ", `"NAME" `} {
		if rest, ok := strings.CutPrefix(e.Message, strings.Replace(form, "NAME", e.Param, 1)); ok {
			named.Message = strings.Replace(form, "NAME", named.Param, 1) + rest
		}
	}
	return &named
}

// params are the query parameters of a route.
type params struct {
	names []string
	lists []string // may be repeated
	times []string
}

// paramsOf returns the query parameters that an input declares.
func paramsOf(input reflect.Type) (p params) {
	for _, f := range reflect.VisibleFields(input) {
		name, _, _ := strings.Cut(f.Tag.Get("query"), ",")
		if name == "" {
			continue
		}
		p.names = append(p.names, name)
		if f.Type.Kind() == reflect.Slice {
			p.lists = append(p.lists, name)
		}
		if f.Type == reflect.TypeFor[time.Time]() {
			p.times = append(p.times, name)
		}
	}
	return p
}

// normalise gives parameters their declared names, joins the values of lists with commas, and
// makes times absolute, as handlers read them. Times without an offset are in UTC.
func (p *params) normalise(req *http.Request, c *Caller) error {
	if req.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil // reported later
	}
	if c.sent, err = RenameParams(query, func(name string) bool { return slices.Contains(p.names, name) }); err != nil {
		return err
	}
	for _, name := range p.lists {
		if values := query[name]; len(values) > 1 {
			query[name] = []string{strings.Join(values, ",")}
		}
	}
	for _, name := range p.times {
		values := query[name]
		if len(values) != 1 || values[0] == "" {
			continue // reported later
		}
		t, err := moment.Parse(values[0], c.Now, time.UTC)
		if err != nil {
			return AsSent(Invalid(name, "%v", err), c.sent)
		}
		query[name] = []string{t.UTC().Format(time.RFC3339Nano)}
	}
	u := *req.URL
	u.RawQuery = query.Encode()
	req.URL = &u
	return nil
}
