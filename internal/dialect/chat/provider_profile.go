package chat

import (
	"regexp"
	"strings"

	"modelgate/internal/llm"
)

// providerProfile is how a provider of the dialect deviates from what most of them take.
// It concerns translated requests alone; what rows drop, rename and clamp is in
// the provider table.
type providerProfile struct {
	vendor bool // the dialect's own vendor, or its models at a host: all that it documents
	topK   bool // top_k is refused

	thought   thinkingStyle            // how thinking of earlier turns is told
	effort    effortStyle              // how thinking is asked for
	efforts   map[string]string        // other words for efforts; an empty one can't be said
	formats   []llm.FormatKind         // those known; all when nil
	modes     []llm.ChoiceMode         // of tool_choice; all when nil
	required  string                   // another word for required
	shortIDs  bool                     // ids of calls are nine letters and digits
	addresses map[llm.MediaKind]string // types of parts for media at an address
	data      bool                     // data of documents goes where addresses go
	cache     bool                     // cache_control on parts
	google    bool                     // signatures of calls are Google's
	tier      bool                     // service_tier
	plainText bool                     // content of assistants and tools is a string
	unnamed   bool                     // participants have no names
}

type thinkingStyle uint8

const (
	thoughtHidden  thinkingStyle = iota
	thoughtText                  // reasoning_content
	thoughtDetails               // reasoning_details
	thoughtParts                 // parts of content
)

type effortStyle uint8

const (
	effortWord     effortStyle = iota // reasoning_effort
	effortThinking                    // thinking, and reasoning_effort beside it
	effortObject                      // reasoning, an object
	effortSwitch                      // thinking alone
)

// profileFor returns how provider deviates.
func profileFor(provider string) *providerProfile {
	if m, ok := manners[provider]; ok {
		return &m
	}
	return &providerProfile{plainText: true}
}

var (
	vendorManner = providerProfile{vendor: true, topK: true, tier: true}
	zhipuManner  = providerProfile{ // https://docs.z.ai/api-reference/llm/chat-completion
		thought: thoughtText, effort: effortSwitch, plainText: true,
		formats:   []llm.FormatKind{llm.FormatText, llm.FormatJSON},
		modes:     []llm.ChoiceMode{llm.ChoiceAuto},
		addresses: map[llm.MediaKind]string{llm.Document: "file_url"},
	}
	arkManner = providerProfile{thought: thoughtText, effort: effortThinking, tier: true, plainText: true} // https://www.volcengine.com/docs/82379
)

var manners = map[string]providerProfile{
	"openai":       vendorManner,
	"azure-openai": vendorManner,
	"azure-ai":     {topK: true},
	"github":       {topK: true},

	// https://docs.mistral.ai/api
	"mistral-ai": {
		topK: true, thought: thoughtParts, shortIDs: true, unnamed: true, required: "any",
		efforts: map[string]string{
			"minimal": "high", "low": "high", "medium": "high", "high": "high", "xhigh": "high", "max": "high", "none": "none",
		},
		addresses: map[llm.MediaKind]string{llm.Document: "document_url"}, data: true,
	},
	// https://api-docs.deepseek.com
	"deepseek": {
		topK: true, thought: thoughtText, effort: effortThinking, plainText: true,
		efforts: map[string]string{"none": "", "minimal": "low", "xhigh": "max"},
		formats: []llm.FormatKind{llm.FormatText, llm.FormatJSON},
	},
	// https://openrouter.ai/docs/api-reference/overview
	"openrouter": {thought: thoughtDetails, effort: effortObject, cache: true, tier: true, data: true},
	// https://platform.moonshot.ai/docs/api/chat
	"moonshot": {
		topK: true, thought: thoughtText, effort: effortThinking, plainText: true,
		efforts: map[string]string{"none": "", "minimal": "low", "medium": "high", "xhigh": "max"},
		modes:   []llm.ChoiceMode{llm.ChoiceAuto, llm.ChoiceNone},
	},
	"zhipu":     zhipuManner,
	"z-ai":      zhipuManner,
	"dashscope": {thought: thoughtText, plainText: true},
	// https://docs.fireworks.ai/api-reference/post-chatcompletions
	"fireworks-ai": {thought: thoughtText, effort: effortThinking, tier: true, plainText: true},
	"volcengine":   arkManner,
	"byteplus":     arkManner,
	"siliconflow":  {thought: thoughtText, plainText: true},
	// https://console.groq.com/docs/reasoning
	"groq": {topK: true, tier: true, plainText: true, unnamed: true, efforts: map[string]string{"none": "", "minimal": "low", "xhigh": "high", "max": "high"}},
	// https://docs.x.ai/docs/api-reference
	"x-ai": {topK: true, tier: true, efforts: map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}},
	// https://docs.perplexity.ai/api-reference
	"perplexity-ai": {
		topK: true, plainText: true,
		formats:   []llm.FormatKind{llm.FormatText, llm.FormatSchema},
		addresses: map[llm.MediaKind]string{llm.Document: "file_url"},
	},
	"google":    {google: true, plainText: true},
	"vertex-ai": {google: true, plainText: true},
}

// reasons reports whether a model of the dialect's own vendor thinks, and so
// takes efforts but no sampling.
// https://platform.openai.com/docs/guides/reasoning
func reasons(model string) bool {
	model = model[strings.LastIndexByte(model, '/')+1:]
	return thinkers.MatchString(model) && !strings.Contains(model, "-chat")
}

var thinkers = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|[1-9]\d)|codex)`)

// takesEffort reports whether a model of a provider can be asked how much to
// think. Mistral refuses the parameter for the others.
func (m *providerProfile) takesEffort(provider, model string) bool {
	switch {
	case m.vendor:
		return reasons(model)
	case provider == "mistral-ai":
		return strings.HasPrefix(model, "mistral-small") || strings.HasPrefix(model, "mistral-medium")
	case provider == "groq":
		return strings.Contains(model, "gpt-oss") || strings.Contains(model, "qwen")
	}
	return true
}

// vendorOf returns whose signatures the models behind OpenRouter understand,
// which their names begin with.
func vendorOf(model string) llm.Vendor {
	head, _, _ := strings.Cut(strings.TrimPrefix(model, "~"), "/")
	switch head {
	case "x-ai":
		return "xai"
	}
	return llm.Vendor(head)
}
