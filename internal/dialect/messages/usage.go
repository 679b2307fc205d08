package messages

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// counts holds the token counters of a response, the largest value seen of
// each: those of a stream grow.
type counts struct {
	input, output, thinking int64
	cacheRead, cacheWrite   int64
	write5m, write1h        int64
	counter                 dialect.Counter
}

// read reads a usage object.
func (c *counts) read(v jsonedit.Value) {
	for k, value := range v.Fields() {
		switch {
		case k.Is("input_tokens"):
			c.take(value, &c.input)
		case k.Is("output_tokens"):
			c.take(value, &c.output)
		case k.Is("cache_read_input_tokens"):
			c.take(value, &c.cacheRead)
		case k.Is("cache_creation_input_tokens"):
			c.take(value, &c.cacheWrite)
		case k.Is("cache_creation"):
			c.take(inside(value, "ephemeral_5m_input_tokens"), &c.write5m)
			c.take(inside(value, "ephemeral_1h_input_tokens"), &c.write1h)
		case k.Is("output_tokens_details"):
			c.take(inside(value, "thinking_tokens"), &c.thinking)
		case k.Is("iterations"):
			c.iterate(value)
		}
	}
}

func inside(v jsonedit.Value, name string) jsonedit.Value {
	inner, _ := v.Get(name)
	return inner
}

// take reads a counter and keeps the larger value.
func (c *counts) take(v jsonedit.Value, into *int64) {
	*into = max(*into, c.counter.Read(v))
}

// iterate sums the iterations of a response. The outer counters leave out the
// tokens of compaction; iterations of another model and fallbacks are not part
// of the sum.
// https://docs.claude.com/en/docs/build-with-claude/compaction#understanding-usage
func (c *counts) iterate(v jsonedit.Value) {
	var sum counts
	compacted := false
	for e := range v.Elements() {
		var step counts
		step.read(e)
		kind, _ := inside(e, "type").Text()
		switch kind {
		case "fallback_message":
			return
		case "compaction":
			compacted = true
		case "message":
		default:
			continue
		}
		sum.add(&step)
	}
	if compacted {
		sum.counter.Known, sum.thinking = true, c.thinking
		c.keepLarger(&sum)
	}
}

func (c *counts) add(o *counts) {
	c.input += o.input
	c.output += o.output
	c.cacheRead += o.cacheRead
	c.cacheWrite += o.cacheWrite
	c.write5m += o.write5m
	c.write1h += o.write1h
	c.counter.Add(o.counter)
}

func (c *counts) keepLarger(o *counts) {
	c.input, c.output, c.thinking = max(c.input, o.input), max(c.output, o.output), max(c.thinking, o.thinking)
	c.cacheRead, c.cacheWrite = max(c.cacheRead, o.cacheRead), max(c.cacheWrite, o.cacheWrite)
	c.write5m, c.write1h = max(c.write5m, o.write5m), max(c.write1h, o.write1h)
	c.counter.Add(o.counter)
}

// usage returns the counters without overlaps.
func (c *counts) usage() llm.Usage {
	write1h := min(c.write1h, max(c.cacheWrite, c.write5m+c.write1h))
	thinking := min(c.thinking, c.output)
	u := llm.Usage{
		Input: c.input, CachedInput: c.cacheRead,
		CacheWrite5m: max(c.cacheWrite, c.write5m+c.write1h) - write1h, CacheWrite1h: write1h,
		Output: c.output - thinking, Reasoning: thinking,
	}
	c.counter.Mark(&u)
	return u
}

// usageExtra returns the members of a usage object that are not token counters,
// by their full name.
func usageExtra(list []llm.Member, v jsonedit.Value) []llm.Member {
	for k, value := range v.Fields() {
		name := k.String()
		if value.IsNull() || countedNames[name] {
			continue
		}
		list = setMember(list, usagePrefix+name, append([]byte(nil), value.Raw()...))
	}
	return list
}

// usagePrefix begins the extras that are members of usage.
const usagePrefix = "usage."

var countedNames = map[string]bool{
	"input_tokens": true, "output_tokens": true, "cache_read_input_tokens": true, "cache_creation_input_tokens": true,
	"cache_creation": true, "output_tokens_details": true, "service_tier": true,
}

// writeUsage writes usage, with the additional members of this dialect.
func writeUsage(b *jsonedit.Builder, u llm.Usage, tier string, extra []llm.Member) {
	b.Open('{')
	b.Name("input_tokens")
	b.Int(u.Input + u.InputAudio)
	b.Name("cache_creation_input_tokens")
	b.Int(u.CacheWrite5m + u.CacheWrite1h)
	b.Name("cache_read_input_tokens")
	b.Int(u.CachedInput)
	if u.CacheWrite5m+u.CacheWrite1h > 0 {
		b.Name("cache_creation")
		b.Open('{')
		b.Name("ephemeral_5m_input_tokens")
		b.Int(u.CacheWrite5m)
		b.Name("ephemeral_1h_input_tokens")
		b.Int(u.CacheWrite1h)
		b.Close('}')
	}
	b.Name("output_tokens")
	b.Int(u.Completion())
	if u.Reasoning > 0 {
		b.Name("output_tokens_details")
		b.Open('{')
		b.Name("thinking_tokens")
		b.Int(u.Reasoning)
		b.Close('}')
	}
	if tier != "" {
		b.Name("service_tier")
		b.String(tierWord(tier))
	}
	writePrefixed(b, extra, usagePrefix)
	b.Close('}')
}

// tierWord returns the protocol's name of the tier that served the response.
func tierWord(tier string) string {
	if tier == "default" {
		return "standard"
	}
	return tier
}

// writePrefixed writes the additional members whose names begin with prefix,
// without the prefix.
func writePrefixed(b *jsonedit.Builder, extra []llm.Member, prefix string) {
	for _, m := range extra {
		if len(m.Name) > len(prefix) && m.Name[:len(prefix)] == prefix {
			b.Key(m.Name[len(prefix):])
			b.Raw(m.Value)
		}
	}
}
