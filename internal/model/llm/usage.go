package llm

// Usage counts the tokens of one response by kind. The kinds do not overlap:
// Input excludes cached tokens and cache writes, Output excludes Reasoning. All
// counts are zero or more; Known tells a reported zero from an unknown count.
type Usage struct {
	Input        int64
	CachedInput  int64
	CacheWrite5m int64
	CacheWrite1h int64
	Output       int64
	Reasoning    int64
	InputAudio   int64
	OutputAudio  int64

	// InputImage and OutputImage are the part of Input and of Output that are
	// tokens of images. Zero means none or unknown. They are read to find the
	// cost and are not recorded.
	InputImage  int64
	OutputImage int64

	// Known is true if the counts are valid: reported by the provider or, if
	// Estimated is true, estimated by the gateway.
	Known bool
	// Estimated is true if the gateway estimated some of the counts.
	Estimated bool
	// Invalid is true if the provider reported a count that is none, such as -1 or "7". Known
	// is false then, and the counts are those that are valid. It is not recorded.
	Invalid bool
}

// Prompt returns prompt_tokens of the chat dialect: all tokens read, including
// cached ones.
func (u Usage) Prompt() int64 {
	return u.Input + u.CachedInput + u.CacheWrite5m + u.CacheWrite1h + u.InputAudio
}

// Completion returns completion_tokens of the chat dialect: all tokens written,
// including reasoning.
func (u Usage) Completion() int64 { return u.Output + u.Reasoning + u.OutputAudio }

// Total returns the sum of Prompt and Completion.
func (u Usage) Total() int64 { return u.Prompt() + u.Completion() }

// Larger returns the larger of two reports about one response, or the later one
// if they are equal. Reports are cumulative, so they are not added. They are
// not mixed either, since they may divide the counts differently. If either is invalid,
// the result is.
func (u Usage) Larger(later Usage) Usage {
	if u.Invalid || later.Invalid {
		if later.Total() >= u.Total() {
			u = later
		}
		u.Known, u.Invalid = false, true
		return u
	}
	if later.Known && (!u.Known || later.Total() >= u.Total()) {
		return later
	}
	return u
}

// Estimate returns the usage of a response with u, whose counts are unknown: these
// estimates of its tokens, or the valid counts of u if they are larger.
func (u Usage) Estimate(prompt, completion int64) Usage {
	u.Input += max(prompt-u.Prompt(), 0)
	u.Output += max(completion-u.Completion(), 0)
	u.Known, u.Estimated, u.Invalid = true, true, false
	return u
}

// RoughTokens returns a rough number of the tokens of text of this size: one for four bytes.
func RoughTokens(bytes int) int64 { return int64(bytes+3) / 4 }
