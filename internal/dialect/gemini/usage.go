package gemini

import (
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// counts holds the counters of usageMetadata, the largest value seen of each.
// https://ai.google.dev/api/generate-content#UsageMetadata
type counts struct {
	prompt, tools, cached, candidates, thoughts int64
	promptAudio, cachedAudio, candidatesAudio   int64
	known                                       bool
}

func (c *counts) read(v jsonedit.Value) {
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"promptTokenCount"`:
			c.take(&c.prompt, v)
		case `"toolUsePromptTokenCount"`:
			c.take(&c.tools, v)
		case `"cachedContentTokenCount"`:
			c.take(&c.cached, v)
		case `"candidatesTokenCount"`:
			c.take(&c.candidates, v)
		case `"thoughtsTokenCount"`:
			c.take(&c.thoughts, v)
		case `"promptTokensDetails"`:
			c.audio(&c.promptAudio, v)
		case `"cacheTokensDetails"`:
			c.audio(&c.cachedAudio, v)
		case `"candidatesTokensDetails"`:
			c.audio(&c.candidatesAudio, v)
		}
	}
}

func (c *counts) take(into *int64, v jsonedit.Value) {
	if n, ok := v.Int(); ok && n >= 0 && n < 1<<48 {
		*into, c.known = max(*into, n), true
	}
}

// audio reads the audio tokens from a list of tokens by modality.
func (c *counts) audio(into *int64, v jsonedit.Value) {
	for e := range v.Elements() {
		if kind, _ := e.Get("modality"); string(kind.Raw()) == `"AUDIO"` {
			n, _ := e.Get("tokenCount")
			c.take(into, n)
		}
	}
}

// usage returns the counters without overlaps: cached tokens are part of the
// prompt; tokens of tool results and thoughts are not part of other counters.
func (c *counts) usage() llm.Usage {
	u := llm.Usage{Known: c.known, Reasoning: c.thoughts}
	prompt, candidates := c.prompt, c.candidates
	u.CachedInput = part(&prompt, c.cached)
	u.InputAudio = part(&prompt, max(0, c.promptAudio-c.cachedAudio))
	u.Input = prompt + c.tools
	u.OutputAudio = part(&candidates, c.candidatesAudio)
	u.Output = candidates
	return u
}

// part subtracts up to n from *whole and returns what it subtracted.
func part(whole *int64, n int64) int64 {
	n = min(n, *whole)
	*whole -= n
	return n
}

// appendUsage writes usageMetadata.
func appendUsage(b *jsonedit.Builder, u llm.Usage) {
	b.Name("usageMetadata")
	b.Open('{')
	number(b, "promptTokenCount", u.Prompt())
	if u.CachedInput > 0 {
		number(b, "cachedContentTokenCount", u.CachedInput)
	}
	number(b, "candidatesTokenCount", u.Output+u.OutputAudio)
	if u.Reasoning > 0 {
		number(b, "thoughtsTokenCount", u.Reasoning)
	}
	number(b, "totalTokenCount", u.Total())
	appendKinds(b, "promptTokensDetails", u.Prompt()-u.InputAudio, u.InputAudio)
	appendKinds(b, "candidatesTokensDetails", u.Output, u.OutputAudio)
	b.Close('}')
}

// appendKinds writes a list of tokens by modality if there are audio tokens.
func appendKinds(b *jsonedit.Builder, name string, words, audio int64) {
	if audio == 0 {
		return
	}
	b.Name(name)
	b.Open('[')
	for _, kind := range [...]struct {
		name string
		n    int64
	}{{"TEXT", words}, {"AUDIO", audio}} {
		if kind.n > 0 {
			b.Open('{')
			text(b, "modality", kind.name)
			number(b, "tokenCount", kind.n)
			b.Close('}')
		}
	}
	b.Close(']')
}

func number(b *jsonedit.Builder, name string, n int64) {
	b.Name(name)
	b.Int(n)
}
