package modeldata

// Efforts that families of Claude accept.
var (
	claudeEfforts = []string{"low", "medium", "high", "max"}
	claudeXHigh   = []string{"low", "medium", "high", "xhigh", "max"}
)

// Pages of Anthropic.
const (
	claudeModels   = "https://docs.claude.com/en/docs/about-claude/models/overview"
	claudeAdaptive = "https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking"
	claudeEffort   = "https://docs.claude.com/en/docs/build-with-claude/effort"
)

// Anthropic holds the models of Anthropic, at Anthropic and in the clouds.
var Anthropic = NewTable(
	Model{Pattern: "opus-5", MaxOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, TopEffortThinks: true,
		NoSampling: true, Source: claudeAdaptive, Read: "2026-11-23"},
	Model{Pattern: "opus-4-8", MaxOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, NoSampling: true,
		Source: claudeAdaptive, Read: "2026-11-23"},
	Model{Pattern: "opus-4-7", MaxOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, NoSampling: true,
		Source: claudeAdaptive, Read: "2026-11-23"},
	Model{Pattern: "fable-5", MaxOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, NoSampling: true,
		Source: claudeAdaptive, Read: "2026-11-23"},
	Model{Pattern: "sonnet-5", MaxOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, NoSampling: true,
		Source: claudeAdaptive, Read: "2026-11-23"},
	Model{Pattern: "sonnet-4-6", MaxOutput: 128000, Structured: true, Thinking: AnyThinking, Efforts: claudeEfforts, Source: claudeAdaptive,
		Read: "2026-11-23"},
	Model{Pattern: "opus-4-6", MaxOutput: 128000, Structured: true, Thinking: AnyThinking, Efforts: claudeEfforts, Source: claudeAdaptive,
		Read: "2026-11-23"},
	Model{Pattern: "opus-4-5", MaxOutput: 64000, Structured: true, Thinking: BudgetThinking, Efforts: lowToHigh, Source: claudeEffort,
		Read: "2026-11-23"},
	Model{Pattern: "sonnet-4-5", MaxOutput: 64000, Structured: true, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "haiku-4-5", MaxOutput: 64000, Structured: true, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "opus-4-1", MaxOutput: 32000, Structured: true, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "sonnet-4-0", MaxOutput: 64000, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "opus-4-0", MaxOutput: 32000, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-*-4-#", DefaultOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh,
		TopEffortThinks: true, NoSampling: true, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "sonnet-4", MaxOutput: 64000, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "opus-4", MaxOutput: 32000, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-3-7", MaxOutput: 64000, Thinking: BudgetThinking, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-3-5", MaxOutput: 8192, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-3", MaxOutput: 4096, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-2", MaxOutput: 4096, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-v2", MaxOutput: 4096, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude-instant", MaxOutput: 4096, Source: claudeModels, Read: "2026-11-23"},
	Model{Pattern: "claude", DefaultOutput: 128000, Structured: true, Thinking: AdaptiveThinking, Efforts: claudeXHigh, TopEffortThinks: true,
		NoSampling: true, Source: claudeModels, Read: "2026-11-23"},
)
