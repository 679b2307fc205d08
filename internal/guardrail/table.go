package guardrail

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/base/secret"
)

// Definition defines a check: its name, its parameters and how to compile it.
type Definition struct {
	ID      string   // family.name, such as default.regexMatch
	Aliases []string // further spellings of the name, without the family
	Summary string   // what passes, one sentence

	On     Event // events at which the check may run, joined by |
	Params []Param
	Kinds  Kind // kinds of texts it reads; 0 means AllKinds
	// All makes the check receive earlier messages too, and Facts marks a check
	// that reads no texts. Either has no parameters scope and kinds.
	All, Facts bool
	// Unread marks a check that also runs where the text could not be read.
	Unread bool
	// Timeout is the time limit without the parameter timeout. 0 means DefaultTimeout.
	Timeout time.Duration
	// Credentials are the names of the credentials that the check can have.
	Credentials []string
	// Partner describes these credentials; nil for a check without any.
	Partner *Partner
	// FailOnError is the default of the parameter failOnError.
	FailOnError bool
	// Transforms is set if the check can change texts. Documentation only; see
	// Compiled.Transforms.
	Transforms bool

	// Compile compiles validated parameters. An error is a *ParamError or about
	// the check as a whole.
	Compile func(p *Params) (Compiled, error)
}

// Partner is the service that a check sends its credentials to.
type Partner struct {
	Needs   []string // required credentials
	Address []string // credentials that decide the host
	// Destination returns the address that credentials are sent to. own is true for
	// the partner's own address, which no credential decides. An error is a
	// *ParamError with the name of a credential, and contains no value.
	Destination func(credentials map[string]secret.String) (to *url.URL, own bool, err error)
}

// DefaultTimeout is the time limit of a check that runs in this process. Checks are
// linear in the length of the text, so it matters for long texts only.
const DefaultTimeout = 10 * time.Second

// MaxTimeout is the maximum of the parameter timeout.
const MaxTimeout = 60 * time.Second

// Family returns the part of the ID before the dot.
func (d *Definition) Family() string {
	family, _, _ := strings.Cut(d.ID, ".")
	return family
}

// Table holds definitions by name. It is immutable.
type Table struct {
	// FailClosed makes errors of checks failures if the check has no parameter
	// failOnError.
	FailClosed bool

	list        []*Definition
	byName      map[string]*Definition // in lower case
	compilation Compilation
}

// NewTable returns a table of definitions. It panics if a name is duplicated.
func NewTable(definitions ...Definition) *Table {
	t := &Table{byName: map[string]*Definition{}}
	for i := range definitions {
		d := &definitions[i]
		t.list = append(t.list, d)
		for _, name := range append([]string{strings.TrimPrefix(d.ID, d.Family()+".")}, d.Aliases...) {
			key := strings.ToLower(d.Family() + "." + name)
			if t.byName[key] != nil {
				panic("guardrail: check " + key + " is defined twice")
			}
			t.byName[key] = d
		}
	}
	slices.SortFunc(t.list, func(a, b *Definition) int { return strings.Compare(a.ID, b.ID) })
	return t
}

// Definitions returns all definitions by ID. The caller does not change them.
func (t *Table) Definitions() []*Definition { return t.list }

// Find returns the definition of a check. A name without a dot is of the family
// default. Case does not matter. Nil means unknown.
func (t *Table) Find(id string) *Definition {
	if !strings.Contains(id, ".") {
		id = "default." + id
	}
	return t.byName[strings.ToLower(id)]
}

// OfPartner returns the checks that stored credentials of this name are for: those of
// a family such as azure, or one check such as azure.pii. Nil means that there are
// none.
func (t *Table) OfPartner(name string) (list []*Definition) {
	for _, d := range t.list {
		if d.Partner != nil && (d.Family() == name || d.ID == name) {
			list = append(list, d)
		}
	}
	return list
}

// ParamError is an error of one parameter.
type ParamError struct {
	Path    string // below the parameters, such as "rule" or "words[2]"; empty for all of them
	Message string // says what to do; contains no credential
}

// Error returns path and message.
func (e *ParamError) Error() string { return strings.TrimSpace(e.Path + " " + e.Message) }

// Check compiles one check. path is the JSON path of its parameters, for errors.
// All errors are faults of configs: an unknown check, one that does not run at
// the event, or an unknown, missing or wrong parameter.
func (t *Table) Check(path string, c config.Check, on Event) (*Check, []config.FieldError) {
	return t.check(path, c, on, origin{})
}

// origin is where a check is from. The zero value is a config.
type origin struct {
	saved  bool // of a saved guardrail
	shared bool // of a guardrail of the organisation
	module func(ref string) (Module, error)
}

