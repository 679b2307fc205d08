package chat

import (
	"maps"
	"slices"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var _ dialect.ProviderCodec = Dialect{}

// dialectName marks parameters and content that only this dialect has.
const dialectName = string(api.DialectChat)

// DecodeRequest reads a client's request. Consecutive tool results become one
// message; functions and function_call become tools.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, dialect.Invalid("body", dialect.CodeType, "must be JSON: %v", err)
	}
	d := requestDecoder{r: &llm.Request{Dialect: dialectName}}
	for key, value := range d.fields("body", v) {
		d.member(key.String(), value)
	}
	d.messages()
	if d.Err != nil {
		return nil, d.Err
	}
	d.r.Unknown = d.Unknown
	d.r.Names = fieldNames(d.legacy, d.completion)
	if d.openRouter {
		d.r.Names = maps.Clone(d.r.Names)
		maps.Copy(d.r.Names, reasoningNames)
	}
	return d.r, nil
}

// requestDecoder reads one request.
type requestDecoder struct {
	reader
	r          *llm.Request
	list       jsonedit.Value // messages, read after everything else
	legacy     bool           // functions or function_call were sent
	completion bool           // the limit was sent as max_completion_tokens
	openRouter bool           // thinking was set by OpenRouter's object

	// calls are the tool calls so far, by id, and functionsCalled the last call
	// of each name. Tool results refer to them.
	calls, functionsCalled map[string]llm.ToolCall

	numbered   numberedCalls // of the last turn with calls
	lastNumber int           // in an id of numberedID

	results bool // the last message holds tool results
}

func (d *requestDecoder) member(name string, v jsonedit.Value) {
	if v.IsNull() {
		return // official clients send null for parameters that are not set
	}
	if d.sampling(name, v) {
		return
	}
	r := d.r
	switch name {
	case "messages":
		d.list = v
	case "model":
		r.Model = d.Text(name, v)
	case "stream":
		r.Stream = d.Flag(name, v)
	case "stream_options":
		if usage, ok := v.Get("include_usage"); ok && !usage.IsNull() {
			r.IncludeUsage = d.Bool(name+".include_usage", usage)
		}
		d.LoseUnknown(name, v, "include_usage")
	case "tools":
		d.tools(v)
	case "functions":
		d.functions(v)
	case "tool_choice":
		d.toolChoice(v)
	case "function_call":
		d.functionCall(v)
	case "parallel_tool_calls":
		r.ParallelTools = d.Bool(name, v)
	case "response_format":
		d.format(v)
	case "thinking":
		d.thinking(v)
	default:
		if !d.bookkeeping(name, v) {
			r.Extra = append(r.Extra, llm.Member{Name: name, Value: v.Raw()})
		}
	}
}

// sampling reads a sampling parameter; it returns false for other parameters.
func (d *requestDecoder) sampling(name string, v jsonedit.Value) bool {
	r := d.r
	switch name {
	case "max_tokens":
		if !d.completion {
			r.MaxTokens = d.Int(name, v)
		}
	case "max_completion_tokens":
		r.MaxTokens, d.completion = d.Int(name, v), true
	case "temperature":
		r.Temperature = d.Float(name, v)
	case "top_p":
		r.TopP = d.Float(name, v)
	case "top_k":
		r.TopK = d.Int(name, v)
	case "frequency_penalty":
		r.FrequencyPenalty = d.Float(name, v)
	case "presence_penalty":
		r.PresencePenalty = d.Float(name, v)
	case "seed":
		r.Seed = d.Int(name, v)
	case "n":
		r.N = d.Int(name, v)
	case "stop":
		r.Stop = slices.DeleteFunc(d.texts(name, v), func(s string) bool { return s == "" }) // an empty one means none
	case "logit_bias":
		r.LogitBias = d.object(name, v)
	case "logprobs":
		r.Logprobs = d.Bool(name, v)
	case "top_logprobs":
		r.TopLogprobs = d.Int(name, v)
	default:
		return false
	}
	return true
}

