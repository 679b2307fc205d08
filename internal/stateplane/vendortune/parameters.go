package vendortune

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"modelgate/internal/base/apierr"
)

// Types of training.
const (
	supervised    = "supervised"
	dpo           = "dpo"
	reinforcement = "reinforcement"
)

// method is a type of training that a vendor has. Without a table the hyper-parameters are
// sent as they are.
type method struct {
	name       string
	parameters []parameter
}

// parameter is a hyper-parameter of the unified shape, and where the vendor has it.
type parameter struct {
	name  string
	field string // path in the vendor's body
	form  form
}

// form is how a vendor writes a number.
type form uint8

const (
	plainNumber form = iota
	textNumber       // as a string
	adapterSize      // as a word of Google's enumeration
)

// adapterSizes are the words for sizes of adapters.
// https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/projects.locations.tuningJobs
var adapterSizes = map[string]string{
	"1": "ADAPTER_SIZE_ONE", "2": "ADAPTER_SIZE_TWO", "4": "ADAPTER_SIZE_FOUR", "8": "ADAPTER_SIZE_EIGHT",
	"16": "ADAPTER_SIZE_SIXTEEN", "32": "ADAPTER_SIZE_THIRTY_TWO",
}

// under puts the fields of parameters below a path.
func under(path string, list ...parameter) []parameter {
	moved := slices.Clone(list)
	for i := range moved {
		moved[i].field = path + "." + moved[i].field
	}
	return moved
}

// CheckInput returns an error if the vendor can't do what a body asks for. It names the
// member, and what the vendor has instead.
func (v *Vendor) CheckInput(in *Input) error {
	m := v.method(in.methodType)
	switch {
	case m == nil:
		return refuse("method.type", "provider %q has no training of the type %q; it has %s", v.id, in.methodType, v.methodNames())
	case utf8.RuneCountInString(in.Suffix) > v.suffix:
		return refuse("suffix", "suffix must be a string of at most %d characters for provider %q", v.suffix, v.id)
	case v.noSeed && in.Seed != nil:
		return refuse("seed", "provider %q has no seed: leave it out", v.id)
	case !v.anyMembers && len(in.unknown) > 0:
		return refuse(in.unknown[0], "provider %q has no parameter %q: leave it out", v.id, in.unknown[0])
	}
	if err := v.checkIntegrations(in); err != nil {
		return err
	}
	if m.parameters == nil {
		return nil
	}
	for name, value := range in.hyperparameters {
		if err := v.checkParameter(m, name, value); err != nil {
			return err
		}
	}
	return v.checkMethodMembers(in)
}

func refuse(param, format string, args ...any) error {
	return apierr.New(apierr.Invalid, format, args...).WithParam(param).WithCode("unsupported_parameter")
}

func (v *Vendor) method(name string) *method {
	for i := range v.methods {
		if v.methods[i].name == name {
			return &v.methods[i]
		}
	}
	return nil
}

func (v *Vendor) methodNames() string {
	var names []string
	for _, m := range v.methods {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

func (v *Vendor) checkParameter(m *method, name string, value hyperparameter) error {
	var names []string
	for _, p := range m.parameters {
		if p.name == name {
			return p.check(value)
		}
		names = append(names, p.name)
	}
	return refuse(value.path, "%s: provider %q has no such hyper-parameter; it has %s", value.path, v.id, strings.Join(names, ", "))
}

// check returns an error if a value is not a number that the vendor can read.
func (p parameter) check(value hyperparameter) error {
	text := string(value.raw)
	switch _, err := strconv.ParseFloat(text, 64); {
	case text == `"auto"`:
		return nil
	case err != nil:
		return refuse(value.path, "%s must be a number or \"auto\"", value.path)
	case p.form == adapterSize && adapterSizes[text] == "":
		return refuse(value.path, "%s must be 1, 2, 4, 8, 16 or 32", value.path)
	}
	return nil
}

// checkMethodMembers refuses members of the method other than hyper-parameters, such as
// graders: no vendor with a table has them.
func (v *Vendor) checkMethodMembers(in *Input) error {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(in.method, &members) // it has been checked, or there is none
	for _, name := range sortedKeys(members) {
		if name != "type" && name != in.methodType && string(members[name]) != "null" {
			return refuse("method."+name, "method.%s does not belong to the type %q: leave it out", name, in.methodType)
		}
	}
	var inner map[string]json.RawMessage
	_ = json.Unmarshal(members[in.methodType], &inner)
	for _, name := range sortedKeys(inner) {
		if path := "method." + in.methodType + "." + name; name != "hyperparameters" {
			return refuse(path, "%s: provider %q has no such member", path, v.id)
		}
	}
	return nil
}

// object is a JSON object in the vendor's shape.
type object map[string]any

// set sets the value at a path of names with dots. It replaces nothing but objects that it
// made.
func (o object) set(path string, value any) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		o[name] = value
		return
	}
	inner, ok := o[name].(object)
	if !ok {
		inner = object{}
		o[name] = inner
	}
	inner.set(rest, value)
}

// setText does the same unless the value is empty.
func (o object) setText(path, value string) {
	if value != "" {
		o.set(path, value)
	}
}

// setParameters writes the hyper-parameters of a body that has been checked. What is
// "auto" is left out: all vendors then choose.
func (s *session) setParameters(o object, in *Input) {
	for _, p := range s.method(in.methodType).parameters {
		value, ok := in.hyperparameters[p.name]
		text := string(value.raw)
		if !ok || text == `"auto"` {
			continue
		}
		switch p.form {
		case textNumber:
			o.set(p.field, text)
		case adapterSize:
			o.set(p.field, adapterSizes[text])
		default:
			o.set(p.field, json.Number(text))
		}
	}
}

// parameters reads the hyper-parameters of a vendor's job.
func (s *session) parameters(methodType string, job json.RawMessage) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	m := s.method(methodType)
	if m == nil {
		return all
	}
	for _, p := range m.parameters {
		if number := p.read(valueAt(job, p.field)); number != nil {
			all[p.name] = number
		}
	}
	return all
}

// read returns the number of a vendor's value, or nil.
func (p parameter) read(value json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(value, &text) != nil {
		text = string(value)
	}
	if p.form == adapterSize {
		for size, word := range adapterSizes {
			if word == text {
				return json.RawMessage(size)
			}
		}
		return nil
	}
	var number float64
	if json.Unmarshal([]byte(text), &number) != nil || text == "null" {
		return nil
	}
	return json.RawMessage(text)
}

// valueAt returns the value at a path of names with dots, or nil.
func valueAt(raw json.RawMessage, path string) json.RawMessage {
	for name := range strings.SplitSeq(path, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil
		}
		raw = members[name]
	}
	return raw
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
