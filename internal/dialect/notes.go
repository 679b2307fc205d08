package dialect

import (
	"strconv"
	"strings"
)

// Notes of changed parameters, as x-gateway-params shows them. Dialects and the pipeline
// have none of their own, so that equal changes have equal notes; a note may also be the
// name or the value that is sent.
const (
	// Conversations.
	SystemFirst        = "system messages come before the conversation"
	SystemAsUser       = "system prompt sent as user message"
	LaterSystemAsUser  = "later system messages are sent as the user's"
	DeveloperAsSystem  = "the role developer is sent as system"
	AsUserText         = "user text"
	AsUserMessage      = "sent as a user message"
	BeginsWithUser     = "a user message is inserted before the conversation" // see Opener
	ReplyInserted      = "a reply of the assistant is inserted after the tool's message"
	TurnsMerged        = "consecutive messages of one role are merged"
	PrefixMarked       = "prefix: true marks the message that the model continues"
	AsOnePrompt        = "the turns as one prompt"
	MediaInUserMessage = "media of tool results are in a user message"
	InNextUserMessage  = "moved to the next user message"
	DocumentsAsText    = "documents as text"
	DocumentsSeparate  = "documents next to the messages"
	DocumentsAsLines   = "documents as lines of these fields"
	NotRead            = "the target does not read it"

	// Tools and calls.
	NoTools              = "no tools are offered"
	OnlyAllowedTools     = "only the allowed tools are sent"
	AnyWithOnlyTool      = "any (only this tool is sent)"
	AutoForCalls         = "auto: the conversation contains calls, so the tools must be sent"
	AutoForThinking      = "auto (a forced tool is not allowed while thinking)"
	CustomAsFunction     = "a function with one string parameter"
	CustomWithoutGrammar = CustomAsFunction + ", without its grammar"
	ParametersOutlined   = "only names, types and descriptions of parameters"
	AlternativesInText   = "the alternatives of its schema are in the schema's description"
	SearchTool           = "the search among the tools"
	DescribedAsText      = "described as text"
	MalformedAsText      = "malformed arguments as text in an object"
	CallIDsReplaced      = "call ids that the provider refuses are replaced"

	// Formats of responses.
	ForcedTool           = "forced tool"
	InInstructions       = "requested in the instructions"
	SchemaInSystem       = "json_object, with the schema in a system message"
	ConstraintsInText    = "constraints of values are in the descriptions"
	ConstraintsUnchecked = "without the constraints that the provider does not check"

	// Images.
	AspectRatio = "aspect ratio" // with its value, by [NoteMember]

	// Thinking, sampling and caches.
	ModelDecides      = "as the model decides"
	WithoutBudget     = "without a budget"
	ThinkingDisabled  = "disabled: the turn that tool results continue does not begin with thinking of the provider's models"
	BlankStopsRemoved = "blank sequences removed"
	CachePoint        = "a cache point after the last message"
	ProvidersLifetime = "for as long as the provider keeps it"
	OfDeferredTool    = "of a deferred tool"
	FourMarks         = "four marks, the first and the last ones"

	// Token counts and responses.
	TokensEstimated = "an estimate: the provider offers no token count"
	Transcript      = "its transcript"
)

// sentAs returns the note of something that is sent under another name.
func sentAs(name string) string { return "sent as " + name }

// NoteMember returns the note of a parameter whose value is sent in a member of the provider.
func NoteMember(member, value string) string { return member + " " + value }

// NoteLeftOut returns the note of something that is sent without one of its members.
func NoteLeftOut(note, member string) string { return note + ", without " + member }

// NoteOnlyTool returns the note of a choice of the only tool that is sent, by a word.
func NoteOnlyTool(choice string) string { return "the only tool, " + choice }

// NoteBudget returns the note of thinking that is limited to n tokens.
func NoteBudget(n int64) string { return "a budget of " + strconv.FormatInt(n, 10) + " tokens" }

// NoteFirst returns the note of a list of which the first n are sent.
func NoteFirst(n int) string { return "the first " + strconv.Itoa(n) }

// NoteMinimum returns the note of a value that is raised to the provider's minimum.
func NoteMinimum(value string) string { return value + " (minimum)" }

// NoteMaximum returns the note of a value that is reduced to the provider's maximum.
func NoteMaximum(value string) string { return value + " (maximum)" }

// noteHashedUser returns the note of a user's id that is longer than most bytes.
func noteHashedUser(most int) string {
	return "its SHA-256 hash: the provider accepts at most " + strconv.Itoa(most) + " bytes"
}

// NoteMarks returns the note of the members that are marked for the provider's cache.
func NoteMarks(members []string) string { return "set on " + strings.Join(members, " and ") }

// NoteOption returns the note of a header that an option of the provider replaces.
func NoteOption(option string) string { return "the provider's option " + option + " applies" }

// NoteSeed returns the note of a seed of which the provider reads 32 bits.
func NoteSeed(seed int64) string {
	return strconv.FormatInt(seed, 10) + ": the provider accepts integers of 32 bits"
}
