package messages

import (
	"cmp"
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// EncodeRequest appends the body of a request in the format of the target's
// host. Beta features that the request needs or the client named are in the
// array member anthropic_beta; the caller moves them to where the host expects
// them, usually the header Anthropic-Beta. The protocol requires max_tokens: a
// request without it gets the model's maximum.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, err := changes.Portable(to,
		dialect.Support{Dialect: own, Contexts: true, DistinctCalls: true, InAssistant: func(llm.Media) bool { return false }})
	if err != nil {
		return dst, nil, err
	}
	e := requestEncoder{
		Builder: jsonedit.Append(dst), r: r, to: to, own: r.Dialect == own,
		model: modelOf(to.KnownModel()), profile: profileOf(to), changes: changes,
	}
	e.formats = e.model.Structured && !e.profile.NoFormats && (!e.profile.NoNewFormats || !e.model.NoSampling)
	e.plan()
	e.Open('{')
	e.head()
	e.conversation()
	e.sampling()
	e.account()
	e.toolset()
	e.reasoning()
	e.output()
	e.extras()
	e.Close('}')
	if e.err != nil {
		return dst, nil, e.err
	}
	return e.Bytes(), e.changes.List(), nil
}

// requestEncoder writes one request. Interactions between parameters are
// resolved before the first byte.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	own     bool // the client uses this dialect
	model   *modeldata.Model
	profile *dialect.MessagesProfile
	changes *dialect.ParamChanges
	err     error

	formats    bool // model and host support structured output
	maxTokens  int64
	thinking   thinking
	noThinking bool // the client asked for thinking, which is disabled
	effort     string
	notes      []func() // changes to thinking and effort
	betas      []string
}

func (e *requestEncoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *requestEncoder) head() {
	if e.profile.Version == "" {
		e.text("model", cmp.Or(e.to.Model, e.r.Model))
	} else {
		e.text("anthropic_version", e.profile.Version)
	}
	e.Name("max_tokens")
	e.Int(e.maxTokens)
	if e.r.Stream && !e.profile.StreamsByPath {
		e.Name("stream")
		e.Bool(true)
	}
}

// text writes a string member unless it is empty.
func (e *requestEncoder) text(name, value string) {
	if value != "" {
		e.Name(name)
		e.String(value)
	}
}

// sampling writes sampling parameters. A thinking model rejects them, and newer
// models always do.
// https://docs.claude.com/en/docs/build-with-claude/extended-thinking#feature-compatibility
func (e *requestEncoder) sampling() {
	r, most := *e.r, 1.0
	switch {
	case !e.own && (e.model.NoSampling || e.thinking.active()):
		e.changes.DropIfSet(llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK)
		r.Temperature, r.TopP, r.TopK = nil, nil, nil
	case r.Temperature != nil:
		if *r.Temperature > most {
			e.changes.Adapt(llm.FieldTemperature, dialect.NoteMaximum("1"))
			r.Temperature = &most
		}
		if !e.own { // newer models reject both together
			e.changes.DropIfSet(llm.FieldTopP)
			r.TopP = nil
		}
	}
	scalars.Append(&e.Builder, &r)
	e.stops()
	e.reportDropped()
}

var scalars = dialect.Scalars{
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "top_p", Field: llm.FieldTopP},
	{Name: "top_k", Field: llm.FieldTopK},
}

// stops writes the stop sequences. Those of white space only are rejected.
func (e *requestEncoder) stops() {
	var list []string
	for _, s := range e.r.Stop {
		if !e.own && strings.TrimSpace(s) == "" {
			e.changes.Adapt(llm.FieldStop, dialect.BlankStopsRemoved)
			continue
		}
		list = append(list, s)
	}
	if len(list) > 0 {
		e.Name("stop_sequences")
		writeStrings(&e.Builder, list)
	}
}

// reportDropped records the parameters that the protocol lacks. Values without
// effect are not recorded.
func (e *requestEncoder) reportDropped() {
	r := e.r
	e.changes.DropIfSet(llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldLogitBias, llm.FieldLogprobs,
		llm.FieldTopLogprobs, llm.FieldVerbosity)
	if len(r.Modalities) > 1 {
		e.changes.Drop(llm.FieldModalities)
	}
	e.changes.DropIfSet(llm.FieldSpeech, llm.FieldMetadata)
	if len(r.Modalities) == 1 && !strings.EqualFold(r.Modalities[0], "text") {
		e.fail(dialect.Unsupported(r.NameOf(llm.FieldModalities), e.to, "it responds in text"))
	}
}

