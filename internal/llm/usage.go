package llm

// Usage counts the tokens of one answer by kind. The kinds do not overlap:
// Input leaves out the cached and cache-writing parts, Output leaves out
// Reasoning. All counts are zero or more; Known tells a measured zero from a
// count that nobody knows.
type Usage struct {
	Input        int64
	CachedInput  int64
	CacheWrite5m int64
	CacheWrite1h int64
	Output       int64
	Reasoning    int64
	InputAudio   int64
	OutputAudio  int64

	// Known is true when the counts hold: the provider reported them or, where
	// Estimated is true, the gateway estimated them.
	Known bool
	// Estimated is true when the gateway estimated some of the counts.
	Estimated bool
}

// Prompt is what the chat dialect calls prompt_tokens: all tokens read,
// cached ones included.
func (u Usage) Prompt() int64 {
	return u.Input + u.CachedInput + u.CacheWrite5m + u.CacheWrite1h + u.InputAudio
}

// Completion is what the chat dialect calls completion_tokens: all tokens
// written, reasoning included.
func (u Usage) Completion() int64 { return u.Output + u.Reasoning + u.OutputAudio }

// Total is Prompt plus Completion.
func (u Usage) Total() int64 { return u.Prompt() + u.Completion() }

// Larger returns that of two reports about one answer which counts more, the
// later one where they are equal. Reports are cumulative: they are never added,
// and not mixed either, since one may part its counts otherwise than another.
func (u Usage) Larger(later Usage) Usage {
	if later.Known && (!u.Known || later.Total() >= u.Total()) {
		return later
	}
	return u
}
