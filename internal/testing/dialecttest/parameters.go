package dialecttest

import (
	"encoding/json"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// optional draws a parameter if the dialect has it.
func optional[T any](g *generator, f llm.Field, draw func() T) *T {
	if !g.has(f) || !g.maybe(string(f)) {
		return nil
	}
	v := draw()
	return &v
}

func (g *generator) sampling(r *llm.Request) {
	share := func() float64 { return g.eighths(0, 1) }
	penalty := func() float64 { return g.eighths(-2, 2) }
	r.MaxTokens = optional(g, llm.FieldMaxTokens, func() int64 { return g.number(2048, 9000) })
	r.Temperature = optional(g, llm.FieldTemperature, share)
	r.TopP = optional(g, llm.FieldTopP, share)
	r.TopK = optional(g, llm.FieldTopK, func() int64 { return g.number(1, 100) })
	r.FrequencyPenalty = optional(g, llm.FieldFrequencyPenalty, penalty)
	r.PresencePenalty = optional(g, llm.FieldPresencePenalty, penalty)
	r.Seed = optional(g, llm.FieldSeed, func() int64 { return g.number(0, 1<<31-1) })
	r.N = optional(g, llm.FieldN, func() int64 { return g.number(1, 4) })
	if g.has(llm.FieldStop) {
		for range g.upTo(3, "stops") {
			r.Stop = append(r.Stop, g.word("stop"))
		}
	}
	if g.has(llm.FieldLogprobs) && g.maybe("logprobs") {
		yes := true
		r.Logprobs = &yes
		r.TopLogprobs = optional(g, llm.FieldTopLogprobs, func() int64 { return g.number(0, 20) })
	}
	r.LogitBias = g.raw(llm.FieldLogitBias, `{"50256":-100}`)
}

func (g *generator) raw(f llm.Field, value string) json.RawMessage {
	if p := optional(g, f, func() json.RawMessage { return json.RawMessage(value) }); p != nil {
		return *p
	}
	return nil
}

func (g *generator) choice(f llm.Field, values ...string) string {
	if p := optional(g, f, func() string { return one(g, values, string(f)) }); p != nil {
		return *p
	}
	return ""
}

// modes returns the modes of thinking that the conversation allows.
func (g *generator) modes(r *llm.Request) []llm.ThinkingMode {
	signed := func(t llm.Thinking) bool { return t.Signature.Value != "" }
	modes := or(g.Modes, llm.ThinkingEnabled, llm.ThinkingDisabled)
	if g.Signed != llm.Anthropic || !dialect.LacksThinking(r.Messages, signed) {
		return modes
	}
	return slices.DeleteFunc(slices.Clone(modes), func(m llm.ThinkingMode) bool { return m == llm.ThinkingEnabled })
}

func (g *generator) otherParams(r *llm.Request) {
	if g.has(llm.FieldFormat) && g.maybe("format") {
		g.format(&r.Format)
	}
	if g.has(llm.FieldThinking) && g.maybe("mode") {
		r.Reasoning.Mode = one(g, g.modes(r), "mode of thinking")
		if r.Reasoning.Mode == llm.ThinkingEnabled {
			budget := g.number(1024, 2000)
			r.Reasoning.Budget = &budget
		}
	}
	if r.Reasoning.Mode == "" {
		r.Reasoning.Effort = g.choice(llm.FieldEffort, or(g.Efforts, "low", "medium", "high")...)
	}
	r.Verbosity = g.choice(llm.FieldVerbosity, "low", "medium", "high")
	if g.has(llm.FieldModalities) && g.maybe("modalities") {
		r.Modalities = []string{"text"}
	}
	r.Speech = g.raw(llm.FieldSpeech, `{"voice":"alloy","format":"wav"}`)
	r.User = g.choice(llm.FieldUser, "user-1")
	r.Metadata = g.raw(llm.FieldMetadata, `{"team":"blue"}`)
	r.ServiceTier = g.choice(llm.FieldServiceTier, "auto")
	r.Cache = optional(g, llm.FieldCache, func() llm.Cache { return llm.Cache{} })
}

func (g *generator) format(f *llm.Format) {
	f.Kind = one(g, or(g.Formats, llm.FormatText, llm.FormatJSON, llm.FormatSchema), "kind of format")
	if f.Kind != llm.FormatSchema {
		return
	}
	f.Name, f.Schema = "answer", json.RawMessage(one(g, schemas, "schema"))
	if g.StrictTools && g.maybe("strict format") {
		strict := true
		f.Strict = &strict
	}
}