// check compiles one check.
func (t *Table) check(path string, c config.Check, on Event, from origin) (*Check, []config.FieldError) {
	d := t.Find(c.ID)
	if d == nil {
		return nil, []config.FieldError{{Path: path, Message: t.unknown(c.ID)}}
	}
	if d.On&on == 0 {
		return nil, []config.FieldError{{Path: path, Message: fmt.Sprintf("%s does not run %s", d.ID, eventName(on))}}
	}
	p, faults := readParams(d, c.Parameters)
	for i := range faults {
		faults[i].Path = join(path, faults[i].Path)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	out := &Check{ID: d.ID, definition: d, Disabled: c.Disabled || !p.Bool("is_enabled"), FailOnError: t.FailClosed || d.FailOnError}
	if p.Has("failOnError") {
		out.FailOnError = p.Bool("failOnError")
	}
	out.kinds, out.timeout = d.Kinds, d.Timeout
	if out.kinds == 0 {
		out.kinds = AllKinds
	}
	if p.Has("kinds") {
		out.kinds = 0
		for _, name := range p.Strings("kinds") {
			out.kinds |= kindNames[name]
		}
	}
	if out.timeout == 0 {
		out.timeout = DefaultTimeout
	}
	if p.Has("timeout") {
		out.timeout = time.Duration(p.Number("timeout")) * time.Millisecond
	}
	p.on, p.from, p.timeout, p.compilation = on, from, out.timeout, t.compilation
	compiled, err := d.Compile(p)
	if err != nil {
		return nil, []config.FieldError{paramFault(path, err)}
	}
	out.compiled = compiled
	if compiled.Reach.Complete && !p.Has("kinds") {
		out.kinds &^= Parameters // checks of a complete text would take them for prose
	}
	if !compiled.Reach.Complete {
		out.kinds |= decoded | joined
	} else if compiled.Remote {
		out.kinds |= decoded
	}
	switch {
	case d.All || p.String("scope") == "all":
		out.scope = allMessages
	case compiled.History && !p.Has("scope"):
		out.scope = conversation
	}
	return out, nil
}

func paramFault(path string, err error) config.FieldError {
	if e, ok := err.(*ParamError); ok {
		return config.FieldError{Path: join(path, e.Path), Message: e.Message}
	}
	return config.FieldError{Path: path, Message: err.Error()}
}

func (t *Table) unknown(id string) string {
	names := make([]string, 0, len(t.list))
	for _, d := range t.list {
		names = append(names, d.ID)
	}
	full := id
	if !strings.Contains(id, ".") {
		full = "default." + id
	}
	message := fmt.Sprintf("check %.60q not found", id)
	if near := config.Nearest(full, names); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return message
}

func eventName(on Event) string {
	if on == After {
		return "on responses"
	}
	return "on requests"
}

// join appends the path of a parameter to the path of the parameters.
func join(path, name string) string {
	switch {
	case name == "":
		return path
	case path == "" || strings.HasPrefix(name, "["):
		return path + name
	}
	return path + "." + name
}

// CompileHook compiles an item of before_request_hooks or after_request_hooks;
// path is the JSON path of the item, such as $.before_request_hooks[0].
func (t *Table) CompileHook(path string, h config.Hook, on Event) (*Hook, []config.FieldError) {
	out := &Hook{ID: h.ID, Type: h.Type, Deny: h.Denies(), DenyPassed: h.DeniesSuccess(), Async: h.Async, Sequential: h.Sequential,
		Shadow: h.Mode == config.Shadow, Stream: h.Stream,
		OnFail: feedbackOf(h.OnFail), OnSuccess: feedbackOf(h.OnSuccess)}
	var faults []config.FieldError
	for i, c := range h.Checks {
		at := fmt.Sprintf("%s.checks[%d]", path, i)
		if t.Find(c.ID) == nil {
			faults = append(faults, config.FieldError{Path: at + ".id", Message: t.unknown(c.ID)})
			continue
		}
		check, wrong := t.Check(at+".parameters", c, on)
		faults = append(faults, wrong...)
		out.Checks = append(out.Checks, check)
	}
	return out.complete(path, faults)
}

// CompileGuardrail compiles an inline item of input_guardrails (Before) or
// output_guardrails (After), whose further keys are checks. path is the JSON
// path of the item. The id of a guardrail without one is made by Run.
func (t *Table) CompileGuardrail(path string, g config.Guardrail, on Event) (*Hook, []config.FieldError) {
	out := &Hook{ID: g.ID, Type: g.Type, Deny: g.Denies(), DenyPassed: g.DeniesSuccess(), Async: g.Async, Sequential: g.Sequential,
		Shadow: g.Mode == config.Shadow, Stream: g.Stream,
		OnFail: feedbackOf(g.OnFail), OnSuccess: feedbackOf(g.OnSuccess)}
	var faults []config.FieldError
	for _, c := range g.Checks {
		at := property(path, c.ID)
		if id, ok := c.Parameters.Text("id"); ok {
			c.ID = id
			c.Parameters = slices.DeleteFunc(slices.Clone(c.Parameters), func(m config.Member) bool { return m.Name == "id" })
		}
		check, wrong := t.Check(at, c, on)
		faults = append(faults, wrong...)
		out.Checks = append(out.Checks, check)
	}
	return out.complete(path, faults)
}

// savedActions are the actions of a saved guardrail.
type savedActions struct {
	Deny       bool `json:"deny"`
	Async      bool `json:"async"`
	Sequential bool `json:"sequential"`
	SoftDeny   bool `json:"soft_deny_200"`

	Mode   config.GuardMode  `json:"mode"`
	Stream config.StreamMode `json:"stream"`

	OnSuccess *savedOutcome `json:"on_success"`
	OnFail    *savedOutcome `json:"on_fail"`
}

type savedOutcome struct {
	Feedback *Feedback `json:"feedback"`
	Deny     bool      `json:"deny"`
}

func (o *savedOutcome) denies() bool { return o != nil && o.Deny }

func (o *savedOutcome) feedback() *Feedback {
	if o == nil {
		return nil
	}
	return o.Feedback
}

// Saved is a guardrail as the control plane stores it.
type Saved struct {
	ID              string // of the hook
	Checks, Actions json.RawMessage
	// Shared marks a guardrail of the organisation. Its checks use no credentials of
	// the workspaces that it protects: their addresses could be those of a service
	// that lets everything pass.
	Shared bool
	// Module returns a stored module by id or slug. An error says why its checks
	// cannot use it. Nil is for guardrails that cannot use stored modules.
	Module func(ref string) (Module, error)
}

// Module is a stored WebAssembly module.
type Module struct {
	Sum  [sha256.Size]byte // of the code
	Code func() ([]byte, error)
}

// CompileSaved compiles a saved guardrail. Paths of faults begin with checks[i].
func (t *Table) CompileSaved(g Saved, on Event) (*Hook, []config.FieldError) {
	return t.compileStored(g, on, true)
}

// CompileUnsaved compiles a guardrail in the form of [Table.CompileSaved] that its
// author may not save: its checks ask only models that the author may use.
func (t *Table) CompileUnsaved(g Saved, on Event) (*Hook, []config.FieldError) {
	return t.compileStored(g, on, false)
}

func (t *Table) compileStored(g Saved, on Event, saved bool) (*Hook, []config.FieldError) {
	var list []struct {
		ID         string          `json:"id"`
		Parameters json.RawMessage `json:"parameters"`
		Enabled    *bool           `json:"is_enabled"`
	}
	var acts savedActions
	if err := json.Unmarshal(g.Checks, &list); err != nil {
		return nil, []config.FieldError{{Path: "checks", Message: "must be an array of checks"}}
	}
	if len(g.Actions) > 0 {
		if err := json.Unmarshal(g.Actions, &acts); err != nil {
			return nil, []config.FieldError{{Path: "actions", Message: "must be an object of actions"}}
		}
	}
	out := &Hook{ID: g.ID, Deny: acts.Deny || acts.OnFail.denies(), DenyPassed: acts.OnSuccess.denies(), Async: acts.Async,
		Sequential: acts.Sequential, SoftDeny: acts.SoftDeny,
		Shadow: acts.Mode == config.Shadow, Stream: acts.Stream,
		OnSuccess: acts.OnSuccess.feedback(), OnFail: acts.OnFail.feedback()}
	var faults []config.FieldError
	for i, c := range list {
		at := fmt.Sprintf("checks[%d]", i)
		if t.Find(c.ID) == nil {
			faults = append(faults, config.FieldError{Path: at + ".id", Message: t.unknown(c.ID)})
			continue
		}
		params, err := parseObject(c.Parameters)
		if err != nil {
			faults = append(faults, config.FieldError{Path: at + ".parameters", Message: err.Error()})
			continue
		}
		check, wrong := t.check(at+".parameters", config.Check{ID: c.ID, Parameters: params, Disabled: c.Enabled != nil && !*c.Enabled}, on,
			origin{saved, g.Shared, g.Module})
		faults = append(faults, wrong...)
		out.Checks = append(out.Checks, check)
	}
	return out.complete("$", faults)
}
