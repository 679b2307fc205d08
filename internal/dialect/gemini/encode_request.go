package gemini

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
)

// formTool is the forced tool whose arguments are the response, for models that
// accept no response schema together with tools.
const formTool = "json_response"

// customInput is the argument with the text input of a custom tool.
const customInput = "input"

// requestEncoder writes one request.
type requestEncoder struct {
	b       jsonedit.Builder
	r       *llm.Request
	to      dialect.RequestTarget
	model   *modeldata.Model
	changes *dialect.ParamChanges
	err     *apierr.Error

	own    bool // the client uses this dialect: nothing is translated
	vertex bool
	forced bool // structured output is emulated by a forced tool
	tools  []llm.Tool
	calls  map[string]sentCall // the calls of the conversation by id
	count  int                 // of calls written
}

// sentCall is a call of the conversation and its number.
type sentCall struct {
	name   string
	number int
}

// EncodeRequest appends the body of a request. The model is in the path.
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	changes := dialect.NewParamChanges(r)
	r, err := changes.Portable(to, dialect.Support{Dialect: own, Choices: true, Params: guards})
	if err != nil {
		return nil, nil, err
	}
	w := &requestEncoder{
		b: jsonedit.Append(dst), r: r, to: to, model: modeldata.Google.Of(to.KnownModel()), changes: changes,
		own: r.Dialect == own, vertex: to.Vertex, calls: map[string]sentCall{},
	}
	w.forced = emulated(r, w.model)
	w.tools = w.declared()
	w.b.Open('{')
	w.conversation()
	w.toolList()
	w.choice()
	w.generation()
	w.otherParams()
	w.b.Close('}')
	if w.err != nil {
		return nil, nil, w.err
	}
	return w.b.Bytes(), w.changes.List(), nil
}

// emulated reports whether the response format is emulated by a forced tool.
func emulated(r *llm.Request, m *modeldata.Model) bool {
	return r.Dialect != own && r.Format.Kind == llm.FormatSchema && !m.MixedTools && len(r.Tools) > 0 &&
		r.ToolChoice.Mode != llm.ChoiceNone && isObjectSchema(r.Format.Schema)
}

func isObjectSchema(schema json.RawMessage) bool {
	v, err := jsonedit.ParseValue(schema)
	typ, _ := v.Get("type")
	return err == nil && string(typ.Raw()) == `"object"`
}

// guards are the parameters of the dialect that a request depends on, which
// clients of other dialects may send.
var guards = []string{"cachedContent", "cached_content", "modelArmorConfig", "model_armor_config"}

// fail keeps the first error.
func (w *requestEncoder) fail(path, format string, args ...any) {
	if w.err == nil {
		w.err = dialect.Unsupported(path, w.to, format, args...)
	}
}

// otherParams writes the parameters outside of the conversation and its
// configuration, and records those that are dropped.
func (w *requestEncoder) otherParams() {
	r := w.r
	if tier := w.tier(); tier != "" {
		text(&w.b, "serviceTier", tier)
	}
	w.labels()
	for _, m := range r.Extra {
		w.extra(m)
	}
	if !w.own {
		w.changes.DropContent(dialect.UnsupportedContent{Names: true, Cites: true})
	}
	w.dropped(llm.FieldLogitBias, r.LogitBias != nil)
	w.dropped(llm.FieldUser, r.User != "")
	w.dropped(llm.FieldVerbosity, r.Verbosity != "")
	w.dropped(llm.FieldCache, w.cached())
	w.dropped(llm.FieldParallelTools, r.ParallelTools != nil && !*r.ParallelTools)
}

func (w *requestEncoder) dropped(field llm.Field, was bool) {
	if was {
		w.changes.Drop(field)
	}
}

// cached reports whether the client asks for prompt caching. The provider
// caches by itself or takes a cache by name.
func (w *requestEncoder) cached() bool {
	if w.r.Cache != nil || slices.ContainsFunc(w.r.Tools, func(t llm.Tool) bool { return t.Cache != nil }) {
		return true
	}
	for i := range w.r.Messages {
		if slices.ContainsFunc(w.r.Messages[i].Parts, cachedPart) {
			return true
		}
	}
	return false
}

