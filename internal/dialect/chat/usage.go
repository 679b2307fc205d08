package chat

import (
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// counts are the token counters of an answer as providers of the chat dialect
// name them. Each is the largest seen: those that send usage with every chunk
// count up.
type counts struct {
	prompt, completion, total  int64
	cached, write5m, write1h   int64
	reasoning                  int64
	promptAudio, completeAudio int64

	// beside says that cached and written tokens came in fields that the
	// messages dialect has, where they are not part of the prompt.
	beside bool
	known  bool
}

// read takes a usage object.
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
			u.readDetails(c, &u.promptAudio)
		case "completion_tokens_details", "output_tokens_details":
			u.readDetails(c, &u.completeAudio)
		case "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens": // deepseek; moonshot; mistral
			u.take(c, &u.cached)
		case "reasoning_tokens":
			u.take(c, &u.reasoning)
		case "cache_read_input_tokens":
			u.beside = true
			u.take(c, &u.cached)
		case "cache_creation_input_tokens":
			u.beside = true
			u.take(c, &u.write5m)
		case "cache_creation":
			u.readDetails(c, new(int64))
		default:
			c.Skip()
		}
	}
}

// readDetails takes the parts of one of the counters.
func (u *counts) readDetails(c *jsonedit.Cursor, audio *int64) {
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
		default:
			c.Skip()
		}
	}
}

// take takes a counter and keeps the larger.
func (u *counts) take(c *jsonedit.Cursor, into *int64) {
	if n, ok := readCount(c); ok {
		*into = max(*into, n)
		u.known = true
	}
}

// usage parts the counters so that they don't overlap. Parts never add up to
// more than the whole they are of. What total holds beyond prompt and completion
// is reasoning that a provider leaves out of completion_tokens (xAI, Gemini) when
// the answer is a conversation, else input (Voyage sends total alone).
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
	out := llm.Usage{Known: u.known}
	out.CachedInput = part(&prompt, u.cached)
	out.CacheWrite1h = part(&prompt, write1h)
	out.CacheWrite5m = part(&prompt, write5m)
	out.InputAudio = part(&prompt, u.promptAudio)
	out.Input = prompt
	out.Reasoning = part(&completion, reasoning)
	out.OutputAudio = part(&completion, u.completeAudio)
	out.Output = completion
	return out
}

// cachesBesidePrompt reports whether prompt_tokens leaves the caches out: the
// total says so, or they would not fit.
func (u *counts) cachesBesidePrompt(caches int64) bool {
	if !u.beside || caches == 0 {
		return false
	}
	return caches > u.prompt || u.total == u.prompt+u.completion+caches
}

// part takes up to n out of what is left of a whole.
func part(whole *int64, n int64) int64 {
	n = min(n, *whole)
	*whole -= n
	return n
}
