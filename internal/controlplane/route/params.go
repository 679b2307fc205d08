package route

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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
	return rename(query, has, Invalid)
}

// rename gives members the names that has reports true for, from either side of otherNames.
func rename[V any](members map[string]V, has func(name string) bool,
	invalid func(name, format string, args ...any) error) (sent map[string]string, err error) {
	for other, name := range otherNames {
		for _, pair := range [...][2]string{{other, name}, {name, other}} {
			from, to := pair[0], pair[1]
			value, ok := members[from]
			if !ok || has(from) || !has(to) {
				continue
			}
			if _, twice := members[to]; twice {
				return nil, invalid(from, "is another name of %s; send one of them", to)
			}
			members[to] = value
			delete(members, from)
			if sent == nil {
				sent = make(map[string]string)
			}
			sent[to] = from
		}
	}
	return sent, nil
}

// RestoreNames returns err with the names of parameters that the client sent.
func RestoreNames(err error, sent map[string]string) error {
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

// FutureTime parses a time that must be after now, unless the caller restores a row. Field is its
// name in the request. Times without an offset are in UTC.
func (c *Caller) FutureTime(field, text string) (time.Time, error) {
	t, err := moment.Parse(text, c.Now, time.UTC)
	if err != nil || !t.After(c.Now) && !c.Restores() {
		return time.Time{}, Invalid(field, FutureForm)
	}
	return t.UTC().Truncate(time.Millisecond), nil
}

// FutureForm is the message for a time that is not a future one.
const FutureForm = "must be a future time such as 2026-12-31T12:00:00Z, 2026-12-31 or, from now, +90d"

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
			return RestoreNames(Invalid(name, "%v", err), c.sent)
		}
		query[name] = []string{t.UTC().Format(time.RFC3339Nano)}
	}
	u := *req.URL
	u.RawQuery = query.Encode()
	req.URL = &u
	return nil
}

// filterMember is the member of bodies that has the filters of a query.
const filterMember = "filters"

// filtersOf returns the members of the filters in the body of an input; none without filters.
func filtersOf(input reflect.Type) (p params) {
	body, ok := input.FieldByName("Body")
	if !ok || body.Type.Kind() != reflect.Struct {
		return p
	}
	for _, f := range reflect.VisibleFields(body.Type) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != filterMember {
			continue
		}
		of := f.Type
		if value, ok := of.FieldByName("Value"); ok { // of an Optional
			of = value.Type
		}
		for _, m := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(m.Tag.Get("json"), ",")
			if p.names = append(p.names, name); m.Type == reflect.TypeFor[time.Time]() {
				p.times = append(p.times, name)
			}
		}
	}
	return p
}

// normaliseFilters gives the filters in a body their declared names and makes times absolute,
// like [params.normalise] of a query.
func (r *Route) normaliseFilters(req *http.Request, c *Caller) error {
	var body, filters map[string]json.RawMessage
	if r.filters.names == nil || json.Unmarshal(c.body, &body) != nil || json.Unmarshal(body[filterMember], &filters) != nil {
		return nil // reported later
	}
	invalid := func(name, format string, args ...any) error { return Invalid(filterMember+"."+name, format, args...) }
	sent, err := rename(filters, func(name string) bool { return slices.Contains(r.filters.names, name) }, invalid)
	if err != nil {
		return err
	}
	for name, old := range sent {
		if c.sent == nil {
			c.sent = make(map[string]string)
		}
		c.sent[filterMember+"."+name] = filterMember + "." + old
	}
	changed := len(sent) > 0
	for _, name := range r.filters.times {
		var text string
		if json.Unmarshal(filters[name], &text) != nil {
			continue
		}
		t, err := moment.Parse(text, c.Now, time.UTC)
		if err != nil {
			return RestoreNames(invalid(name, "%v", err), c.sent)
		}
		changed, filters[name] = true, []byte(strconv.Quote(t.UTC().Format(time.RFC3339Nano)))
	}
	if !changed {
		return nil
	}
	if body[filterMember], err = json.Marshal(filters); err == nil {
		c.body, err = json.Marshal(body)
	}
	req.Body = io.NopCloser(bytes.NewReader(c.body))
	return err
}