func cachedPart(p llm.Part) bool {
	switch p := p.(type) {
	case llm.Text:
		return p.Cache != nil
	case llm.Media:
		return p.Cache != nil
	case llm.ToolCall:
		return p.Cache != nil
	case llm.ToolResult:
		return p.Cache != nil || slices.ContainsFunc(p.Parts, cachedPart)
	}
	return false
}

// tier returns the provider's name of the service tier. Vertex AI expects it in
// a header.
// https://ai.google.dev/gemini-api/docs/flex-inference
func (w *requestEncoder) tier() string {
	switch tier := w.r.ServiceTier; {
	case tier == "" || w.own && tier != "default":
		return tier
	case tier == "auto":
		return ""
	case w.vertex && !w.own:
		w.changes.Drop(llm.FieldServiceTier)
		return ""
	case tier == "default":
		return "standard"
	case tier == "flex" || tier == "priority":
		return tier
	}
	w.changes.Drop(llm.FieldServiceTier)
	return ""
}

// labels writes the metadata as labels, which only Vertex AI has.
// https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/add-labels-to-api-calls
func (w *requestEncoder) labels() {
	explicit := w.r.Parameter("labels")
	switch metadata := w.r.Metadata; {
	case w.own && metadata != nil:
		w.b.Name("labels")
		w.b.Raw(metadata)
	case metadata != nil && (!w.vertex || explicit != nil):
		w.changes.Drop(llm.FieldMetadata)
	case metadata != nil:
		w.changes.Adapt(llm.FieldMetadata, "labels")
		v, _ := jsonedit.ParseValue(metadata)
		w.b.Name("labels")
		w.b.Open('{')
		for key, v := range v.Fields() {
			if value, ok := v.Text(); ok && value != "" && key.String() != "" {
				w.b.Key("client_" + label(key.String(), 56))
				w.b.String(label(value, 63))
			}
		}
		w.b.Close('}')
	}
}

// label returns the part of s that a label may contain: small letters, digits,
// _ and -.
func label(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '_'
	}, s)
	return s[:min(most, len(s))]
}

// extra writes a parameter that only the client's dialect has: unchanged for
// this dialect, for another if providers of this family are known to have it.
func (w *requestEncoder) extra(m llm.Member) {
	name := camelText(m.Name)
	if w.own {
		if !strings.HasPrefix(name, config) && !strings.HasPrefix(name, toolConfig) && !strings.HasPrefix(name, partMembers) {
			w.b.Key(name)
			w.b.Raw(m.Value)
		}
		return
	}
	switch name {
	case "safetySettings", "cachedContent", "modelArmorConfig":
		w.b.Name(name)
		w.camelled(m.Value)
	case "labels":
		if !w.vertex {
			w.changes.DropNamed(m.Name)
			return
		}
		w.b.Name(name)
		w.b.Raw(m.Value)
	case "imageConfig", "mediaResolution", "speechConfig", "audioTimestamp", "retrievalConfig", "streamFunctionCallArguments":
		// part of generationConfig and toolConfig
	default:
		w.changes.DropMember(m)
	}
}

// camelled writes a value in which the client may have used either spelling.
func (w *requestEncoder) camelled(raw json.RawMessage) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		w.b.Null()
		return
	}
	camelled(&w.b, v)
}

// extraParam returns a parameter of another dialect's client under either spelling.
func (w *requestEncoder) extraParam(name string) json.RawMessage {
	for _, m := range w.r.Extra {
		if camelText(m.Name) == name && !bytes.Equal(m.Value, []byte("null")) {
			return m.Value
		}
	}
	return nil
}

// nested writes the parameters that were inside an object of the client's body.
func (w *requestEncoder) nested(prefix string) {
	if !w.own {
		return
	}
	for _, m := range w.r.Extra {
		inner := prefix == toolConfig && strings.HasPrefix(m.Name, calling)
		if name, ok := strings.CutPrefix(m.Name, prefix); ok && !inner {
			w.b.Key(name)
			w.b.Raw(m.Value)
		}
	}
}
