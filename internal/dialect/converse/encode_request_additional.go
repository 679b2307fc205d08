package converse

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// fields writes additionalModelRequestFields: the client's fields, then those
// that are missing. The first field opens the object.
type fields struct {
	b    *jsonedit.Builder
	seen map[string]bool
}

// begin begins a field unless it exists, and reports whether it did.
func (f *fields) begin(name string) bool {
	if f.seen[name] {
		return false
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
		f.b.Name(additionalFields)
		f.b.Open('{')
	}
	f.seen[name] = true
	f.b.Key(name)
	return true
}

func (f *fields) text(name, value string) {
	if value != "" && f.begin(name) {
		f.b.String(value)
	}
}

func (f *fields) raw(name string, value []byte) {
	if value != nil && f.begin(name) {
		f.b.Raw(value)
	}
}

func (f *fields) number(name string, value *float64) {
	if value != nil && f.begin(name) {
		f.b.Float(*value)
	}
}

// encodeAdditional writes the settings of particular models.
func (e *requestEncoder) encodeAdditional() {
	f := fields{b: &e.b}
	for _, name := range [...]string{additionalFields, "additional_model_request_fields"} {
		v, err := jsonedit.ParseValue(e.r.Parameter(name))
		if err != nil || v.Kind() != jsonedit.Object {
			continue
		}
		e.carried = append(e.carried, name)
		for k, m := range v.Fields() {
			f.raw(k.String(), m.Raw())
		}
	}
	e.topK(&f)
	e.effort(&f)
	switch e.model.vendor {
	case "anthropic":
		e.claudeFields(&f)
	case "cohere":
		f.number("frequency_penalty", e.r.FrequencyPenalty)
		f.number("presence_penalty", e.r.PresencePenalty)
		f.raw("logitBias", e.r.LogitBias)
	case "ai21":
		e.ai21Fields(&f)
	}
	if f.seen != nil {
		e.b.Close('}')
	}
}

func (e *requestEncoder) topK(f *fields) {
	k := e.r.TopK
	switch {
	case k == nil:
	case e.fixed() && !e.own:
		e.changes.Drop(llm.FieldTopK)
	case e.model.nova():
		if f.begin("inferenceConfig") {
			e.b.Open('{')
			e.b.Name("topK")
			e.b.Int(*k)
			e.b.Close('}')
		}
	case e.own, e.model.claude(), e.model.vendor == "cohere", e.model.vendor == "ai21", e.model.vendor == "mistral":
		if f.begin("top_k") {
			e.b.Int(*k)
		}
	default:
		e.changes.Drop(llm.FieldTopK)
	}
}

// effort writes the thinking effort, and records what happened to the settings.
func (e *requestEncoder) effort(f *fields) {
	t := &e.thinks
	switch {
	case t.drop != "":
		e.changes.Drop(llm.FieldThinking)
	case t.note != "":
		e.changes.Adapt(llm.FieldThinking, t.note)
	}
	switch {
	case t.effortFailed:
		e.changes.Drop(llm.FieldEffort)
	case t.effortNote != "":
		e.changes.Adapt(llm.FieldEffort, t.effortNote)
	}
	if t.summaryLost {
		e.changes.Drop(llm.FieldSummary)
	}
	if !e.keepsThinking() {
		e.changes.DropThinking()
	}
	if t.effort == "" {
		return
	}
	switch {
	case e.model.nova2():
		if f.begin("reasoningConfig") {
			e.b.Open('{')
			e.b.Name("type")
			e.b.String("enabled")
			e.b.Name("maxReasoningEffort")
			e.b.String(t.effort)
			e.b.Close('}')
		}
	case e.model.vendor == "openai":
		f.text("reasoning_effort", t.effort)
	case e.model.vendor == "qwen":
		f.text("reasoning_config", t.effort)
	}
}

func (e *requestEncoder) claudeFields(f *fields) {
	e.claudeThinking(f)
	e.claudeOutput(f)
	if e.r.User != "" && f.begin("metadata") {
		e.b.Open('{')
		e.b.Name("user_id")
		e.b.String(e.changes.User(dialect.MaxUserMessages))
		e.b.Close('}')
	}
	for _, name := range [...]string{"anthropic_version", "context_management"} {
		v := e.r.Parameter(name)
		if v == nil {
			continue
		}
		e.carried = append(e.carried, name)
		if name == "context_management" && e.thinks.off {
			v = dialect.WithoutClearThinking(v)
		}
		if v != nil {
			f.raw(name, v)
		}
	}
	if flags := e.betas(); len(flags) > 0 && f.begin("anthropic_beta") {
		e.b.Open('[')
		for _, flag := range flags {
			e.b.String(flag)
		}
		e.b.Close(']')
	}
	e.claudeTools(f)
}

