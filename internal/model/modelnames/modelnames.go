// Package modelnames finds the models that a request names.
//
// It reads JSON, forms, queries, headers and paths as the most lenient provider
// would: names of members in any capitals and spelling, lists of fallbacks,
// models of tools. It guarantees that a model that such a provider would take is
// among the result, or that the result is an [UnreadableError]. It does not know
// which models are allowed, and may name what a provider ignores.
package modelnames

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"modelgate/internal/base/urlpath"
	"modelgate/internal/format/jsonedit"
)

// UnreadableError says why the models of a request cannot be known.
type UnreadableError struct{ Reason string }

func (e *UnreadableError) Error() string { return e.Reason }

func readError(reason string) error { return &UnreadableError{reason} }

// JSON returns the models that a JSON document names, without empty ones.
// Messages, schemas of tools and metadata are not searched: what they hold is
// data.
func JSON(document []byte) ([]string, error) {
	v, err := jsonedit.ParseValue(document)
	if err != nil {
		return nil, readError("the body is not JSON that every reader reads alike")
	}
	var w walker
	w.value(v, scope{top: true})
	return w.names, w.err
}

// Document returns the models that a document names outside of its tools, as JSON does,
// without the two known ones, which may be empty. It does not allocate if there are no
// others.
func Document(doc *jsonedit.Doc, known1, known2 string) ([]string, error) {
	w := walker{known: [2]string{known1, known2}}
	for key, v := range doc.Members() {
		w.member(key, v, scope{depth: 1, top: true, noTools: true})
	}
	return w.names, w.err
}

// maxNesting is the maximum depth of members that are searched.
const maxNesting = 16

// walker collects models. It stops at the first error.
type walker struct {
	known [2]string // are not collected
	names []string
	found int // number of models, with the known ones
	err   error
}

// scope is the place of a value in a document.
type scope struct {
	depth int
	top   bool // the document itself, or its element if it is an array
	tools bool // inside a list of tools

	noTools bool // tools are not searched
	schemas bool // the member parameters is the schema of a function
}

func (w *walker) value(v jsonedit.Value, s scope) {
	switch v.Kind() {
	case jsonedit.Object, jsonedit.Array:
	default:
		return
	}
	if s.depth++; s.depth > maxNesting {
		w.err = readError("the body is nested too deep to be searched")
	}
	if w.err != nil {
		return
	}
	for element := range v.Elements() {
		w.value(element, s)
	}
	s.schemas = s.tools && isFunction(v)
	for key, field := range v.Fields() {
		w.member(key, field, s)
	}
}

// isFunction reports whether an object in a list of tools is a function of the
// client or a part of one. The parameters of other tools, which a provider runs
// itself, are settings and may name a model.
// https://openrouter.ai/docs/guides/features/server-tools/image-generation
func isFunction(v jsonedit.Value) bool {
	for key, field := range v.Fields() {
		if kind, ok := field.Text(); ok && normal(key.String()) == "type" && kind != "function" {
			return false
		}
	}
	return true
}

func (w *walker) member(name jsonedit.Key, v jsonedit.Value, s scope) {
	var buf [32]byte
	text, _ := jsonedit.Value(name).TextBytes()
	key := string(appendNormal(buf[:0], text)) // on the stack
	tools := key == "tools" || key == "functions" || key == "toolconfig"
	inner := scope{depth: s.depth, tools: s.tools || tools}
	switch {
	case tools && s.noTools:
	case isModel(key), s.top && choosers[key]:
		w.model(key, v, inner)
	case s.top && elsewhere[key] != "" && v.Kind() != jsonedit.Null:
		w.err = readError(elsewhere[key])
	case data[key], s.schemas && key == "parameters", s.top && key == "input" && v.Kind() != jsonedit.Object:
	default:
		w.value(v, inner)
	}
}

// model takes the value of a member that names models.
func (w *walker) model(key string, v jsonedit.Value, s scope) {
	switch v.Kind() {
	case jsonedit.String:
		w.add(v)
	case jsonedit.Array:
		for element := range v.Elements() {
			w.model(key, element, s)
		}
	case jsonedit.Object:
		before := w.found
		if w.value(v, s); w.found == before && w.err == nil {
			w.err = readError("the member " + key + " is an object that names no model")
		}
	case jsonedit.Null:
	default:
		if key == "model" || key == "models" {
			w.err = readError("the member " + key + " is not a string")
		}
	}
}

func (w *walker) add(v jsonedit.Value) {
	text, _ := v.TextBytes()
	if len(text) == 0 {
		return
	}
	if w.found++; string(text) != w.known[0] && string(text) != w.known[1] {
		w.names = append(w.names, string(text))
	}
}

// normal returns a name in the form in which lenient parsers compare it:
// without case (as in [strings.EqualFold]), dashes, underscores, spaces and
// control characters.
func normal(name string) string {
	var buf [32]byte
	return string(appendNormal(buf[:0], []byte(name)))
}

