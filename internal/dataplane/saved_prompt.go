package dataplane

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/prompt"
	"modelgate/internal/records/reqlog"
)

// promptRoute returns the route of a path that names a saved prompt.
func promptRoute(method, path string) (out route, ok bool) {
	rest, ok := strings.CutPrefix(path, api.BasePath+"/prompts/")
	if !ok || method != http.MethodPost {
		return out, false
	}
	name, verb, _ := strings.Cut(rest, "/")
	out = route{op: api.Chat, body: bodyJSON, scope: access.ScopeCompletions}
	switch verb {
	case "completions":
	case "render":
		out.scope, out.renders = access.ScopeRender, true
	default:
		return out, false
	}
	plain, err := url.PathUnescape(name)
	out.prompt = plain
	return out, err == nil && plain != ""
}

// savedPrompt returns the version of a prompt that ref names. param is the
// source of ref, for errors.
func (a *admission) savedPrompt(ref, param string) (*prompt.Version, reqlog.Prompt, error) {
	name, which := prompt.Cut(ref)
	saved, ok := a.snap.Prompt(a.request.Identity.Workspace, name)
	if !ok {
		return nil, reqlog.Prompt{}, apierr.New(apierr.NotFound, "saved prompt %.60q not found", name).WithParam(param).WithCode("unknown_prompt")
	}
	v, ok := saved.Version(which)
	if !ok {
		return nil, reqlog.Prompt{}, apierr.New(apierr.NotFound, "prompt %.60q has no version %.60q; use a number, a label or latest, or omit the version for the published one", name, which).
			WithParam(param).WithCode("unknown_prompt_version")
	}
	return v, reqlog.Prompt{ID: saved.ID, Slug: saved.Slug, Version: v.Number}, nil
}

// render fills in a version with the request's variables.
func (a *admission) render(v *prompt.Version, overrides []jsonedit.Edit) (*prompt.Rendered, error) {
	return prompt.Render(v, prompt.Input{
		Variables: a.variables,
		Overrides: overrides,
		Partial:   func(ref string) (string, bool) { return a.snap.Partial(a.request.Identity.Workspace, ref) },
	})
}

// takeVariables reads the request's variables, once.
func (a *admission) takeVariables() error {
	if a.variables != nil || a.request.Received.Doc == nil {
		return nil
	}
	a.variables = make(map[string]string)
	v, ok := a.request.Received.Doc.Find("variables")
	if !ok || v.IsNull() {
		return nil
	}
	if v.Kind() != jsonedit.Object {
		return badVariable("variables", "variables must be an object of strings")
	}
	for key, value := range v.Fields() {
		text, ok := value.Text()
		if !ok {
			return badVariable("variables."+truncate(key.String()), "variables take strings; write a number, a list or an object as the string of its JSON")
		}
		a.variables[key.String()] = text
	}
	return nil
}

func badVariable(param, text string) error {
	return apierr.New(apierr.Invalid, "%s", text).WithParam(param).WithCode("invalid_variable")
}

// fillBody replaces the request's body by the rendered prompt of the path.
func (p *Plane) fillBody(a *admission) error {
	if a.route.prompt == "" {
		return nil
	}
	if a.route.renders {
		a.entry.Operation = api.PromptRender
	}
	v, named, err := a.savedPrompt(a.route.prompt, "prompt")
	if err != nil {
		return err
	}
	if err := a.takeVariables(); err != nil {
		return err
	}
	overrides, err := prompt.Overrides(&a.doc)
	if err != nil {
		return err
	}
	out, err := a.render(v, overrides)
	if err != nil {
		return err
	}
	if out.Completes {
		a.request.Operation = api.Completions
		if !a.route.renders {
			a.entry.Operation = api.Completions
		}
	}
	a.request.Prompt, a.entry.Prompt, a.promptProvider = named, named, out.Provider
	describe(a, "_prompt", named.Slug) // for filters
	if a.trail.Explain {
		a.trail.Decisions = append(a.trail.Decisions,
			reqlog.Decision{Path: "prompt", Text: fmt.Sprintf("the saved prompt %s makes the request, in its version %d",
				named.Slug, named.Version)})
	}
	return p.replaceBody(a, out.Body)
}

// replaceBody replaces the request's body with b.
func (p *Plane) replaceBody(a *admission, b []byte) error {
	buf, err := p.Engine.Bounds.Pool.GetShare(len(b), a.request.Memory)
	if err != nil {
		return bodyError(err, p.MaxJSON)
	}
	buf.Fill(func(dst []byte) []byte { return append(dst, b...) })
	a.request.Received.Body.Release()
	a.request.Received.Body = buf
	return scan(a)
}

