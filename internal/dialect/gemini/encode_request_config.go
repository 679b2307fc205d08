package gemini

import (
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// generation writes generationConfig unless it is empty.
func (w *requestEncoder) generation() {
	outer := w.b
	w.b = jsonedit.Append(nil)
	w.b.Open('{')
	w.sampling()
	w.format()
	w.thinking()
	w.media()
	w.nested(config)
	w.b.Close('}')
	object := w.b.Bytes()
	w.b = outer
	if len(object) > len("{}") {
		w.b.Name("generationConfig")
		w.b.Raw(object)
	}
}

var scalars = dialect.Scalars{
	{Name: "temperature", Field: llm.FieldTemperature},
	{Name: "topP", Field: llm.FieldTopP},
	{Name: "topK", Field: llm.FieldTopK},
	{Name: "candidateCount", Field: llm.FieldN},
	{Name: "maxOutputTokens", Field: llm.FieldMaxTokens},
	{Name: "stopSequences", Field: llm.FieldStop},
	{Name: "seed", Field: llm.FieldSeed},
	{Name: "presencePenalty", Field: llm.FieldPresencePenalty},
	{Name: "frequencyPenalty", Field: llm.FieldFrequencyPenalty},
	{Name: "responseLogprobs", Field: llm.FieldLogprobs},
	{Name: "logprobs", Field: llm.FieldTopLogprobs},
}

func (w *requestEncoder) sampling() {
	r, most := *w.r, int64(20)
	if n := r.TopLogprobs; n != nil && *n > most && !w.own {
		w.changes.Adapt(llm.FieldTopLogprobs, "20")
		r.TopLogprobs = &most
	}
	if n := r.Seed; n != nil && int64(int32(*n)) != *n && !w.own {
		low := int64(int32(*n))
		w.changes.Adapt(llm.FieldSeed, dialect.NoteSeed(low))
		r.Seed = &low
	}
	scalars.Append(&w.b, &r)
}

func (w *requestEncoder) strings(list []string) {
	w.b.Open('[')
	for _, s := range list {
		w.b.String(s)
	}
	w.b.Close(']')
}

// format writes the response format.
// https://ai.google.dev/gemini-api/docs/structured-output
func (w *requestEncoder) format() {
	f := w.r.Format
	switch {
	case f.Kind == "" || w.forced:
		return
	case w.own:
	case f.Kind == llm.FormatText:
		return
	case w.model.MixedTools || len(w.r.Tools) == 0:
	case f.Kind == llm.FormatJSON:
		w.changes.Drop(llm.FieldFormat) // the model rejects it together with tools
		return
	default:
		w.fail(w.r.NameOf(llm.FieldFormat), "a response format other than an object together with tools")
		return
	}
	if w.r.Parameter(config+"responseMimeType") == nil {
		mime := "application/json"
		if f.Kind == llm.FormatText {
			mime = "text/plain"
		}
		text(&w.b, "responseMimeType", mime)
	}
	if f.Kind == llm.FormatSchema && len(f.Schema) > 0 {
		w.schema("responseJsonSchema", "responseSchema", f.Schema, w.r.NameOf(llm.FieldFormat))
	}
}

// schema writes a JSON Schema; for older models it is reduced to what OpenAPI
// schema can express.
func (w *requestEncoder) schema(name, older string, schema []byte, path string) {
	v, err := jsonedit.ParseValue(schema)
	if err != nil || v.Kind() != jsonedit.Object {
		w.fail(path, "a schema that is not a JSON object")
		return
	}
	if w.own || !w.model.NoJSONSchema {
		w.b.Name(name)
		w.b.Raw(schema)
		return
	}
	w.b.Name(older)
	appendOpenAPI(&w.b, v)
}

// media writes the modalities and the settings of speech and images.
func (w *requestEncoder) media() {
	speech := w.extraParam("speechConfig")
	if modalities := w.modalities(speech != nil); len(modalities) > 0 {
		upper := make([]string, len(modalities))
		for i, m := range modalities {
			upper[i] = strings.ToUpper(m)
		}
		w.b.Name("responseModalities")
		w.strings(upper)
	}
	w.speech(speech)
	if w.own {
		return
	}
	if raw := w.extraParam("imageConfig"); raw != nil {
		w.b.Name("imageConfig")
		w.image(raw)
	}
	if raw := w.extraParam("mediaResolution"); raw != nil {
		w.b.Name("mediaResolution")
		w.b.Raw(raw)
	}
	if raw := w.extraParam("audioTimestamp"); raw != nil {
		w.b.Name("audioTimestamp")
		w.b.Raw(raw)
	}
}

// modalities returns the output modalities. A model that speaks has no other
// output.
// https://ai.google.dev/gemini-api/docs/speech-generation
func (w *requestEncoder) modalities(speech bool) []string {
	list := w.r.Modalities
	alone := len(list) == 1
	switch {
	case w.own:
		return list
	case alone && list[0] == "text":
		list = nil // the default
	}
	if w.r.Speech == nil && !speech && !slices.Contains(list, "audio") || alone && list != nil && list[0] == "audio" {
		return list
	}
	if len(list) > 0 {
		w.changes.Adapt(llm.FieldModalities, "AUDIO")
	}
	return []string{"audio"}
}

// speech writes the voice.
func (w *requestEncoder) speech(explicit []byte) {
	switch {
	case explicit != nil && !w.own:
		if w.r.Speech != nil {
			w.changes.Drop(llm.FieldSpeech)
		}
		w.b.Name("speechConfig")
		w.camelled(explicit)
		return
	case w.r.Speech == nil:
		return
	}
	v, _ := jsonedit.ParseValue(w.r.Speech)
	voice, _ := v.Get("voice")
	name, ok := voice.Text()
	if !ok {
		w.changes.Drop(llm.FieldSpeech)
		return
	}
	if format, ok := v.Get("format"); ok && string(format.Raw()) != `"pcm16"` {
		w.changes.Adapt(llm.FieldSpeech, "pcm16")
	}
	w.changes.DropMembers(w.r.NameOf(llm.FieldSpeech), v, "voice", "format")
	w.b.Name("speechConfig")
	w.b.Open('{')
	w.b.Name("voiceConfig")
	w.b.Open('{')
	w.b.Name("prebuiltVoiceConfig")
	w.b.Open('{')
	text(&w.b, "voiceName", name)
	w.b.Close('}')
	w.b.Close('}')
	w.b.Close('}')
}

// image writes imageConfig. The Gemini API rejects the members that only Vertex
// AI has.
func (w *requestEncoder) image(raw []byte) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil || v.Kind() != jsonedit.Object {
		w.b.Raw(raw)
		return
	}
	w.b.Open('{')
	for key, v := range v.Fields() {
		name := camel(key)
		if !w.vertex && (name == "personGeneration" || name == "prominentPeople" || name == "imageOutputOptions") {
			w.changes.DropNamed("image_config." + key.String())
			continue
		}
		w.b.Key(name)
		camelled(&w.b, v)
	}
	w.b.Close('}')
}