// account writes the user and the service tier.
func (e *requestEncoder) account() {
	user := e.changes.User(dialect.MaxUserMessages)
	if id := e.r.Parameter("safety_identifier"); user == "" && !e.own && id != nil {
		if user, _ = valueOf(id).Text(); user != "" {
			e.changes.AdaptNamed("safety_identifier", "metadata.user_id")
		}
	}
	if raw := e.r.Parameter("metadata"); e.own && raw != nil {
		e.Name("metadata")
		e.Raw(raw)
	} else if user != "" {
		e.Name("metadata")
		e.Open('{')
		e.text("user_id", user)
		e.Close('}')
	}
	if tier, ok := tiers[e.r.ServiceTier]; ok {
		e.text("service_tier", tier.word)
		if tier.note != "" {
			e.changes.Adapt(llm.FieldServiceTier, tier.note)
		}
	} else if e.own {
		e.text("service_tier", e.r.ServiceTier)
	} else if e.r.ServiceTier != "" {
		e.changes.Drop(llm.FieldServiceTier)
	}
	if c := e.r.Cache; c != nil {
		e.cache(c)
	}
}

// tiers maps the chat dialect's service tiers.
// https://docs.claude.com/en/api/service-tiers
var tiers = map[string]struct{ word, note string }{
	"auto":          {"auto", ""},
	"default":       {"standard_only", ""},
	"standard":      {"standard_only", ""},
	"standard_only": {"standard_only", ""},
	"priority":      {"auto", "auto"},
}

func (e *requestEncoder) cache(c *llm.Cache) {
	if c == nil {
		return
	}
	e.Name("cache_control")
	e.Open('{')
	e.text("type", "ephemeral")
	e.text("ttl", c.TTL)
	e.Close('}')
}

// carried are the parameters of this dialect that clients of other dialects may
// send.
var carried = []string{
	"anthropic_beta", "anthropic_version", "cache_control", "container", "context_management", "diagnostics", "fallback_credit_token",
	"fallbacks", "inference_geo", "mcp_servers", "output_config", "safety_identifier", "speed", "user_profile_id", "web_search_options",
}

// handledExtras are the additional parameters that are not written unchanged.
var handledExtras = map[string]bool{
	"anthropic_beta": true, "anthropic_version": true, "output_config": true, "safety_identifier": true, "web_search_options": true,
	"metadata": true,
}

// extras writes the parameters that only this dialect has, and the beta
// features that they need.
func (e *requestEncoder) extras() {
	for _, m := range e.r.Extra {
		known := slices.Contains(carried, m.Name)
		if !e.own && !known || handledExtras[m.Name] || strings.HasPrefix(m.Name, outputPrefix) {
			continue
		}
		if m.Name == "context_management" && e.noThinking {
			if m.Value = dialect.WithoutClearThinking(m.Value); m.Value == nil {
				continue
			}
		}
		e.Key(m.Name)
		e.Raw(m.Value)
		e.extraBeta(m)
	}
	if !e.own {
		e.changes.DropExtra(carried...)
		e.changes.DropContent(dialect.UnsupportedContent{Names: true, Details: true})
	}
	e.betas = merge(e.betas, betasIn(valueOf(e.r.Parameter("anthropic_beta"))))
	if len(e.betas) > 0 {
		e.Name("anthropic_beta")
		writeStrings(&e.Builder, e.betas)
	}
}

// extraBeta adds the beta feature that a parameter needs.
func (e *requestEncoder) extraBeta(m llm.Member) {
	v := valueOf(m.Value)
	switch m.Name {
	case "mcp_servers":
		e.need("mcp-client-2025-11-20")
	case "context_management":
		e.contextBetas(v)
	case "diagnostics":
		e.need("cache-diagnosis-2026-04-07")
	case "fallback_credit_token":
		e.need("fallback-credit-2026-07-01")
	case "fallbacks":
		if v.Kind() == jsonedit.Array {
			e.need("server-side-fallback-2026-06-01")
		} else {
			e.need("server-side-fallback-2026-07-01")
		}
	case "speed":
		if word, _ := v.Text(); word == "fast" {
			e.need("fast-mode-2026-02-01")
		}
	}
}

func (e *requestEncoder) contextBetas(v jsonedit.Value) {
	edits, _ := v.Get("edits")
	for edit := range edits.Elements() {
		if strings.HasPrefix(fieldsOf(edit).word("type"), "compact_") {
			e.need("compact-2026-01-12")
		} else {
			e.need("context-management-2025-06-27")
		}
	}
}

// need adds a beta feature. Clients of this dialect name their own.
func (e *requestEncoder) need(feature string) {
	if feature != "" && !e.own {
		e.betas = merge(e.betas, []string{feature})
	}
}
