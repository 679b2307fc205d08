// Package api holds the words of the wire: operations, header names and limits.
//
// It promises that a name is spelled in one place and has no behaviour beyond
// what belongs to a word. How a header is read, a route served or a limit
// enforced is left to the packages above.
package api

import "slices"

// Operation names what a client wants from a provider. Operations are values,
// so a provider offers one by having a path for it.
type Operation string

// The operations that have a unified route. Proxy is every other path: it is
// passed through untouched.
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
	Invoke              Operation = "invoke"
	Models              Operation = "models"
	Files               Operation = "files"
	Batches             Operation = "batches"
	FineTuning          Operation = "fine_tuning"
	Realtime            Operation = "realtime"
	Proxy               Operation = "proxy"

	// Explain and ConfigSchema are the gateway's own; no provider offers them.
	Explain      Operation = "explain"
	ConfigSchema Operation = "schema.config"

	// PromptRender shows what a saved prompt makes, and asks nobody.
	PromptRender Operation = "prompts.render"

	// LogInsert is an exchange that did not go through the gateway: it was posted
	// to the log.
	LogInsert Operation = "logs.insert"
)

// The operations that no route of a client has: what a provider's row calls the
// conversations that only providers speak, and how it counts tokens.
const (
	CohereChat    Operation = "cohere.chat"
	OllamaChat    Operation = "ollama.chat"
	OracleChat    Operation = "oracle.chat"
	Prediction    Operation = "replicate.chat"
	ConverseCount Operation = "converse.count_tokens"
)

// logged are the operations of requests to the gateway.
var logged = []Operation{
	Chat, Completions, Embeddings, Images, ImageEdits, ImageVariations, AudioSpeech, AudioTranscriptions, AudioTranslations, Moderations,
	Rerank, Responses, Messages, CountTokens, Generate, GenerateCount, GenerateEmbed, GenerateEmbedBatch, Converse, Invoke, Models, Files,
	Batches, FineTuning, Realtime, Proxy, Explain, ConfigSchema, PromptRender, LogInsert,
}

// IsLogged reports whether a log entry can have the operation.
func (op Operation) IsLogged() bool { return slices.Contains(logged, op) }

// Streamed is the operation whose path a provider's row gives where streams
// have one of their own.
func (op Operation) Streamed() Operation { return op + ".stream" }

// Dialect names a wire protocol.
type Dialect string

// The dialects that clients or providers speak.
const (
	DialectChat      Dialect = "chat"
	DialectMessages  Dialect = "messages"
	DialectResponses Dialect = "responses"
	DialectGemini    Dialect = "gemini"
	DialectConverse  Dialect = "converse"
	DialectInvoke    Dialect = "invoke" // messages as Bedrock's InvokeModel carries them
	DialectCohere    Dialect = "cohere"
	DialectOllama    Dialect = "ollama"
	DialectOracle    Dialect = "oracle"
	DialectReplicate Dialect = "replicate"
	DialectNative    Dialect = "own" // a format of its own: reachable by pass-through
)

// conversations are the operations that ask for an answer, by dialect: between
// these the gateway translates.
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

// ConversationOperation returns the operation that asks for an answer in d, empty when
// there is none.
func (d Dialect) ConversationOperation() Operation { return conversations[d] }

// counts are the operations that ask how many tokens a request has, by dialect.
var counts = map[Dialect]Operation{
	DialectMessages: CountTokens,
	DialectGemini:   GenerateCount,
	DialectConverse: ConverseCount,
}

// CountOperation returns the operation that asks how many tokens a request in d has,
// empty when there is none.
func (d Dialect) CountOperation() Operation { return counts[d] }

// ModelInPath reports whether requests of d name their model, and whether they
// stream, in their path and not in their body.
func (d Dialect) ModelInPath() bool {
	return d == DialectGemini || d == DialectConverse || d == DialectInvoke
}

// BasePath is the version prefix that every base address ends in.
const BasePath = "/v1"

// Limits of the specification that more than one package needs.
const (
	// MaxConfigHeader is the largest config header read, in bytes.
	MaxConfigHeader = 64 << 10
	// MaxMetadataValue is the longest metadata value, in characters.
	MaxMetadataValue = 512
)
