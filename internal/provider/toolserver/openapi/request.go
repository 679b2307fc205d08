package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Limits of requests, in bytes.
const (
	maxRequest = 16 << 10 // of the path with the query
	maxHeader  = 8 << 10  // of the value of a header
)

// Request is the request of a call of a tool.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte // nil for none
}

// Request returns the request of a call of t with arguments, a JSON object or nothing, to the API
// at base. An error says what the caller can change.
func (t *Tool) Request(base *url.URL, arguments []byte) (*Request, error) {
	args, err := readArguments(arguments)
	if err != nil {
		return nil, err
	}
	for place := range args {
		if !slices.Contains([]string{"path", "query", "header", "body"}, place) {
			return nil, fmt.Errorf("the argument %.60q is unknown; arguments are path, query, header and body", place)
		}
	}
	r := &Request{Method: t.method, Header: http.Header{"Accept": {t.accept}}}
	values := map[string]string{} // of the path, encoded
	query := strings.Builder{}
	for _, place := range [...]string{"path", "query", "header"} {
		given, err := readPlace(args, place)
		if err != nil {
			return nil, err
		}
		for _, p := range t.params {
			if p.in != place {
				continue
			}
			v, has := given[p.name]
			delete(given, p.name)
			if !has || v.IsNull() {
				if p.required {
					return nil, fmt.Errorf("%s.%s is required", place, p.name)
				}
				continue
			}
			if err := r.add(&p, v, values, &query); err != nil {
				return nil, fmt.Errorf("%s.%s %w", place, p.name, err)
			}
		}
		for name := range given {
			return nil, fmt.Errorf("%s.%.60s is not a parameter of the tool", place, name)
		}
	}
	if err := r.setBody(t, args["body"]); err != nil {
		return nil, err
	}
	return r, r.setURL(base, t.path, values, query.String())
}

// readArguments returns the members of the arguments.
func readArguments(arguments []byte) (map[string]jsonedit.Value, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		return nil, nil
	}
	return readObject(arguments, "the arguments")
}

func readPlace(args map[string]jsonedit.Value, place string) (map[string]jsonedit.Value, error) {
	v, ok := args[place]
	if !ok || v.IsNull() {
		return nil, nil
	}
	return readObject(v.Raw(), place)
}

// readObject returns the members of an object, none of which it has twice.
func readObject(raw []byte, what string) (map[string]jsonedit.Value, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(raw); err != nil {
		return nil, fmt.Errorf("%s must be an object that names nothing twice", what)
	}
	out := make(map[string]jsonedit.Value, doc.Len())
	for key, v := range doc.Members() {
		out[key.String()] = v
	}
	return out, nil
}

// add adds the value of a parameter.
func (r *Request) add(p *param, v jsonedit.Value, path map[string]string, query *strings.Builder) error {
	switch p.in {
	case "path":
		text, err := simple(p, v, encodeSegment)
		if err == nil && text == "" {
			err = errors.New("must not be empty")
		}
		path[p.name] = text
		return err
	case "header":
		text, err := simple(p, v, plainHeader)
		if len(text) > maxHeader {
			return errors.New("is too long")
		}
		if err == nil {
			r.Header[http.CanonicalHeaderKey(p.name)] = []string{text}
		}
		return err
	}
	pairs, err := queryPairs(p, v)
	for _, pair := range pairs {
		if query.Len() > 0 {
			query.WriteByte('&')
		}
		query.WriteString(pair)
	}
	return err
}

// simple returns a value in the style simple, whose parts are encoded.
// https://spec.openapis.org/oas/v3.1.1.html#style-examples
func simple(p *param, v jsonedit.Value, encode func(string) (string, error)) (string, error) {
	if p.json {
		return encode(string(v.Raw()))
	}
	var parts []string
	var err error
	add := func(v jsonedit.Value, before string) {
		text, ok := scalar(v)
		if !ok && err == nil {
			err = errNested
		}
		encoded, problem := encode(text)
		if problem != nil && err == nil {
			err = problem
		}
		parts = append(parts, before+encoded)
	}
	switch v.Kind() {
	case jsonedit.Array:
		for e := range v.Elements() {
			add(e, "")
		}
	case jsonedit.Object:
		for key, e := range v.Fields() {
			name, problem := encode(key.String())
			if problem != nil && err == nil {
				err = problem
			}
			if p.explode {
				add(e, name+"=")
			} else {
				parts = append(parts, name)
				add(e, "")
			}
		}
	default:
		add(v, "")
	}
	return strings.Join(parts, ","), err
}