// appendNormal appends the normal form of a name to dst.
func appendNormal(dst, name []byte) []byte {
	start := len(dst)
	for _, c := range name {
		switch {
		case c >= utf8.RuneSelf:
			return append(dst[:start], normalUnicode(string(name))...)
		case c == '_', c == '-', c <= ' ', c == 0x7f:
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c+'a'-'A')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func normalUnicode(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_', r == '-', r <= ' ', r == 0x7f:
			return -1
		case r == 'ſ':
			return 's'
		case r == '\u212a': // the Kelvin sign
			return 'k'
		}
		return r
	}, strings.ToLower(name))
}

// isModel reports whether a member with this normal name holds models anywhere
// in a document: model, models, fallbacks, model_id, embedding_model and
// others.
func isModel(key string) bool {
	for _, end := range [...]string{"model", "models", "modelid", "modelids", "modelname", "modelnames", "modelarn", "modeluri",
		"modelidentifier", "fallbacks", "modelversion"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// choosers are members that select a model at the top level of a body.
var choosers = map[string]bool{
	"engine": true, "engineid": true, "deployment": true, "deploymentid": true, "deploymentname": true, "preset": true, "version": true,
}

const inFile = "its models are in a file that was uploaded before"

// elsewhere are members at the top level of a body that refer to what names the
// models, each with the error for it: batches of files, whose requests may each
// name a model, and agents.
// https://docs.mistral.ai/studio-api/batch-processing
// https://learn.microsoft.com/azure/ai-services/openai/how-to/batch-blob-storage
var elsewhere = map[string]string{"inputfileid": inFile, "inputfiles": inFile, "inputblob": inFile,
	"agentid": "its model is that of an agent"}

// data are members in which no provider looks for a model.
var data = map[string]bool{
	"messages": true, "content": true, "contents": true, "system": true, "systeminstruction": true, "instructions": true,
	"metadata": true, "labels": true, "arguments": true, "variables": true, "documents": true, "texts": true, "examples": true,
	"schema": true, "jsonschema": true, "inputschema": true, "responseschema": true, "responsejsonschema": true, "parametersjsonschema": true,
	"properties": true,
}

// Form returns the models that a body of the type
// application/x-www-form-urlencoded names.
func Form(body string) ([]string, error) {
	return pairs(body, func(key string) bool { return isModel(key) || choosers[key] })
}

// Query returns the models that a query names.
func Query(query string) ([]string, error) {
	return pairs(query, func(key string) bool { return isModel(key) || choosers[key] && key != "version" })
}

// pairs reads names and values separated by & and, as in older parsers, by
// semicolons.
func pairs(text string, names func(key string) bool) ([]string, error) {
	var models []string
	for _, pair := range append(strings.FieldsFunc(text, func(r rune) bool { return r == '&' || r == ';' }), strings.Split(text, "&")...) {
		key, value, _ := strings.Cut(pair, "=")
		if !names(fieldKey(key)) {
			continue
		}
		plain, err := url.QueryUnescape(value)
		if err != nil {
			return nil, readError("the model in the query or form is not percent-encoded as it should be")
		}
		if plain != "" {
			models = append(models, plain)
		}
	}
	return models, nil
}

// fieldKey returns the normal name of a field of a form or query. It is
// unescaped and without the brackets of a list.
func fieldKey(name string) string {
	name = urlpath.Decode(strings.ReplaceAll(name, "+", " "))
	name, _, _ = strings.Cut(name, "[")
	return strings.TrimSuffix(normal(name), ".")
}

// Header returns the models that request headers name, such as
// azureml-model-deployment.
func Header(h http.Header) []string {
	var models []string
	for name, values := range h {
		if key := normal(name); isModel(key) || strings.HasSuffix(key, "deployment") {
			models = append(models, values...)
		}
	}
	return models
}

// markers are path segments that precede a model.
var markers = map[string]bool{"models": true, "model": true, "engines": true, "deployments": true, "endpoints": true, "inference": true,
	"run": true, "tunedmodels": true}

// Path returns the models that a path may name, the longest last: models of
// some providers contain slashes, and some paths end in a colon and a verb. It
// is nil for a path without a model.
func Path(path string) []string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i, s := range segments {
		segments[i] = urlpath.Decode(s)
	}
	for i, s := range segments {
		if rest := segments[i+1:]; markers[normal(s)] && len(rest) > 0 && rest[0] != "openapi" {
			return spellings(rest)
		}
	}
	return nil
}

// FullPath returns the models that a path may name at a provider whose paths
// are its models.
func FullPath(path string) []string { return spellings(strings.Split(strings.Trim(path, "/"), "/")) }

func spellings(rest []string) []string {
	var list []string
	for n := 1; n <= len(rest); n++ {
		name := strings.Join(rest[:n], "/")
		list = append(list, name)
		if at := strings.LastIndexByte(name, ':'); at > 0 {
			list = append(list, name[:at])
		}
	}
	return list
}
