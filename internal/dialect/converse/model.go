package converse

import (
	"strings"

	"modelgate/internal/llm"
)

// model is what the id of a target's model reveals.
type model struct {
	vendor string // prefix of the id, such as anthropic; empty if it has none
	id     string // the rest of the id
}

// regions are the prefixes of inference profiles.
// https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html
var regions = []string{"us-gov.", "us.", "eu.", "apac.", "au.", "ca.", "jp.", "global.", "sa.", "me.", "af.", "uk.", "in."}

// modelOf parses an id, or the ARN of a model or of a profile that AWS defines.
// The ARN of an application's own profile does not reveal the model.
func modelOf(id string) model {
	if strings.HasPrefix(id, "arn:") {
		kind, last, _ := strings.Cut(id[strings.LastIndexByte(id, ':')+1:], "/")
		if _, resource, ok := strings.Cut(id, "/"); ok {
			last = resource
			kind = id[:strings.IndexByte(id, '/')]
		}
		if !strings.HasSuffix(kind, ":foundation-model") && !strings.HasSuffix(kind, ":inference-profile") {
			return model{}
		}
		id = last
	}
	for _, region := range regions {
		if rest, ok := strings.CutPrefix(id, region); ok {
			id = rest
			break
		}
	}
	vendor, rest, ok := strings.Cut(id, ".")
	if !ok {
		return model{id: id}
	}
	return model{vendor: strings.ToLower(vendor), id: strings.ToLower(rest)}
}

func (m model) has(parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(m.id, part) {
			return true
		}
	}
	return false
}

func (m model) claude() bool { return m.vendor == "anthropic" }
func (m model) nova() bool   { return m.vendor == "amazon" && m.has("nova") }
func (m model) nova2() bool  { return m.nova() && m.has("nova-2", "nova-premier-2") }

// signs returns the vendor whose signatures the model makes and accepts.
func (m model) signs() llm.Vendor {
	if m.claude() {
		return llm.Anthropic
	}
	return llm.Amazon
}

// Generations of Claude, oldest first.
const (
	before37 = iota // claude 3.5 and older: no thinking
	before45        // 3.7, 4, 4.1: thinking with a budget
	claude45        // structured output; opus also has efforts
	claude46        // adaptive thinking
	claude47        // no sampling parameters, xhigh
)

// generation returns the generation of a Claude model. An unknown id counts as
// the latest.
func (m model) generation() int {
	switch {
	case m.has("claude-3-7"), m.has("claude-opus-4-1"), m.has("claude-opus-4-2025", "claude-sonnet-4-2025"), m.has("claude-opus-4-0", "claude-sonnet-4-0"):
		return before45
	case m.has("claude-3", "claude-v2", "claude-2", "claude-instant"):
		return before37
	case m.has("-4-5"):
		return claude45
	case m.has("-4-6"):
		return claude46
	}
	return claude47
}

// rejectsSchemas reports whether Bedrock rejects output formats and strict
// tools for a Claude model whose own API supports them.
func (m model) rejectsSchemas() bool { return m.generation() < claude45 || m.generation() >= claude47 }

// forces reports whether the model accepts toolChoice any; names reports
// whether it accepts the name of a tool.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html
func (m model) forces() bool { return m.names() || m.vendor == "mistral" && m.has("large") }
func (m model) names() bool {
	return m.claude() && !m.has("claude-v2", "claude-2", "instant") || m.nova()
}

// structured reports whether the model accepts outputConfig.
// https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html
func (m model) structured() bool {
	switch m.vendor {
	case "anthropic":
		return !m.rejectsSchemas()
	case "amazon", "meta", "cohere", "ai21", "writer", "stability", "twelvelabs", "luma":
		return false
	case "mistral":
		return m.has("large-3", "ministral", "magistral", "voxtral")
	case "deepseek":
		return !m.has("r1")
	}
	return true
}

// caches reports whether the model accepts cache points.
// https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
func (m model) caches() bool { return m.claude() || m.nova() }

// hears reports whether the model accepts audio.
func (m model) hears() bool { return m.has("voxtral", "omni", "sonic") }

// noSystem reports whether the model rejects a system prompt.
func (m model) noSystem() bool {
	return m.vendor == "mistral" && m.has("mistral-7b", "mixtral") || m.vendor == "amazon" && m.has("titan-text")
}

// shortIDs reports whether call ids must be nine letters and digits.
func (m model) shortIDs() bool { return m.vendor == "mistral" }