// thinking writes thinkingConfig.
// https://ai.google.dev/gemini-api/docs/thinking
func (w *requestEncoder) thinking() {
	t := w.r.Reasoning
	if t.Mode == "" && t.Budget == nil && t.Effort == "" && t.Summary == "" && len(t.Extra) == 0 {
		return
	}
	outer := w.b
	w.b = jsonedit.Append(nil)
	w.b.Open('{')
	switch {
	case w.own:
		w.clientThinking()
	case !w.model.Thinks():
		w.unthinking()
	default:
		w.thinkingFor()
	}
	w.b.Close('}')
	object := w.b.Bytes()
	w.b = outer
	if len(object) > len("{}") {
		w.b.Name("thinkingConfig")
		w.b.Raw(object)
	}
}

// clientThinking writes the settings as a client of this dialect sent them.
func (w *requestEncoder) clientThinking() {
	t := w.r.Reasoning
	if t.Summary != "" {
		w.b.Name("includeThoughts")
		w.b.Bool(t.Summary != "omitted")
	}
	switch {
	case t.Mode == llm.ThinkingDisabled:
		number(&w.b, "thinkingBudget", 0)
	case t.Budget != nil:
		number(&w.b, "thinkingBudget", *t.Budget)
	case t.Mode == llm.ThinkingAdaptive:
		number(&w.b, "thinkingBudget", -1)
	}
	if t.Effort != "" {
		text(&w.b, "thinkingLevel", strings.ToUpper(t.Effort))
	}
	for _, m := range t.Extra {
		w.b.Key(m.Name)
		w.b.Raw(m.Value)
	}
}

