package chat

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// counts holds the token counters of a response under the names of providers of
// the chat dialect. Each is the largest value received, since some providers
// send growing usage with every chunk.
type counts struct {
	prompt, completion, total  int64
	cached, write5m, write1h   int64
	reasoning                  int64
	promptAudio, completeAudio int64
	promptImage, completeImage int64
	millis                     int64 // of a transcribed recording

	// outsidePrompt is true if cached and written tokens came in fields of the
	// messages dialect, where they are not part of the prompt.
	outsidePrompt bool
	counter       dialect.Counter
}

// read reads a usage object.
func (u *counts) read(c *jsonedit.Cursor) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			u.take(c, &u.prompt)
		case "completion_tokens", "output_tokens":
			u.take(c, &u.completion)
		case "total_tokens":
			u.take(c, &u.total)
		case "prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details":
			u.readDetails(c, &u.promptAudio, &u.promptImage)
		case "completion_tokens_details", "output_tokens_details":
			u.readDetails(c, &u.completeAudio, &u.completeImage)
		case "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens": // deepseek; moonshot; mistral
			u.take(c, &u.cached)
		case "reasoning_tokens":
			u.take(c, &u.reasoning)
		case "cache_read_input_tokens":
			u.outsidePrompt = true
			u.take(c, &u.cached)
		case "cache_creation_input_tokens":
			u.outsidePrompt = true
			u.take(c, &u.write5m)
		case "seconds": // of a transcription: {"type": "duration", "seconds": 9}
			u.millis = max(u.millis, readMillis(c))
		case "cache_creation":
			u.readDetails(c, new(int64), new(int64))
		default:
			c.Skip()
		}
	}
}

// readDetails reads the details of one counter.
func (u *counts) readDetails(c *jsonedit.Cursor, audio, image *int64) {
	if !c.Enter('{') {
		c.Skip()
		return
	}
	for key, ok := c.Field(); ok; key, ok = c.Field() {
		switch string(key) {
		case "cached_tokens":
			u.take(c, &u.cached)
		case "cache_write_tokens", "cache_creation_tokens":
			u.take(c, &u.write5m)
		case "ephemeral_1h_input_tokens":
			u.take(c, &u.write1h)
		case "reasoning_tokens":
			u.take(c, &u.reasoning)
		case "audio_tokens":
			u.take(c, audio)
		case "image_tokens":
			u.take(c, image)
		default:
			c.Skip()
		}
	}
}

// take reads a counter and keeps the larger value.
func (u *counts) take(c *jsonedit.Cursor, into *int64) {
	if v := c.Value(); !c.Failed() {
		*into = max(*into, u.counter.Read(v))
	}
}

// usage returns the counters without overlaps. Details never exceed the counter
// they belong to. Tokens in the total beyond prompt and completion are
// reasoning that the provider leaves out of completion_tokens (xAI, Gemini) if
// the response is a conversation, and input otherwise (Voyage sends only the
// total).
func (u *counts) usage(conversation bool) llm.Usage {
	prompt, completion, reasoning := u.prompt, u.completion, u.reasoning
	write1h := min(u.write1h, u.write5m) // the 5m counter holds both
	write5m := u.write5m - write1h
	if caches := u.cached + u.write5m; u.cachesBesidePrompt(caches) {
		prompt += caches
	}
	if excess := u.total - prompt - completion; excess > 0 {
		if conversation {
			completion += excess
			reasoning = max(reasoning, excess)
		} else {
			prompt += excess
		}
	}
	var out llm.Usage
	u.counter.Mark(&out)
	out.CachedInput = part(&prompt, u.cached)
	out.CacheWrite1h = part(&prompt, write1h)
	out.CacheWrite5m = part(&prompt, write5m)
	out.InputAudio = part(&prompt, u.promptAudio)
	out.Input = prompt
	out.Reasoning = part(&completion, reasoning)
	out.OutputAudio = part(&completion, u.completeAudio)
	out.Output = completion
	out.InputImage, out.OutputImage = min(u.promptImage, out.Input), min(u.completeImage, out.Output)
	return out
}

// cachesBesidePrompt reports whether prompt_tokens excludes cached tokens: the
// total shows it, or they would exceed the prompt.
func (u *counts) cachesBesidePrompt(caches int64) bool {
	if !u.outsidePrompt || caches == 0 {
		return false
	}
	return caches > u.prompt || u.total == u.prompt+u.completion+caches
}

// part subtracts up to n from *total and returns what it subtracted.
func part(total *int64, n int64) int64 {
	n = min(n, *total)
	*total -= n
	return n
}
