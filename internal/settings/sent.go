package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"modelgate/internal/base/secret"
	"modelgate/internal/format/jsonedit"
)

// maxSentDepth is how deep a state of a request may be nested. Parsing takes quadratic time
// in it.
const maxSentDepth = 64

// accessSections say who may use the gateway. They are not in a state that is sent to or by a
// gateway: a hash of a key or an address of a user in it would give rights to whoever chose it.
var accessSections = []string{"members", "keys", "deployments", "identity_providers", "domains", "directory_mappings", "workload_identities"}

// stateSections are the sections with objects of the control plane, and the version.
var stateSections = memberNames(reflect.TypeFor[document]())

// memberNames returns the names of the members of a struct in JSON.
func memberNames(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" {
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
	for key, section := range value.Fields() {
		name := key.String()
		switch {
		case slices.Contains(accessSections, name):
			return nil, &FileError{Path: name, Problem: "says who may use the gateway, which a file cannot change over the API; " +
				"remove the section and use the routes or commands for it, or apply the file next to the database"}
		case !slices.Contains(stateSections, name):
			return nil, &FileError{Path: name, Problem: fmt.Sprintf("is not a section of a state; those are %s", strings.Join(sentSections(), ", "))}
		case isDeep(section, maxSentDepth):
			return nil, &FileError{Path: name, Problem: fmt.Sprintf("is nested more than %d levels deep", maxSentDepth)}
		}
	}
	return parse("", state, SecretResolver{Env: func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}})
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

// SentState returns the state of s as [ParseSent] takes it: without the sections that say who
// may use the gateway, but with all others even if they are empty.
func (s *Settings) SentState() (json.RawMessage, error) {
	out := *s
	out.Members, out.Keys, out.Deployments, out.IdentityProviders = nil, nil, nil, nil
	out.Domains, out.DirectoryMappings, out.WorkloadIdentities = nil, nil, nil
	text, err := json.Marshal(out.document())
	if err != nil {
		return nil, fmt.Errorf("writing the state: %w", err)
	}
	return text, nil
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
	var all Object
	if err := yaml.Unmarshal(b, &all); err != nil {
		return nil, syntaxError(path, err)
	}
	out := &Sending{Variables: make(map[string]string), file: &Settings{file: path, source: b}}
	value, err := jsonedit.ParseValue([]byte(orText(all, "{}")))
	if err != nil {
		return nil, &FileError{File: path, Problem: err.Error()}
	}
	var kept bytes.Buffer
	for key, section := range value.Fields() {
		name := key.String()
		if name != "upstream" && !slices.Contains(stateSections, name) && slices.Contains(fileSections, name) {
			out.Skipped = append(out.Skipped, name)
			continue
		}
		if err := out.collect(section, lookup); err != nil {
			return nil, out.file.ErrorAt(name, err)
		}
		fmt.Fprintf(&kept, ",%s:%s", key.Raw(), section.Raw())
	}
	out.State = append(append([]byte{'{'}, bytes.TrimPrefix(kept.Bytes(), []byte{','})...), '}')
	return out, nil
}

// ErrorAt returns the problem that a gateway found at a path of the state, with its place in
// the file.
func (s *Sending) ErrorAt(path, problem string) *FileError {
	return s.file.ErrorAt(path, errors.New(problem))
}

// fileSections are all sections of a settings file.
var fileSections = memberNames(reflect.TypeFor[Settings]())

// collect adds the variables that a value names.
func (s *Sending) collect(v jsonedit.Value, lookup func(name string) (string, bool)) error {
	if text, ok := v.Text(); ok {
		if secret.IsSealed(text) {
			return errors.New("has a sealed value, which only the gateway's own master key opens; use ${NAME} for an environment variable here")
		}
		if m := envForm.FindStringSubmatch(text); m != nil {
			if value, set := lookup(m[1]); set {
				s.Variables[m[1]] = value
			}
		}
	}
	for _, field := range v.Fields() {
		if err := s.collect(field, lookup); err != nil {
			return err
		}
	}
	for element := range v.Elements() {
		if err := s.collect(element, lookup); err != nil {
			return err
		}
	}
	return nil
}

func orText(o Object, none string) string {
	if len(o) == 0 {
		return none
	}
	return string(o)
}