// unthinking records the settings that a model without thinking does not
// support.
func (w *requestEncoder) unthinking() {
	t := w.r.Reasoning
	w.dropped(llm.FieldThinking, t.Mode != "" && t.Mode != llm.ThinkingDisabled || t.Budget != nil)
	w.dropped(llm.FieldEffort, t.Effort != "" && t.Effort != "none")
	w.dropped(llm.FieldSummary, t.Summary != "" && t.Summary != "omitted")
	w.unknownThinking()
}

func (w *requestEncoder) unknownThinking() { w.changes.DropThinking() }

// thinkingFor writes the settings of a client of another dialect for the
// model's generation. An explicit mode or budget wins over an effort.
func (w *requestEncoder) thinkingFor() {
	t := w.r.Reasoning
	w.unknownThinking()
	explicit := t.Mode != "" || t.Budget != nil
	off := t.Mode == llm.ThinkingDisabled || !explicit && t.Effort == "none" || t.Budget != nil && *t.Budget == 0
	if explicit && t.Effort != "" && (off || t.Budget != nil) {
		w.changes.Drop(llm.FieldEffort)
		t.Effort = ""
	}
	if asked := explicit || t.Effort != ""; t.Summary != "omitted" && (t.Summary != "" || asked && !off) {
		w.b.Name("includeThoughts")
		w.b.Bool(true)
	}
	field := llm.FieldThinking
	if !explicit {
		field = llm.FieldEffort
	}
	switch {
	case off:
		w.disableThinking(field)
	case t.Budget != nil:
		w.budget(*t.Budget, llm.FieldThinking)
	case t.Effort != "" && w.levels():
		level := w.levelOf(t.Effort)
		if level != t.Effort {
			w.changes.Adapt(llm.FieldEffort, dialect.NoteMember("thinkingLevel", level))
		}
		text(&w.b, "thinkingLevel", level)
	case t.Effort != "":
		w.budget(budgetOf(t.Effort), llm.FieldEffort)
		w.changes.Adapt(llm.FieldEffort, dialect.NoteMember("thinkingBudget", strconv.FormatInt(budgetOf(t.Effort), 10)))
	case t.Mode == llm.ThinkingAdaptive && !w.levels():
		number(&w.b, "thinkingBudget", -1)
	}
}

// disableThinking disables thinking, or minimises it if the model cannot
// disable it.
func (w *requestEncoder) disableThinking(field llm.Field) {
	if w.levels() {
		level := w.model.Efforts[0]
		w.changes.Adapt(field, dialect.NoteMember("thinkingLevel", level))
		text(&w.b, "thinkingLevel", level)
		return
	}
	n := int64(0)
	if w.model.AlwaysThinks {
		n = w.model.MinBudget
		w.changes.Adapt(field, dialect.NoteMember("thinkingBudget", strconv.FormatInt(n, 10)))
	}
	number(&w.b, "thinkingBudget", n)
}

// budget writes a budget, limited to the model's range.
func (w *requestEncoder) budget(n int64, field llm.Field) {
	if n > 0 {
		least, most := int64(0), n
		if !w.levels() {
			least, most = w.model.MinBudget, w.model.MaxBudget
		}
		bound := dialect.FitBudget(min(max(n, least), most), w.r.MaxTokens)
		if bound < least { // no room: the model decides
			w.changes.Drop(field)
			return
		}
		if bound != n {
			w.changes.Adapt(field, dialect.NoteMember("thinkingBudget", strconv.FormatInt(bound, 10)))
			n = bound
		}
	}
	number(&w.b, "thinkingBudget", max(n, -1))
}