var errNested = errors.New("must not contain lists, objects or null in itself")

// queryPairs returns the pairs of a parameter of the query, encoded.
func queryPairs(p *param, v jsonedit.Value) (pairs []string, err error) {
	name := encode(p.name)
	if p.json {
		return []string{name + "=" + encode(string(v.Raw()))}, nil
	}
	if p.deep && v.Kind() != jsonedit.Object {
		return nil, errors.New("must be an object")
	}
	var parts []string
	scalarOf := func(v jsonedit.Value) string {
		text, ok := scalar(v)
		if !ok {
			err = errNested
		}
		return encode(text)
	}
	switch v.Kind() {
	case jsonedit.Array:
		for e := range v.Elements() {
			if p.explode {
				pairs = append(pairs, name+"="+scalarOf(e))
			} else {
				parts = append(parts, scalarOf(e))
			}
		}
	case jsonedit.Object:
		for key, e := range v.Fields() {
			switch {
			case e.IsNull():
			case p.deep:
				pairs = append(pairs, name+"%5B"+encode(key.String())+"%5D="+scalarOf(e))
			case p.explode:
				pairs = append(pairs, encode(key.String())+"="+scalarOf(e))
			default:
				parts = append(parts, encode(key.String()), scalarOf(e))
			}
		}
	default:
		parts = []string{scalarOf(v)}
	}
	if len(parts) > 0 {
		pairs = append(pairs, name+"="+strings.Join(parts, ","))
	}
	return pairs, err
}

// scalar returns the text of a string, a number or a boolean.
func scalar(v jsonedit.Value) (text string, ok bool) {
	switch v.Kind() {
	case jsonedit.String:
		return v.Text()
	case jsonedit.Number, jsonedit.Bool:
		return string(v.Raw()), true
	}
	return "", false
}

// setBody sets the body.
func (r *Request) setBody(t *Tool, v jsonedit.Value) error {
	given := v.Raw() != nil && !v.IsNull()
	switch {
	case !given && t.needsArg && t.body != "":
		return errors.New("body is required")
	case !given:
		return nil
	case t.body == "":
		return errors.New("the tool has no body")
	case t.body != formBody:
		r.Body = v.Raw()
	default:
		fields, err := readObject(v.Raw(), "body")
		if err != nil {
			return err
		}
		var pairs []string
		for name, field := range fields {
			if field.IsNull() {
				continue
			}
			list, err := queryPairs(&param{name: name, explode: true}, field)
			if field.Kind() == jsonedit.Object || err != nil {
				return fmt.Errorf("body.%.60s cannot be sent in a form: it must be a string, a number, a boolean or a list of those", name)
			}
			pairs = append(pairs, list...)
		}
		slices.Sort(pairs)
		r.Body = []byte(strings.Join(pairs, "&"))
	}
	r.Header["Content-Type"] = []string{t.body}
	return nil
}

// setURL sets the address.
func (r *Request) setURL(base *url.URL, pieces []piece, values map[string]string, query string) error {
	var b, fixed strings.Builder
	b.WriteString(strings.TrimSuffix(base.EscapedPath(), "/"))
	fixed.WriteString(b.String())
	for _, p := range pieces {
		b.WriteString(p.text)
		b.WriteString(values[p.param]) // nothing for text
		fixed.WriteString(p.text)
		if p.param != "" {
			fixed.WriteByte('x')
		}
	}
	path := b.String()
	if len(path)+len(query) > maxRequest {
		return fmt.Errorf("path and query must not have more than %d bytes", maxRequest)
	}
	plain, err := url.PathUnescape(path)
	if err != nil || climbs(plain) || separators(path) != separators(fixed.String()) { // two parameters together may be what neither is
		return errors.New("the path must not lead to another one")
	}
	r.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, User: base.User, Path: plain, RawPath: path, RawQuery: query}
	return nil
}
