package modeldata

import "modelgate/api"

// Endpoints of a model, the one for translated requests first.
var (
	chatFirst      = []api.Dialect{api.DialectChat, api.DialectResponses}
	responsesFirst = []api.Dialect{api.DialectResponses, api.DialectChat}
	chatOnly       = []api.Dialect{api.DialectChat}
	responsesOnly  = []api.Dialect{api.DialectResponses}
)

// Efforts that several families accept.
var (
	lowToHigh     = []string{"low", "medium", "high"}
	lowToXHigh    = []string{"low", "medium", "high", "xhigh"}
	mediumToXHigh = []string{"medium", "high", "xhigh"}
	noneToXHigh   = []string{"none", "low", "medium", "high", "xhigh"}
	noneToMax     = []string{"none", "low", "medium", "high", "xhigh", "max"}
)

// completionLimit is for models that reject max_tokens.
// https://developers.openai.com/api/reference/resources/chat
var completionLimit = map[string]string{"max_tokens": "max_completion_tokens"}

// Pages of OpenAI.
const (
	openaiModels    = "https://developers.openai.com/api/docs/models"
	openaiImages    = "https://platform.openai.com/docs/api-reference/images/create"
	openaiReasoning = "https://developers.openai.com/api/docs/guides/reasoning"
)

// OpenAI holds the models of OpenAI. Translated requests to reasoning models go
// to responses: only there is encrypted thinking returned, and newer models
// accept function tools only there.
// https://developers.openai.com/api/docs/guides/migrate-to-responses
var OpenAI = NewTable(
	// Models with one endpoint.
	Model{Pattern: "-search-preview", MaxOutput: 16384, NoEffort: true, Dialects: chatOnly, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-search-api", NoEffort: true, Dialects: chatOnly, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-4o*-audio", MaxOutput: 16384, NoEffort: true, Dialects: chatOnly, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-audio", MaxOutput: 16384, NoEffort: true, Dialects: chatOnly, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^computer-use", Dialects: responsesOnly, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "-deep-research", MaxOutput: 100000, Dialects: responsesOnly, Efforts: []string{"medium"}, Rename: completionLimit,
		Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^o#-pro", MaxOutput: 100000, Dialects: responsesOnly, Efforts: lowToHigh, Rename: completionLimit, Source: openaiModels,
		Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-pro", MaxOutput: 272000, Dialects: responsesOnly, Efforts: []string{"high"}, Rename: completionLimit,
		Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-*-pro", Dialects: responsesOnly, Efforts: mediumToXHigh, Rename: completionLimit, Source: openaiModels,
		Read: "2026-11-23"},
	Model{Pattern: "^codex-", MaxOutput: 100000, Dialects: responsesOnly, Efforts: lowToHigh, Rename: completionLimit, Source: openaiModels,
		Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-codex", MaxOutput: 128000, Dialects: responsesOnly, Efforts: lowToHigh, Rename: completionLimit,
		Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-1-codex-max", MaxOutput: 128000, Dialects: responsesOnly, Efforts: lowToXHigh, Rename: completionLimit,
		Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-1-codex", MaxOutput: 128000, Dialects: responsesOnly, Efforts: lowToHigh, Rename: completionLimit,
		Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-*-codex", Dialects: responsesOnly, Efforts: lowToXHigh, Rename: completionLimit, Source: openaiModels,
		Read: "2026-11-23"},

	// Models that do not think.
	Model{Pattern: "^gpt-*-chat", MaxOutput: 16384, NoEffort: true, Dialects: chatFirst, Rename: completionLimit, Source: openaiModels,
		Read: "2026-11-23"},
	Model{Pattern: "^chatgpt-", MaxOutput: 16384, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-3-5-turbo-16k", MaxOutput: 16384, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-3", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-35", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst,
		Source: "https://learn.microsoft.com/azure/ai-foundry/foundry-models/concepts/models-sold-directly-by-azure", Read: "2026-11-23"},
	Model{Pattern: "^gpt-4o-2024-05-13", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4o", MaxOutput: 16384, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-1", MaxOutput: 32768, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-5", MaxOutput: 16384, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-turbo", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-vision", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-1106", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4-0125", MaxOutput: 4096, NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},
	Model{Pattern: "^gpt-4", NoEffort: true, Dialects: chatFirst, Source: openaiModels, Read: "2026-11-28"},

	Model{Pattern: "^dall-e-2", Images: ImagesDALLE2, Source: openaiImages, Read: "2026-11-23"},
	Model{Pattern: "^dall-e-3", Images: ImagesDALLE3, Source: openaiImages, Read: "2026-11-23"},

	// Reasoning models.
	Model{Pattern: "^gpt-oss", Dialects: chatFirst, Efforts: lowToHigh, Source: "https://developers.openai.com/cookbook/topic/gpt-oss",
		Read: "2026-11-23"},
	Model{Pattern: "^o1", MaxOutput: 100000, Dialects: responsesFirst, Efforts: lowToHigh, Rename: completionLimit, Source: openaiReasoning,
		Read: "2026-11-23"},
	Model{Pattern: "^o3", MaxOutput: 100000, Dialects: responsesFirst, Efforts: lowToHigh, Rename: completionLimit, Source: openaiReasoning,
		Read: "2026-11-23"},
	Model{Pattern: "^o4", MaxOutput: 100000, Dialects: responsesFirst, Efforts: lowToHigh, Rename: completionLimit, Source: openaiReasoning,
		Read: "2026-11-23"},
	Model{Pattern: "^o#", Dialects: responsesFirst, Efforts: lowToHigh, Rename: completionLimit, Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-1", MaxOutput: 128000, Dialects: responsesFirst, ThinksIfAsked: true,
		Efforts: []string{"none", "low", "medium", "high"}, Rename: completionLimit, Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-2", MaxOutput: 128000, Dialects: responsesFirst, ThinksIfAsked: true, Efforts: noneToXHigh, Rename: completionLimit,
		Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-4", MaxOutput: 128000, Dialects: responsesFirst, ThinksIfAsked: true, Efforts: noneToXHigh, Rename: completionLimit,
		Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-5", MaxOutput: 128000, Dialects: responsesFirst, Efforts: noneToXHigh, Rename: completionLimit,
		Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-6", MaxOutput: 128000, Dialects: responsesFirst, Efforts: noneToMax, Rename: completionLimit,
		Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-#", Dialects: responsesFirst, Efforts: noneToMax, Rename: completionLimit, Source: openaiReasoning,
		Read: "2026-11-23"},
	Model{Pattern: "^gpt-5", MaxOutput: 128000, Dialects: responsesFirst, Efforts: []string{"minimal", "low", "medium", "high"},
		Rename: completionLimit, Source: openaiReasoning, Read: "2026-11-23"},
	Model{Pattern: "^gpt-#", Dialects: responsesFirst, Efforts: noneToMax, Rename: completionLimit, Source: openaiReasoning,
		Read: "2026-11-23"},
)
