package guardrail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/base/secret"
)

// Type is the JSON type of a parameter.
type Type string

// Types of parameters.
const (
	String       Type = "string"
	Integer      Type = "integer"
	Number       Type = "number"
	Boolean      Type = "boolean"
	StringList   Type = "array of strings"
	StringOrList Type = "string or array of strings" // a string is split at commas
	Object       Type = "object"
	StringMap    Type = "object with string values" // or such an object as JSON text
	JSON         Type = "any JSON"
)

// Param defines a parameter of a check.
type Param struct {
	Name     string
	Type     Type
	Doc      string
	Required bool
	Default  string   // as JSON; empty means absent
	Enum     []string // allowed strings, also of lists
	Min, Max float64  // of numbers; no limits if both are 0
}

var kindNames = map[string]Kind{
	"text": Text, "tool_arguments": ToolArguments, "thinking": Thinking,
	"image_prompt": ImagePrompt, "embedding_input": EmbeddingInput, "parameters": Parameters,
}

// common returns the parameters that checks have in addition to their own.
func (d *Definition) common() []Param {
	list := []Param{
		{Name: "is_enabled", Type: Boolean, Default: "true", Doc: "`false` leaves the check out."},
		{Name: "failOnError", Type: Boolean,
			Doc: "Whether an error of the check itself is a failure. By default the setting of the gateway decides."},
		{Name: "timeout", Type: Integer, Min: 1, Max: float64(MaxTimeout / time.Millisecond), Doc: "Time limit in milliseconds."},
	}
	if !d.All && !d.Facts {
		list = append(list,
			Param{Name: "scope", Type: String, Enum: []string{"last", "all"},
				Default: `"last"`, Doc: "`last` checks the last message of a request, `all` the system prompt and earlier messages too."})
	}
	if !d.Facts {
		list = append(list,
			Param{Name: "kinds", Type: StringList,
				Enum: []string{"text", "tool_arguments", "thinking", "image_prompt", "embedding_input", "parameters"}, Doc: "Kinds of texts to check."})
	}
	if len(d.Credentials) > 0 {
		list = append(list,
			Param{Name: "credentials", Type: Object, Doc: "Credentials: " + strings.Join(d.Credentials, ", ") +
				". By default those stored for the partner. Given and stored credentials are never mixed."})
	}
	return list
}

// AllParams returns the parameters of the check, its own ones first.
func (d *Definition) AllParams() []Param {
	own := slices.Clone(d.Params)
	for _, c := range d.common() {
		if !slices.ContainsFunc(own, func(p Param) bool { return p.Name == c.Name }) {
			own = append(own, c)
		}
	}
	return own
}

// Params are the validated parameters of one check.
type Params struct {
	values  map[string]any
	given   map[string]bool
	raw     map[string]json.RawMessage
	on      Event
	from    origin
	timeout time.Duration

	compilation Compilation
}

// Has reports whether the parameter was given.
func (p *Params) Has(name string) bool { return p.given[name] }

// Event returns the event that the check is compiled for.
func (p *Params) Event() Event { return p.on }

// Saved reports whether the check is one of a saved guardrail.
func (p *Params) Saved() bool { return p.from.saved }

// Compilation returns for whom the check is compiled.
func (p *Params) Compilation() Compilation { return p.compilation }

// Shared reports whether the check is one of a guardrail of the organisation; see
// [Saved].
func (p *Params) Shared() bool { return p.from.shared }

// Module returns a stored module for the parameter of this name. Only checks of
// saved guardrails have modules. An error is a *ParamError.
func (p *Params) Module(name string) (Module, error) {
	if p.from.module == nil {
		return Module{}, &ParamError{Path: name, Message: "can be used only in a saved guardrail; save one, and name it here"}
	}
	m, err := p.from.module(p.String(name))
	if err != nil {
		return Module{}, &ParamError{Path: name, Message: err.Error()}
	}
	return m, nil
}

