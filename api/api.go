// Package api defines operations, header names and limits of the wire.
//
// It guarantees that a name is spelled in one place. It does not read headers,
// serve routes or enforce limits; see dataplane and controlplane.
package api

import "slices"

// Operation is what a client wants from a provider. Operations are values: a
// provider offers one by having a path for it.
type Operation string

// Operations with a unified route. Proxy is every other path, which passes
// through.
const (
	Chat                Operation = "chat"
	Completions         Operation = "completions"
	Embeddings          Operation = "embeddings"
	Images              Operation = "images"
	ImageEdits          Operation = "images.edits"
	ImageVariations     Operation = "images.variations"
	AudioSpeech         Operation = "audio.speech"
	AudioTranscriptions Operation = "audio.transcriptions"
	AudioTranslations   Operation = "audio.translations"
	Moderations         Operation = "moderations"
	Rerank              Operation = "rerank"
	Responses           Operation = "responses"
	Messages            Operation = "messages"
	CountTokens         Operation = "messages.count_tokens"
	Generate            Operation = "generate"
	GenerateCount       Operation = "generate.count_tokens"
	GenerateEmbed       Operation = "generate.embed"
	GenerateEmbedBatch  Operation = "generate.embed_batch"
	Converse            Operation = "converse"
	ConverseCount       Operation = "converse.count_tokens"
	Invoke              Operation = "invoke"
	Models              Operation = "models"
	Files               Operation = "files"
	Batches             Operation = "batches"
	FineTuning          Operation = "fine_tuning"
	Conversations       Operation = "conversations"
	Realtime            Operation = "realtime"
	Proxy               Operation = "proxy"

	// Operations of tool servers: a call of a tool, a prompt, a resource that is read, and all
	// other messages.
	ToolCall     Operation = "tools.call"
	ToolPrompt   Operation = "tools.prompt"
	ToolResource Operation = "tools.resource"
	Tools        Operation = "tools"

	// AgentMessage is a message to an agent, and Agents everything else that is asked of one.
	AgentMessage Operation = "agents.message"
	Agents       Operation = "agents"

	// Explain and ConfigSchema are the gateway's own; no provider offers them.
	Explain      Operation = "explain"
	ConfigSchema Operation = "schema.config"

	// PromptRender renders a saved prompt and calls no provider.
	PromptRender Operation = "prompts.render"

	// GuardrailTest is a test of a guardrail whose checks asked models.
	GuardrailTest Operation = "guardrails.test"

	// IntegrationTest is a test of an integration that sent a completion.
	IntegrationTest Operation = "integrations.test"

	// LogInsert is an exchange outside of the gateway that was posted to the
	// log.
	LogInsert Operation = "logs.insert"
)

// Operations without a route for clients: conversations in dialects that only
// providers use.
const (
	CohereChat Operation = "cohere.chat"
	OllamaChat Operation = "ollama.chat"
	OracleChat Operation = "oracle.chat"
	Prediction Operation = "replicate.chat"
)

// logged are the operations that a log entry can have.
var logged = []Operation{
	Chat, Completions, Embeddings, Images, ImageEdits, ImageVariations, AudioSpeech, AudioTranscriptions, AudioTranslations,
	Moderations, Rerank, Responses, Messages, CountTokens, Generate, GenerateCount, GenerateEmbed, GenerateEmbedBatch, Converse,
	ConverseCount, Invoke, Models, Files, Batches, FineTuning, Conversations, Realtime, Proxy, Explain, ConfigSchema, PromptRender,
	GuardrailTest, IntegrationTest, LogInsert, ToolCall, ToolPrompt, ToolResource, Tools,
	AgentMessage, Agents,
}

// IsLogged reports whether a log entry can have the operation.
func (op Operation) IsLogged() bool { return slices.Contains(logged, op) }

// IsTools reports whether the operation is one of tool servers or agents.
func (op Operation) IsTools() bool {
	return op == ToolCall || op == ToolPrompt || op == ToolResource || op == Tools || op.IsAgents()
}

// IsAgents reports whether the operation is one of agents.
func (op Operation) IsAgents() bool { return op == AgentMessage || op == Agents }

// IsCall reports whether the operation is a call of a tool or a message to an agent, which have
// a price.
func (op Operation) IsCall() bool { return op == ToolCall || op == AgentMessage }

// Streamed returns the operation whose path a provider uses for streams, if
// that differs.
func (op Operation) Streamed() Operation { return op + ".stream" }

// Dialect is the API format of a client or provider.
type Dialect string

// Dialects of clients or providers.
const (
	DialectChat      Dialect = "chat"
	DialectMessages  Dialect = "messages"
	DialectResponses Dialect = "responses"
	DialectGemini    Dialect = "gemini"
	DialectConverse  Dialect = "converse"
	DialectInvoke    Dialect = "invoke" // messages in Bedrock's InvokeModel
	DialectCohere    Dialect = "cohere"
	DialectOllama    Dialect = "ollama"
	DialectOracle    Dialect = "oracle"
	DialectReplicate Dialect = "replicate"
	DialectNative    Dialect = "own" // its own format: reachable by pass-through
)

// conversations are the operations of conversations by dialect: the gateway
// translates between them.
var conversations = map[Dialect]Operation{
	DialectChat:      Chat,
	DialectMessages:  Messages,
	DialectResponses: Responses,
	DialectGemini:    Generate,
	DialectConverse:  Converse,
	DialectInvoke:    Invoke,
	DialectCohere:    CohereChat,
	DialectOllama:    OllamaChat,
	DialectOracle:    OracleChat,
	DialectReplicate: Prediction,
}

// ConversationOperation returns the operation of conversations in d, empty if
// there is none.
func (d Dialect) ConversationOperation() Operation { return conversations[d] }

// counts are the token counting operations by dialect.
var counts = map[Dialect]Operation{
	DialectMessages: CountTokens,
	DialectGemini:   GenerateCount,
	DialectConverse: ConverseCount,
}

// CountOperation returns the token counting operation in d, empty if there is
// none.
func (d Dialect) CountOperation() Operation { return counts[d] }

// CountsTokens reports whether op only counts the tokens of a request.
func (op Operation) CountsTokens() bool {
	return op == CountTokens || op == GenerateCount || op == ConverseCount
}

// ModelInPath reports whether requests of d have the model and streaming in
// their path rather than in their body.
func (d Dialect) ModelInPath() bool {
	return d == DialectGemini || d == DialectConverse || d == DialectInvoke
}

// ResponseModel says which name responses give their model.
type ResponseModel string

// Values of response_model. Empty means the default of the client's dialect.
const (
	ModelRequested ResponseModel = "requested" // as in the request
	ModelServed    ResponseModel = "served"    // as the provider names it
)

// BasePath is the version prefix that every base address ends in.
const BasePath = "/v1"

// Limits of the specification that more than one package needs.
const (
	// MaxConfigHeader is the maximum size of a config header in bytes.
	MaxConfigHeader = 64 << 10
	// MaxMetadataValue is the maximum length of a metadata value in characters.
	MaxMetadataValue = 512
)
