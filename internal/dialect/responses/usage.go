package responses

import (
	"math"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// readUsage reads a usage object. Cached and written tokens are part of
// input_tokens, and reasoning is part of output_tokens; no part is larger than
// its total.
func readUsage(v jsonedit.Value) llm.Usage {
	var input, output, cached, written, reasoning int64
	var c dialect.Counter
	for key, m := range v.Fields() {
		switch {
		case key.Is("input_tokens"):
			input = c.Read(m)
		case key.Is("output_tokens"):
			output = c.Read(m)
		case key.Is("input_tokens_details"):
			cached, written = c.ReadMember(m, "cached_tokens"), c.ReadMember(m, "cache_write_tokens")
		case key.Is("output_tokens_details"):
			reasoning = c.ReadMember(m, "reasoning_tokens")
		}
	}
	var u llm.Usage
	c.Mark(&u)
	u.CachedInput = min(cached, input)
	u.CacheWrite5m = min(written, input-u.CachedInput)
	u.Input = input - u.CachedInput - u.CacheWrite5m
	u.Reasoning = min(reasoning, output)
	u.Output = output - u.Reasoning
	return u
}

// countIn returns the member of an object that is an index or a number of things, as
// count does.
func countIn(v jsonedit.Value, name string) int64 {
	m, _ := v.Get(name)
	return count(m)
}

// count returns an index or a number of things: not negative and not too large;
// otherwise zero.
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