// Timeout returns the time limit of the check.
func (p *Params) Timeout() time.Duration { return p.timeout }

// Bool returns a boolean parameter or its default.
func (p *Params) Bool(name string) bool { v, _ := p.values[name].(bool); return v }

// String returns a string parameter or its default.
func (p *Params) String(name string) string { v, _ := p.values[name].(string); return v }

// Number returns a number parameter or its default.
func (p *Params) Number(name string) float64 { v, _ := p.values[name].(float64); return v }

// Strings returns a list parameter or its default.
func (p *Params) Strings(name string) []string { v, _ := p.values[name].([]string); return v }

// Map returns a parameter that is an object with string values.
func (p *Params) Map(name string) map[string]string {
	v, _ := p.values[name].(map[string]string)
	return v
}

// Object returns a parameter that is an object.
func (p *Params) Object(name string) map[string]json.RawMessage {
	v, _ := p.values[name].(map[string]json.RawMessage)
	return v
}

// Raw returns the JSON of a parameter, nil if it was not given.
func (p *Params) Raw(name string) json.RawMessage { return p.raw[name] }

// Credentials returns the credentials in the parameters, nil if there are none.
func (p *Params) Credentials() map[string]secret.String {
	var out map[string]secret.String
	for name, raw := range p.Object("credentials") {
		var v string
		if json.Unmarshal(raw, &v) == nil {
			if out == nil {
				out = map[string]secret.String{}
			}
			out[name] = secret.New(v)
		}
	}
	return out
}

// maxParams is the maximum size of the parameters of a check, in bytes.
const maxParams = 256 << 10

// readParams validates the parameters of a check. Paths of faults are below the
// parameters.
func readParams(d *Definition, o config.Object) (*Params, []config.FieldError) {
	p := &Params{values: map[string]any{}, given: map[string]bool{}, raw: map[string]json.RawMessage{}}
	size := 0
	for _, m := range o {
		if size += len(m.Value); size > maxParams {
			return nil, []config.FieldError{{Message: fmt.Sprintf("must have at most %d bytes", maxParams)}}
		}
	}
	faults := p.read(d.ID, d.AllParams(), o)
	faults = append(faults, d.checkCredentials(p)...)
	return p, faults
}

// read reads the members of o into p. Paths of faults are below o; of is the
// check or parameter that o belongs to.
func (p *Params) read(of string, list []Param, o config.Object) (faults []config.FieldError) {
	for _, m := range o {
		i := slices.IndexFunc(list, func(q Param) bool { return q.Name == m.Name })
		if i < 0 {
			names := make([]string, 0, len(list))
			for _, q := range list {
				names = append(names, q.Name)
			}
			message := "is not a parameter of " + of
			if near := config.Nearest(m.Name, names); near != "" {
				message += "; did you mean " + near + "?"
			}
			faults = append(faults, config.FieldError{Path: strings.TrimPrefix(property("", m.Name), "."), Message: message})
			continue
		}
		v, err := list[i].parse(m.Value)
		if err != nil {
			faults = append(faults, paramFault(m.Name, err))
		}
		p.values[m.Name], p.given[m.Name], p.raw[m.Name] = v, true, m.Value
	}
	for _, q := range list {
		switch {
		case p.given[q.Name]:
		case q.Required:
			faults = append(faults, config.FieldError{Path: q.Name, Message: "is required by " + of + ": " + string(q.Type)})
		case q.Default != "":
			p.values[q.Name], _ = q.parse(json.RawMessage(q.Default))
		}
	}
	return faults
}

func (d *Definition) checkCredentials(p *Params) []config.FieldError {
	var faults []config.FieldError
	for name, raw := range p.Object("credentials") {
		var v string
		switch {
		case !slices.Contains(d.Credentials, name):
			faults = append(faults, config.FieldError{Path: property("credentials", name), Message: "is not a credential of " + d.ID})
		case json.Unmarshal(raw, &v) != nil:
			faults = append(faults, config.FieldError{Path: property("credentials", name), Message: "must be a string"})
		}
	}
	return faults
}

