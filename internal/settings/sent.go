package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
)

// Limits of a state in a request: how deep it may be nested, because parsing takes quadratic
// time in it, and how many objects its sections may have together, because other changes wait
// while it is applied.
const (
	maxSentDepth   = 64
	maxSentObjects = 2000
)

// accessSections say who may use the gateway. They are not in a state that is sent to or by a
// gateway: a hash of a key or an address of a user in it would give rights to whoever chose it.
var accessSections = []string{"members", "keys", "deployments", "identity_providers", "domains",
	"directory_mappings", "workload_identities"}

// stateSections are the sections with objects of the control plane, and the version.
var stateSections = memberNames(reflect.TypeFor[document]())

// memberNames returns the names of the members of a struct in JSON.
func memberNames(of reflect.Type) (names []string) {
	for field := range of.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// ParseSent parses the state of a request, a JSON object with sections of the control plane
// except those that say who may use the gateway. Its credentials are ${NAME} for one of
// variables: the environment of the process is not read. An error is a *FileError, or several
// joined, without a position.
func ParseSent(state []byte, variables map[string]string) (*Settings, error) {
	value, err := jsonedit.ParseValue(state)
	if err != nil || value.Kind() != jsonedit.Object {
		return nil, &FileError{Problem: "must be a JSON object"}
	}
	objects := 0
	for key, section := range value.Fields() {
		if err := checkSent(key.String(), section); err != nil {
			return nil, err
		}
		for range section.Elements() {
			objects++
		}
	}
	if objects > maxSentObjects {
		return nil, &FileError{Problem: fmt.Sprintf("has %d objects; send at most %d in a request, or apply the file next to the database", objects, maxSentObjects)}
	}
	s, err := parse("", state, SecretResolver{Env: func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}})
	if err != nil {
		return nil, err
	}
	for _, name := range s.sections { // as parsed, whatever the check above has read
		if err := checkSent(name, jsonedit.Value{}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkSent returns an error for a section that a request must not have.
func checkSent(name string, section jsonedit.Value) error {
	switch {
	case slices.Contains(accessSections, name):
		return &FileError{Path: name, Problem: "says who may use the gateway, which a file cannot change over the API; " +
			"remove the section and use the routes or commands for it, or apply the file next to the database"}
	case !slices.Contains(stateSections, name):
		return &FileError{Path: name, Problem: fmt.Sprintf("is not a section of a state; those are %s", strings.Join(sentSections(), ", "))}
	case isDeep(section, maxSentDepth):
		return &FileError{Path: name, Problem: fmt.Sprintf("is nested more than %d levels deep", maxSentDepth)}
	}
	return nil
}

func sentSections() []string {
	return slices.DeleteFunc(slices.Clone(stateSections), func(name string) bool { return slices.Contains(accessSections, name) })
}

// isDeep reports whether a value is nested more than most levels deep.
func isDeep(v jsonedit.Value, most int) bool {
	for _, field := range v.Fields() {
		if most == 0 || isDeep(field, most-1) {
			return true
		}
	}
	for element := range v.Elements() {
		if most == 0 || isDeep(element, most-1) {
			return true
		}
	}
	return false
}

// SentState returns the state of s as [ParseSent] takes it: every section, even if empty,
// except those that say who may use the gateway and those that skip reports.
func (s *Settings) SentState(skip func(section string) bool) (json.RawMessage, error) {
	text, err := json.Marshal(s.document())
	if err != nil {
		return nil, fmt.Errorf("writing the state: %w", err)
	}
	return withoutSections(text, func(name string) bool { return slices.Contains(accessSections, name) || skip(name) })
}

// withoutSections returns an object without the members whose name skip reports.
func withoutSections(object []byte, skip func(name string) bool) (json.RawMessage, error) {
	value, err := jsonedit.ParseValue(object)
	if err != nil {
		return nil, err
	}
	out := []byte{'{'}
	for key, section := range value.Fields() {
		if skip(key.String()) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key.Raw()...), ':'), section.Raw()...)
	}
	return append(out, '}'), nil
}

// WriteSent writes a state that a gateway sent as a file for [LoadSending].
func WriteSent(w io.Writer, state []byte) error { return writeYAML(w, state) }

// Sending is a file in the form in which it is sent to a gateway.
type Sending struct {
	State     json.RawMessage   // for [ParseSent]
	Variables map[string]string // those that the file names and that are set
	Skipped   []string          // sections of a gateway's own settings, which are not sent

	file *Settings
}

// LoadSending reads a file with control-plane objects to send it to a gateway. What it means
// is checked there. Errors are the same as those of [Load].
func LoadSending(path string, lookup func(name string) (string, bool)) (*Sending, error) {
	b, err := readFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, tooLarge(path, maxFile)
	}
	tree, err := parser.ParseBytes(b, 0)
	if err == nil {
		err = checkAliases(path, tree)
	}
	var all Object
	if err == nil && len(tree.Docs) > 0 && tree.Docs[0].Body != nil {
		err = yaml.NodeToValue(tree.Docs[0].Body, &all)
	}
	if err != nil {
		return nil, syntaxError(path, err)
	}
	out := &Sending{Variables: make(map[string]string), file: &Settings{file: path, source: b}}
	text := []byte(orText(all, "{}"))
	value, err := jsonedit.ParseValue(text)
	if err != nil {
		return nil, &FileError{File: path, Problem: err.Error()}
	}
	for key, section := range value.Fields() {
		name := key.String()
		if isGatewaySection(name) {
			out.Skipped = append(out.Skipped, name)
		} else if err := out.collect(name, section, lookup); err != nil {
			return nil, err
		}
	}
	out.State, err = withoutSections(text, isGatewaySection)
	return out, err
}

// isGatewaySection reports whether a section is one of a gateway's own settings. With upstream, a file
// says which hosts it trusts, so it is not left out silently.
func isGatewaySection(section string) bool {
	return section != "upstream" && !slices.Contains(stateSections, section) && slices.Contains(fileSections, section)
}

// ErrorAt returns the problem that a gateway found at a path of the state, with its place in
// the file.
func (s *Sending) ErrorAt(path, problem string) *FileError {
	return s.file.ErrorAt(path, errors.New(problem))
}

// fileSections are all sections of a settings file.
var fileSections = memberNames(reflect.TypeFor[Settings]())

// collect adds the variables that the value at a path names.
func (s *Sending) collect(path string, v jsonedit.Value, lookup func(name string) (string, bool)) error {
	if text, ok := v.Text(); ok {
		if secret.IsSealed(text) {
			return s.file.ErrorAt(path, errors.New("has a sealed value, which only the gateway's own master key opens; use ${NAME} for an environment variable here"))
		}
		if m := envForm.FindStringSubmatch(text); m != nil {
			if value, set := lookup(m[1]); set {
				s.Variables[m[1]] = value
			}
		}
	}
	for key, field := range v.Fields() {
		if err := s.collect(path+"."+key.String(), field, lookup); err != nil {
			return err
		}
	}
	i := 0
	for element := range v.Elements() {
		if err := s.collect(fmt.Sprintf("%s[%d]", path, i), element, lookup); err != nil {
			return err
		}
		i++
	}
	return nil
}

func orText(o Object, none string) string {
	if len(o) == 0 {
		return none
	}
	return string(o)
}
