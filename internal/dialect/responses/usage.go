package responses

import (
	"math"

	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// readUsage reads a usage object. Cached and written tokens are part of
// input_tokens, and reasoning is part of output_tokens; no part is larger than
// its total.
func readUsage(v jsonedit.Value) llm.Usage {
	var input, output, cached, written, reasoning int64
	known := false
	for key, m := range v.Fields() {
		switch {
		case key.Is("input_tokens"):
			input, known = count(m), true
		case key.Is("output_tokens"):
			output, known = count(m), true
		case key.Is("input_tokens_details"):
			cached, written = countIn(m, "cached_tokens"), countIn(m, "cache_write_tokens")
		case key.Is("output_tokens_details"):
			reasoning = countIn(m, "reasoning_tokens")
		}
	}
	if !known {
		return llm.Usage{}
	}
	u := llm.Usage{Known: true}
	u.CachedInput = min(cached, input)
	u.CacheWrite5m = min(written, input-u.CachedInput)
	u.Input = input - u.CachedInput - u.CacheWrite5m
	u.Reasoning = min(reasoning, output)
	u.Output = output - u.Reasoning
	return u
}

func countIn(v jsonedit.Value, name string) int64 {
	m, _ := v.Get(name)
	return count(m)
}

// count returns a plausible counter: not negative and not too large; otherwise
// zero.
func count(v jsonedit.Value) int64 {
	n, ok := v.Int()
	if !ok || n < 0 || n > math.MaxInt64>>16 {
		return 0
	}
	return n
}

func writeUsage(b *jsonedit.Builder, u llm.Usage) {
	if !u.Known {
		b.Null()
		return
	}
	b.Open('{')
	b.Name("input_tokens")
	b.Int(u.Prompt())
	b.Name("input_tokens_details")
	b.Open('{')
	b.Name("cached_tokens")
	b.Int(u.CachedInput)
	b.Name("cache_write_tokens")
	b.Int(u.CacheWrite5m + u.CacheWrite1h)
	b.Close('}')
	b.Name("output_tokens")
	b.Int(u.Completion())
	b.Name("output_tokens_details")
	b.Open('{')
	b.Name("reasoning_tokens")
	b.Int(u.Reasoning)
	b.Close('}')
	b.Name("total_tokens")
	b.Int(u.Total())
	b.Close('}')
}