// parse returns the value of the parameter as the Go type of its getter.
func (q Param) parse(raw json.RawMessage) (any, error) {
	wrong := &ParamError{Message: q.must()}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" && q.Type != JSON {
		return nil, wrong
	}
	switch q.Type {
	case String:
		return q.parseString(raw, wrong)
	case Boolean:
		var v bool
		if json.Unmarshal(raw, &v) != nil {
			return nil, wrong
		}
		return v, nil
	case Integer, Number:
		return q.parseNumber(raw, wrong)
	case StringList:
		return q.parseList(raw, wrong)
	case StringOrList:
		if raw[0] != '"' {
			return q.parseList(raw, wrong)
		}
		var v string
		if json.Unmarshal(raw, &v) != nil {
			return nil, wrong
		}
		var list []string
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				list = append(list, s)
			}
		}
		return list, nil
	case StringMap:
		if raw[0] == '"' { // the same object as JSON text
			var text string
			if json.Unmarshal(raw, &text) != nil || !json.Valid([]byte(text)) {
				return nil, wrong
			}
			raw = json.RawMessage(text)
		}
		v := map[string]string{}
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return nil, wrong
		}
		return v, nil
	case Object:
		v := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &v) != nil {
			return nil, wrong
		}
		return v, nil
	default:
		return raw, nil
	}
}

func (q Param) parseString(raw json.RawMessage, wrong error) (any, error) {
	var v string
	if json.Unmarshal(raw, &v) != nil {
		return nil, wrong
	}
	if len(q.Enum) > 0 && !slices.Contains(q.Enum, v) {
		return nil, wrong
	}
	return v, nil
}

func (q Param) parseNumber(raw json.RawMessage, wrong error) (any, error) {
	var v float64
	if json.Unmarshal(raw, &v) != nil || q.Type == Integer && v != math.Trunc(v) || (q.Min != 0 || q.Max != 0) && (v < q.Min || v > q.Max) {
		return nil, wrong
	}
	return v, nil
}

func (q Param) parseList(raw json.RawMessage, wrong error) (any, error) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, wrong
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		v, err := q.parseString(item, wrong)
		if err != nil || string(item) == "null" {
			return nil, &ParamError{Path: fmt.Sprintf("[%d]", i), Message: Param{Type: String, Enum: q.Enum}.must()}
		}
		list = append(list, v.(string))
	}
	return list, nil
}

func (q Param) must() string { return "must be " + q.article() }

// article describes the values of the parameter.
func (q Param) article() string {
	text := "a " + string(q.Type)
	switch q.Type {
	case Integer, Object, StringList, StringMap:
		text = "an " + string(q.Type)
	case JSON:
		text = "a JSON value"
	}
	if len(q.Enum) > 0 {
		text += ": " + strings.Join(q.Enum, ", ")
	}
	if q.Min != 0 || q.Max != 0 {
		text += fmt.Sprintf(" from %s to %s", number(q.Min), number(q.Max))
	}
	return text
}

func number(f float64) string { b, _ := json.Marshal(f); return string(b) }

// Nested reads a parameter that is an object with parameters of its own. An
// error is the first fault.
func (p *Params) Nested(name string, list ...Param) (*Params, error) {
	out := &Params{values: map[string]any{}, given: map[string]bool{}, raw: map[string]json.RawMessage{}}
	object, err := parseObject(p.raw[name])
	if err != nil {
		return nil, &ParamError{Path: name, Message: err.Error()}
	}
	if faults := out.read(name, list, object); len(faults) > 0 {
		return nil, &ParamError{Path: join(name, faults[0].Path), Message: faults[0].Message}
	}
	return out, nil
}