// takeProvider uses the provider of the path's prompt for a request that
// chooses none.
func (a *admission) takeProvider() {
	if a.promptProvider != "" && !a.opts.namesProvider() && !strings.HasPrefix(a.request.Model, "@") {
		a.opts.provider = "@" + a.promptProvider
	}
}

// promptResult is a rendered saved prompt of a config for the exchange, or its
// error.
type promptResult struct {
	exchange.PromptEdits
	provider string
}

// fillLeaves renders the prompts that leaves name. A prompt that does not exist
// is an error before anything is sent; any other error is returned when its
// leaf is used.
func (rs *resolver) fillLeaves(leaves []*config.Config) error {
	for _, leaf := range leaves {
		if leaf.PromptID == "" || rs.filled[leaf.PromptID] != nil {
			continue
		}
		f, err := rs.fillPrompt(leaf.PromptID)
		if err != nil {
			return err
		}
		if rs.filled == nil {
			rs.filled = make(map[string]*promptResult)
		}
		rs.filled[leaf.PromptID] = f
	}
	return nil
}

func (rs *resolver) fillPrompt(ref string) (*promptResult, error) {
	v, named, err := rs.admission.savedPrompt(ref, "x-gateway-config")
	if err != nil {
		return nil, err
	}
	f := &promptResult{PromptEdits: exchange.PromptEdits{Prompt: named}}
	switch {
	case rs.admission.request.Received.Doc != nil && (rs.admission.request.Operation == api.Chat ||
		rs.admission.request.Operation == api.Completions):
		f.Err = rs.makeEdits(f, v)
	case rs.admission.request.Operation == rs.admission.request.Dialect.ConversationOperation():
		f.Err = apierr.New(apierr.Unsupported, "saved prompts work on /v1/chat/completions and /v1/completions, not on this route").
			WithParam("x-gateway-config").WithCode("unsupported_operation")
	}
	if f.Err != nil { // the provider is reported even if the body cannot be
		if c, err := prompt.Decode(v.Text); err == nil {
			f.provider = c.Provider
		}
	}
	return f, nil
}

// makeEdits finds the edits that a version makes to the request.
func (rs *resolver) makeEdits(f *promptResult, v *prompt.Version) error {
	if err := rs.admission.takeVariables(); err != nil {
		return err
	}
	out, err := rs.admission.render(v, nil)
	if err != nil {
		return err
	}
	if out.Completes != (rs.admission.request.Operation == api.Completions) {
		return apierr.New(apierr.Invalid, "the saved prompt %s has %s, which this route does not accept", f.Prompt.Slug, holding(out)).
			WithParam("x-gateway-config").WithCode("wrong_prompt_kind")
	}
	if f.Edits, f.provider, f.Model, err = out.Edits(); err != nil {
		return err
	}
	return rs.checkEdited(f.Edits)
}

func holding(out *prompt.Rendered) string {
	if out.Completes {
		return "a text to complete"
	}
	return "messages"
}

// checkEdited validates the body after the edits of a prompt.
func (rs *resolver) checkEdited(list []jsonedit.Edit) error {
	var doc jsonedit.Doc
	if err := doc.Scan(rs.admission.request.Received.Doc.Apply(nil, list...)); err != nil {
		return apierr.New(apierr.Invalid, "the rendered prompt is not a valid request body: %v", err).WithParam("x-gateway-config")
	}
	err := rs.admission.request.Client.Check(rs.admission.request.Operation, &doc)
	if err != nil && err.Param != "model" { // a missing model is checked elsewhere
		return err
	}
	return nil
}

// filledModel returns the model set by the prompt of a leaf, empty if none.
func (rs *resolver) filledModel(leaf *config.Config) string {
	if f := rs.filled[leaf.PromptID]; f != nil {
		return f.Model
	}
	return ""
}

// filledProvider returns the slug of the provider set by the prompt of a leaf.
// It is empty if there is none, or if the leaf or the request chooses a
// provider.
func (rs *resolver) filledProvider(leaf *config.Config) string {
	f := rs.filled[leaf.PromptID]
	if f == nil || leaf.Provider != "" || leaf.VirtualKey != "" || providerFromRequest(leaf) && rs.admission.opts.namesProvider() {
		return ""
	}
	return f.provider
}
