package messages

import (
	"cmp"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// EncodeRequest appends the body of a request, in the envelope of the target's
// host. Beta features that parts of the request need, or that the client named,
// are in the member anthropic_beta as an array; the caller moves them to where
// the host reads them, which for most is the header Anthropic-Beta. The protocol demands max_tokens: a request
// without gets the longest answer that the model can give.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	e := requestEncoder{
		Builder: jsonedit.Append(dst), r: r, to: to, own: r.Dialect == own,
		model: modelOf(to.Model), profile: profileOf(to), fates: dialect.NewParamChanges(r),
	}
	e.formats = e.model.formats && !e.profile.NoFormats && (!e.profile.NoNewFormats || !e.model.fixed)
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
	return e.Bytes(), e.fates.List(), nil
}

// requestEncoder writes one request. What the parameters do to each other is
// decided before the first byte.
type requestEncoder struct {
	jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	own     bool // the client speaks this dialect
	model   model
	profile *dialect.MessagesProfile
	fates   *dialect.ParamChanges
	err     error

	formats   bool // model and host give answers in the form of a schema
	maxTokens int64
	thinking  thinking
	effort    string
	notes     []func() // fates of the two
	betas     []string
	called    map[string]string // ids of calls as they are sent, by those of the client
	taken     map[string]bool
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

// text writes a member of text, none when it is empty.
func (e *requestEncoder) text(name, value string) {
	if value != "" {
		e.Name(name)
		e.String(value)
	}
}

// sampling writes how the next token is chosen. A model that thinks, and newer
// models at all times, refuse to be told.
// https://docs.claude.com/en/docs/build-with-claude/extended-thinking#feature-compatibility
func (e *requestEncoder) sampling() {
	r, most := *e.r, 1.0
	switch {
	case !e.own && (e.model.fixed || e.thinking.active()):
		e.fates.DropAsked(llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK)
		r.Temperature, r.TopP, r.TopK = nil, nil, nil
	case r.Temperature != nil:
		if *r.Temperature > most {
			e.fates.Adapt(llm.FieldTemperature, "1, the most there is")
			r.Temperature = &most
		}
		if !e.own { // newer models refuse both together
			e.fates.DropAsked(llm.FieldTopP)
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

// stops writes the stop sequences. Ones of white space alone are refused.
func (e *requestEncoder) stops() {
	var list []string
	for _, s := range e.r.Stop {
		if !e.own && strings.TrimSpace(s) == "" {
			e.fates.Adapt(llm.FieldStop, "without sequences of white space alone")
			continue
		}
		list = append(list, s)
	}
	if len(list) > 0 {
		e.Name("stop_sequences")
		writeStrings(&e.Builder, list)
	}
}

// reportDropped tells of the parameters that the protocol lacks. Values that ask for
// nothing are no loss.
func (e *requestEncoder) reportDropped() {
	r := e.r
	e.fates.DropAsked(llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldLogitBias, llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldVerbosity)
	if len(r.Modalities) > 1 {
		e.fates.Drop(llm.FieldModalities)
	}
	e.fates.DropAsked(llm.FieldSpeech, llm.FieldMetadata)
	if r.N != nil && *r.N > 1 {
		e.fail(dialect.Unsupported(r.NameOf(llm.FieldN), e.to, "it gives one answer to a request"))
	}
	if len(r.Modalities) == 1 && !strings.EqualFold(r.Modalities[0], "text") {
		e.fail(dialect.Unsupported(r.NameOf(llm.FieldModalities), e.to, "it answers in text"))
	}
}

// account writes who asks, and in which tier.
func (e *requestEncoder) account() {
	user := e.r.User
	if id := e.r.Parameter("safety_identifier"); user == "" && !e.own && id != nil {
		if user, _ = valueOf(id).Text(); user != "" {
			e.fates.AdaptNamed("safety_identifier", "metadata.user_id")
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
			e.fates.Adapt(llm.FieldServiceTier, tier.note)
		}
	} else if e.own {
		e.text("service_tier", e.r.ServiceTier)
	} else if e.r.ServiceTier != "" {
		e.fates.Drop(llm.FieldServiceTier)
	}
	if c := e.r.Cache; c != nil {
		e.cache(c)
	}
}

// tiers are the service tiers by those of the chat dialect.
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

// carried are the parameters of other dialects' clients that are this dialect's.
var carried = []string{
	"anthropic_beta", "anthropic_version", "cache_control", "container", "context_management", "diagnostics", "fallback_credit_token",
	"fallbacks", "inference_geo", "mcp_servers", "output_config", "safety_identifier", "speed", "user_profile_id", "web_search_options",
}

// elsewhere are the extras that are not written as they are.
var elsewhere = map[string]bool{
	"anthropic_beta": true, "anthropic_version": true, "output_config": true, "safety_identifier": true, "web_search_options": true, "metadata": true,
}

// extras writes what only this dialect knows, and the features that it needs.
func (e *requestEncoder) extras() {
	for _, m := range e.r.Extra {
		known := contains(carried, m.Name)
		if !e.own && !known || elsewhere[m.Name] || strings.HasPrefix(m.Name, outputPrefix) {
			continue
		}
		e.Key(m.Name)
		e.Raw(m.Value)
		e.extraBeta(m)
	}
	if !e.own {
		e.fates.DropExtra(carried...)
		e.fates.DropContent(own, dialect.UnsupportedContent{Names: true, Details: true})
	}
	e.betas = merge(e.betas, betasIn(valueOf(e.r.Parameter("anthropic_beta"))))
	if len(e.betas) > 0 {
		e.Name("anthropic_beta")
		writeStrings(&e.Builder, e.betas)
	}
}

// extraBeta asks for the feature that a parameter is of.
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

// need asks for a feature. A client of this dialect has asked for its own.
func (e *requestEncoder) need(feature string) {
	if feature != "" && !e.own {
		e.betas = merge(e.betas, []string{feature})
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
