package messages

import (
	"encoding/json"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// DecodeRequest reads a client's request. max_tokens may be missing, since
// token counting requests have none.
func (Dialect) DecodeRequest(body []byte) (*llm.Request, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(body); err != nil {
		return nil, apierr.New(apierr.Invalid, "the body is not a JSON object: %v", err)
	}
	d := requestDecoder{req: &llm.Request{Dialect: own, Names: names}, calls: map[string]int{}}
	for k, v := range doc.Members() {
		d.parameter(k.String(), v)
	}
	d.messages()
	if d.Err != nil {
		return nil, d.Err
	}
	d.req.Unknown = d.Unknown
	return d.req, nil
}

type requestDecoder struct {
	reader
	req *llm.Request

	system, list jsonedit.Value // read last, in this order
	calls        map[string]int // index of the message of each call, by call id
}

// parameters are the parameters with a place in the neutral request.
var parameters = map[string]func(d *requestDecoder, name string, v jsonedit.Value){
	"model":          func(d *requestDecoder, name string, v jsonedit.Value) { d.req.Model = d.Text(name, v) },
	"messages":       func(d *requestDecoder, _ string, v jsonedit.Value) { d.list = v },
	"system":         func(d *requestDecoder, _ string, v jsonedit.Value) { d.system = v },
	"max_tokens":     func(d *requestDecoder, name string, v jsonedit.Value) { d.req.MaxTokens = d.Int(name, v) },
	"temperature":    func(d *requestDecoder, name string, v jsonedit.Value) { d.req.Temperature = d.Float(name, v) },
	"top_p":          func(d *requestDecoder, name string, v jsonedit.Value) { d.req.TopP = d.Float(name, v) },
	"top_k":          func(d *requestDecoder, name string, v jsonedit.Value) { d.req.TopK = d.Int(name, v) },
	"stream":         func(d *requestDecoder, name string, v jsonedit.Value) { d.req.Stream = d.Flag(name, v) },
	"cache_control":  func(d *requestDecoder, name string, v jsonedit.Value) { d.req.Cache = d.cache(name, v) },
	"stop_sequences": (*requestDecoder).stops,
	"metadata":       (*requestDecoder).metadata,
	"service_tier":   (*requestDecoder).tier,
	"thinking":       (*requestDecoder).thinking,
	"output_config":  (*requestDecoder).output,
	"output_format":  (*requestDecoder).format, // from old clients; now output_config.format
	"tools":          (*requestDecoder).tools,
	"tool_choice":    (*requestDecoder).choice,
	"thread":         (*requestDecoder).thread,
}

func (d *requestDecoder) parameter(name string, v jsonedit.Value) {
	read := parameters[name]
	switch {
	case read == nil:
		d.extra(name, v)
	case !v.IsNull():
		read(d, name, v)
	}
}

// thread rejects a conversation stored at the provider: without it, the turns
// that the client leaves out would be lost. Official clients know the code and
// then send complete conversations.
func (d *requestDecoder) thread(name string, _ jsonedit.Value) {
	d.Refuse(name, codeThread,
		"is kept by the provider that speaks this protocol and can't be translated for another: send all previous messages")
}

func (d *requestDecoder) extra(name string, v jsonedit.Value) {
	d.req.Extra = append(d.req.Extra, llm.Member{Name: name, Value: v.Raw()})
}

func (d *requestDecoder) stops(name string, v jsonedit.Value) {
	for path, e := range d.Elements(name, v) {
		d.req.Stop = append(d.req.Stop, d.RequiredText(path, e))
	}
}

// metadata reads the user id. Metadata with other members is kept unchanged for
// targets of this dialect.
func (d *requestDecoder) metadata(name string, v jsonedit.Value) {
	f := d.object(name, v)
	d.req.User = d.Text(name+".user_id", f.get("user_id"))
	if len(f.unknown("user_id")) > 0 {
		d.extra(name, v)
	}
}

// tier reads a service tier and converts it to the chat dialect's name. The
// name auto is the same in both.
func (d *requestDecoder) tier(name string, v jsonedit.Value) {
	d.req.ServiceTier = d.Text(name, v)
	if d.req.ServiceTier == "standard_only" {
		d.req.ServiceTier = "default"
	}
}

func (d *requestDecoder) thinking(name string, v jsonedit.Value) {
	f := d.object(name, v)
	r := &d.req.Reasoning
	r.Mode = llm.ThinkingMode(d.RequiredText(name+".type", f.get("type")))
	switch r.Mode {
	case llm.ThinkingEnabled, llm.ThinkingDisabled, llm.ThinkingAdaptive:
	default:
		d.Refuse(name+".type", dialect.CodeValue, `must be "enabled", "adaptive" or "disabled"`)
	}
	if budget := f.get("budget_tokens"); !budget.IsNull() {
		r.Budget = d.Int(name+".budget_tokens", budget)
	}
	r.Summary = d.Text(name+".display", f.get("display"))
	r.Extra = f.unknown("type", "budget_tokens", "display")
}

// output reads output_config. Members without a place in the neutral request go
// to Extra under their full name.
func (d *requestDecoder) output(name string, v jsonedit.Value) {
	f := d.object(name, v)
	d.req.Reasoning.Effort = d.Text(name+".effort", f.get("effort"))
	if format := f.get("format"); !format.IsNull() {
		d.format(name+".format", format)
	}
	for _, m := range f.unknown("effort", "format") {
		d.req.Extra = append(d.req.Extra, llm.Member{Name: outputPrefix + m.Name, Value: m.Value})
	}
}

func (d *requestDecoder) format(path string, v jsonedit.Value) {
	f := d.object(path, v)
	if kind := d.needed(path, "type", f); kind != string(llm.FormatSchema) {
		d.Refuse(path+".type", dialect.CodeValue, `must be "json_schema"`)
	}
	schema := f.get("schema")
	d.lose(path, f, "type", "schema", "name", "description")
	d.Is(path+".schema", schema, jsonedit.Object, "a JSON schema")
	d.req.Format = llm.Format{
		Kind: llm.FormatSchema, Schema: json.RawMessage(schema.Raw()),
		Name: d.textOf(path, "name", f), Description: d.textOf(path, "description", f),
	}
}

// cacheOf reads the cache mark of a block or a tool.
func (d *requestDecoder) cacheOf(path string, f fields) *llm.Cache {
	v := f.get("cache_control")
	if v.IsNull() {
		return nil
	}
	return d.cache(path+".cache_control", v)
}

// cache reads a cache mark; null means none.
func (d *requestDecoder) cache(path string, v jsonedit.Value) *llm.Cache {
	if v.IsNull() {
		return nil
	}
	f := d.object(path, v)
	d.lose(path, f, "type", "ttl")
	return &llm.Cache{TTL: d.textOf(path, "ttl", f)}
}