// bookkeeping reads the remaining parameters that many dialects have.
func (d *requestDecoder) bookkeeping(name string, v jsonedit.Value) bool {
	r := d.r
	switch name {
	case "reasoning_effort":
		r.Reasoning.Effort = d.Text(name, v)
	case "reasoning":
		if v.Kind() != jsonedit.Object {
			return false
		}
		d.reasoning(v)
	case "verbosity":
		r.Verbosity = d.Text(name, v)
	case "modalities":
		r.Modalities = d.texts(name, v)
	case "audio":
		r.Speech = d.object(name, v)
	case "user":
		r.User = d.Text(name, v)
	case "metadata":
		r.Metadata = d.object(name, v)
	case "service_tier":
		r.ServiceTier = d.Text(name, v)
	case "cache_control":
		r.Cache = d.cache(name, v)
	case "web_search_options":
		d.searchPlace(name+".user_location", v)
		return false
	default:
		return false
	}
	return true
}

// searchPlace records the unknown members of the user's location in
// web_search_options. Targets announce the other options that they lack.
func (d *requestDecoder) searchPlace(path string, options jsonedit.Value) {
	place, _ := options.Get("user_location")
	inner, _ := place.Get("approximate")
	d.LoseUnknown(path, place, "type", "approximate", "city", "region", "country", "timezone")
	d.LoseUnknown(path+".approximate", inner, "type", "city", "region", "country", "timezone")
}

// reasoning reads OpenRouter's object, whose meaning other targets have too.
// https://openrouter.ai/docs/use-cases/reasoning-tokens
func (d *requestDecoder) reasoning(v jsonedit.Value) {
	d.openRouter = true
	r := &d.r.Reasoning
	enabled := false
	for key, m := range v.Fields() {
		switch name := key.String(); {
		case m.IsNull():
		case name == "effort":
			r.Effort = d.Text("reasoning.effort", m)
		case name == "max_tokens":
			r.Budget, r.Mode = d.Int("reasoning.max_tokens", m), llm.ThinkingEnabled
		case name == "enabled":
			if enabled = d.Flag("reasoning.enabled", m); !enabled {
				r.Mode = llm.ThinkingDisabled
			}
		case name == "exclude":
			if d.Flag("reasoning.exclude", m) {
				r.Summary = "omitted"
			}
		default:
			r.Extra = append(r.Extra, llm.Member{Name: name, Value: m.Raw()})
		}
	}
	if enabled && r.Effort == "" && r.Budget == nil {
		r.Effort = "medium" // as OpenRouter reads it
	}
}

// reasoningNames are the names of fields in OpenRouter's object.
var reasoningNames = map[llm.Field]string{
	llm.FieldThinkingObject: "reasoning", llm.FieldThinking: "reasoning.max_tokens", llm.FieldEffort: "reasoning.effort",
	llm.FieldSummary: "reasoning.exclude",
}

// fieldNames returns the names of request fields in this dialect. The maps are
// shared.
func fieldNames(legacy, completion bool) map[llm.Field]string {
	switch {
	case legacy && completion:
		return legacyCompletionNames
	case legacy:
		return legacyNames
	case completion:
		return completionNames
	}
	return plainNames
}

var (
	plainNames = map[llm.Field]string{
		llm.FieldSummary: "thinking.display", llm.FieldParts: "messages", llm.FieldHistory: "messages.reasoning_content",
		llm.FieldThinkingObject: "thinking",
	}
	completionNames = map[llm.Field]string{
		llm.FieldSummary: "thinking.display", llm.FieldParts: "messages", llm.FieldHistory: "messages.reasoning_content",
		llm.FieldThinkingObject: "thinking", llm.FieldMaxTokens: "max_completion_tokens",
	}
	legacyNames = map[llm.Field]string{
		llm.FieldSummary: "thinking.display", llm.FieldParts: "messages", llm.FieldHistory: "messages.reasoning_content",
		llm.FieldThinkingObject: "thinking",
		llm.FieldTools:          "functions", llm.FieldToolChoice: "function_call",
	}
	legacyCompletionNames = map[llm.Field]string{
		llm.FieldSummary: "thinking.display", llm.FieldParts: "messages", llm.FieldHistory: "messages.reasoning_content",
		llm.FieldThinkingObject: "thinking", llm.FieldMaxTokens: "max_completion_tokens",
		llm.FieldTools: "functions", llm.FieldToolChoice: "function_call",
	}
)

// legacy reports whether the client sent functions rather than tools, and so
// expects a function_call.
func legacy(r *llm.Request) bool {
	return r != nil && r.Dialect == dialectName && r.Names[llm.FieldTools] == "functions"
}