// keepsThinking reports whether the client's thinking object is sent, with all
// of its members.
func (e *requestEncoder) keepsThinking() bool {
	return e.own || e.r.Dialect == "messages" && e.model.claude() && e.thinks.mode != ""
}

func (e *requestEncoder) claudeThinking(f *fields) {
	t := &e.thinks
	if t.mode == "" || !f.begin("thinking") {
		return
	}
	e.b.Open('{')
	e.b.Name("type")
	e.b.String(string(t.mode))
	if t.budget > 0 {
		e.b.Name("budget_tokens")
		e.b.Int(t.budget)
	}
	if t.display != "" {
		e.b.Name("display")
		e.b.String(t.display)
	}
	if e.keepsThinking() {
		for _, m := range e.r.Reasoning.Extra {
			e.b.Key(m.Name)
			e.b.Raw(m.Value)
		}
	}
	e.b.Close('}')
}

// claudeOutput writes output_config: the effort, and other members sent by a
// client of the messages dialect.
func (e *requestEncoder) claudeOutput(f *fields) {
	const name = "output_config"
	sent, err := jsonedit.ParseValue(e.r.Parameter(name))
	if err == nil && sent.Kind() == jsonedit.Object {
		e.carried = append(e.carried, name)
	}
	if e.thinks.effort == "" && sent.Kind() != jsonedit.Object || !f.begin(name) {
		return
	}
	e.b.Open('{')
	if e.thinks.effort != "" {
		e.b.Name("effort")
		e.b.String(e.thinks.effort)
	}
	for k, m := range sent.Fields() {
		if k.Is("effort") && e.thinks.effort != "" {
			continue
		}
		e.b.Key(k.String())
		e.b.Raw(m.Raw())
	}
	e.b.Close('}')
}

// flagsTaken are the beta flags that Bedrock accepts; it rejects a request with
// any other.
var flagsTaken = map[string]bool{
	"computer-use-2024-10-22": true, "computer-use-2025-01-24": true, "computer-use-2025-11-24": true,
	"token-efficient-tools-2025-02-19": true, "interleaved-thinking-2025-05-14": true, "output-128k-2025-02-19": true,
	"dev-full-thinking-2025-05-14": true, "context-1m-2025-08-07": true, "context-management-2025-06-27": true,
	"effort-2025-11-24": true, "tool-search-tool-2025-10-19": true, "tool-examples-2025-10-29": true,
	"fine-grained-tool-streaming-2025-05-14": true,
}

// betas returns the beta flags: those of the client that Bedrock accepts, and
// those that the request needs.
func (e *requestEncoder) betas() (flags []string) {
	seen := map[string]bool{}
	add := func(flag string) {
		if strings.HasPrefix(flag, "advanced-tool-use-") && !e.own {
			flag = "tool-search-tool-2025-10-19"
		}
		if !seen[flag] {
			seen[flag] = true
			flags = append(flags, flag)
		}
	}
	for _, list := range e.askedBetas() {
		for flag := range strings.SplitSeq(list, ",") {
			flag = strings.TrimSpace(flag)
			switch {
			case flag == "":
			case e.own, flagsTaken[flag], strings.HasPrefix(flag, "advanced-tool-use-"):
				add(flag)
			default:
				e.changes.DropNamed("anthropic_beta." + flag)
			}
		}
	}
	if e.thinks.old && e.thinks.effort != "" && !e.own {
		add("effort-2025-11-24")
	}
	for _, t := range e.r.Tools {
		if flag := toolBeta(&t); flag != "" {
			add(flag)
		}
	}
	return flags
}

// askedBetas returns the beta flags of the client, given as a list or a string.
func (e *requestEncoder) askedBetas() (list []string) {
	const name = "anthropic_beta"
	v, err := jsonedit.ParseValue(e.r.Parameter(name))
	if err != nil {
		return nil
	}
	e.carried = append(e.carried, name)
	if s, ok := v.Text(); ok {
		return []string{s}
	}
	for flag := range v.Elements() {
		if s, ok := flag.Text(); ok {
			list = append(list, s)
		}
	}
	return list
}

// ai21Fields writes penalties: Jamba expects numbers, its predecessors objects.
func (e *requestEncoder) ai21Fields(f *fields) {
	if !e.model.OldPenalties {
		f.number("frequency_penalty", e.r.FrequencyPenalty)
		f.number("presence_penalty", e.r.PresencePenalty)
		return
	}
	scale := func(name string, v *float64) {
		if v != nil && f.begin(name) {
			e.b.Open('{')
			e.b.Name("scale")
			e.b.Float(*v)
			e.b.Close('}')
		}
	}
	scale("frequencyPenalty", e.r.FrequencyPenalty)
	scale("presencePenalty", e.r.PresencePenalty)
}
