package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// counts holds the counters of usageMetadata, the last value of each: a
// snapshot replaces the one before it, and may leave out what did not change.
// https://ai.google.dev/api/generate-content#UsageMetadata
type counts struct {
	prompt, tools, cached, candidates, thoughts int64
	promptAudio, cachedAudio, candidatesAudio   int64
	promptImage, cachedImage, candidatesImage   int64
	total                                       int64 // of the last snapshot; 0 if it has none
	hasCandidates, hasThoughts                  bool
	counter                                     dialect.Counter
}

func (c *counts) read(v jsonedit.Value) {
	c.total = 0
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"promptTokenCount"`:
			c.take(&c.prompt, v)
		case `"toolUsePromptTokenCount"`:
			c.take(&c.tools, v)
		case `"cachedContentTokenCount"`:
			c.take(&c.cached, v)
		case `"candidatesTokenCount"`:
			c.hasCandidates = c.take(&c.candidates, v) || c.hasCandidates
		case `"thoughtsTokenCount"`:
			c.hasThoughts = c.take(&c.thoughts, v) || c.hasThoughts
		case `"totalTokenCount"`:
			c.take(&c.total, v)
		case `"promptTokensDetails"`:
			c.modalities(&c.promptAudio, &c.promptImage, v)
		case `"cacheTokensDetails"`:
			c.modalities(&c.cachedAudio, &c.cachedImage, v)
		case `"candidatesTokensDetails"`:
			c.modalities(&c.candidatesAudio, &c.candidatesImage, v)
		}
	}
}

// take reads a counter and reports whether it is one.
func (c *counts) take(into *int64, v jsonedit.Value) bool {
	var one dialect.Counter
	n := one.Read(v)
	if one.Known {
		*into = n
	}
	c.counter.Add(one)
	return one.Known
}

// modalities reads the audio and image tokens from a list of tokens by modality.
func (c *counts) modalities(audio, image *int64, v jsonedit.Value) {
	*audio, *image = 0, 0
	for e := range v.Elements() {
		kind, _ := e.Get("modality")
		n, _ := e.Get("tokenCount")
		switch string(kind.Raw()) {
		case `"AUDIO"`:
			c.take(audio, n)
		case `"IMAGE"`:
			c.take(image, n)
		}
	}
}

// usage returns the counters without overlaps: cached tokens are part of the
// prompt; tokens of tool results and thoughts are not part of other counters.
func (c *counts) usage() llm.Usage {
	candidates, thoughts, tools := c.parts()
	u := llm.Usage{Reasoning: thoughts}
	c.counter.Mark(&u)
	prompt := c.prompt
	u.CachedInput = part(&prompt, c.cached)
	u.InputAudio = part(&prompt, max(0, c.promptAudio-c.cachedAudio))
	u.Input = prompt + tools
	u.OutputAudio = part(&candidates, c.candidatesAudio)
	u.Output = candidates
	u.InputImage, u.OutputImage = min(max(0, c.promptImage-c.cachedImage), prompt), min(c.candidatesImage, candidates)
	return u
}

// parts returns the tokens of candidates, of thoughts and of the results of tools, so that
// all counters add up to the total: a counter that was never reported has the rest, or else
// the tools that the provider ran, and tokens that are part of another counter are counted
// once.
func (c *counts) parts() (candidates, thoughts, tools int64) {
	candidates, thoughts, tools = c.candidates, c.thoughts, c.tools
	rest := c.total - c.prompt - tools - candidates - thoughts
	switch {
	case c.total == 0 || rest == 0:
	case rest > 0 && !c.hasCandidates:
		candidates = rest
	case rest > 0 && !c.hasThoughts:
		thoughts = rest
	case rest > 0:
		tools += rest
	case rest == -thoughts && candidates >= thoughts:
		candidates -= thoughts
	case rest == -tools:
		tools = 0
	}
	return candidates, thoughts, tools
}

// part subtracts up to n from *total and returns what it subtracted.
func part(total *int64, n int64) int64 {
	n = min(n, *total)
	*total -= n
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
