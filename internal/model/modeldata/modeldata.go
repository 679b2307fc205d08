// Package modeldata holds what is known of models: which endpoints serve them,
// how they think, what they accept.
//
// It is data: a table per vendor, a row per family, each with a pattern, a
// source and the date on which the source was read. Models that a vendor will
// publish later, known by a version that no row has, get the rules of its newest
// family. Names that follow no vendor's form, such as those of deployments, have
// no row: nothing is assumed about them. No other package contains names of
// models. The tables never change; goroutines may share them.
//
// A modality is here only if requests are written differently for it, which is
// so for audio at Bedrock. Other media are sent to every model: what a model
// cannot read, its provider rejects with a better message than a table that may
// be older than the model.
package modeldata

import (
	"slices"
	"strings"

	"modelgate/api"
)

// Model is a row: what is known of the models whose names match a pattern.
type Model struct {
	// Pattern matches names in lower case, with dashes for dots and without a
	// path or a prefix of a host. A leading ^ anchors it at the beginning; a *
	// stands for any text, a # for a version: a number of one or two digits, so
	// no date. A part ends with an entire word or number: opus-4-1 is not
	// opus-4-10, pro is not prod.
	Pattern string
	Source  string // address of the documentation
	Read    string // date on which the source was read, as 2006-01-02

	// Dialects are those in which the vendor serves the models, the one for
	// translated requests first. Nil means all that the provider has.
	Dialects []api.Dialect

	// Thinking says how thinking is set, and Efforts are the accepted thinking
	// efforts, the least first. Models with neither do not think.
	Thinking Thinking
	Efforts  []string
	// NoEffort is true if a request with a thinking effort is rejected.
	NoEffort bool
	// ThinksIfAsked is true if requests that name no effort do not think.
	ThinksIfAsked bool
	// TopEffortThinks is true if efforts above high need thinking, and
	// AlwaysThinks if thinking cannot be disabled.
	TopEffortThinks bool
	AlwaysThinks    bool
	// MinBudget and MaxBudget limit a budget for thinking, in tokens; both are
	// zero if unknown.
	MinBudget, MaxBudget int64

	// MaxOutput is the maximum length of a response in tokens, which requests for
	// more are reduced to; 0 if unknown. DefaultOutput is for protocols that
	// require a length, if there is no MaxOutput.
	MaxOutput, DefaultOutput int64
	// NoSampling is true if sampling parameters are rejected.
	NoSampling bool
	// Structured is true if output formats and strict tools are supported.
	Structured bool
	// NoSystem is true if there is no system instruction.
	NoSystem bool
	// Audio is true if the models hear.
	Audio bool
	// ForcedTool is true if the models can be made to call a tool, and
	// NamedTool if the tool can be named.
	ForcedTool, NamedTool bool
	// OldPenalties is true if penalties are objects.
	OldPenalties bool
	// NoJSONSchema is true if schemas must be of OpenAPI's kind.
	NoJSONSchema bool
	// SignedCalls is true if calls are rejected that come back without their
	// signature.
	SignedCalls bool
	// MixedTools is true if functions can be combined with tools of the
	// provider and with a response format.
	MixedTools bool

	// KeepsThinking is true if each turn of the model must come back with its
	// thinking, even an empty one.
	KeepsThinking bool

	// Drop lists request fields that the provider rejects for the models, and
	// Rename maps fields to its names for them.
	Drop   []string
	Rename map[string]string

	// Images are the parameters for images that the models accept.
	Images Images
	// Publisher is the publisher in paths of Vertex AI.
	Publisher string
	// Method is the provider's method or format for embeddings, images or
	// ranking; empty means the usual one, or none. OneInput is true if it
	// embeds one input at a time.
	Method   Method
	OneInput bool

	parts    []string // of Pattern, around each *
	prefix   string   // of every matching name; empty if not anchored
	anchored bool
}

// HasRow reports whether a row of the table matched, so that the model is known.
func (m *Model) HasRow() bool { return m.Pattern != "" }

// Thinks reports whether the models think.
func (m *Model) Thinks() bool { return m.Thinking != NoThinking || len(m.Efforts) > 0 }

// Thinking is how thinking is set.
type Thinking uint8

// Ways to set thinking.
const (
	NoThinking       Thinking = iota // not, or only by an effort
	BudgetThinking                   // by a budget of tokens
	AdaptiveThinking                 // the model decides how much
	AnyThinking                      // either
)

// Method is a provider's method or format for an operation.
type Method string

// Methods of Google, as in its paths, and formats of Bedrock.
const (
	MethodEmbedContent Method = "embedContent"
	MethodPredict      Method = "predict"

	MethodTitanText    Method = "titan-text"
	MethodTitanText2   Method = "titan-text-2"
	MethodTitanMedia   Method = "titan-media"
	MethodNovaEmbed    Method = "nova-embed"
	MethodCohereEmbed  Method = "cohere-embed"
	MethodCohereEmbed4 Method = "cohere-embed-4"
	MethodTitanImage   Method = "titan-image"
	MethodNovaImage    Method = "nova-image"
	MethodDiffusion    Method = "diffusion"
	MethodStability    Method = "stability"
	MethodRerank       Method = "rerank"
)

// Images is the generation of the parameters for images.
type Images uint8

// Generations of parameters.
const (
	ImagesCurrent Images = iota
	ImagesDALLE2
	ImagesDALLE3
)

// Adapts reports whether the models can decide how much to think.
func (m *Model) Adapts() bool { return m.Thinking == AdaptiveThinking || m.Thinking == AnyThinking }

// efforts are all efforts, the least first.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Effort returns the accepted effort nearest to the one given: itself, else the
// highest below it, else the lowest. It returns an effort unchanged that has no
// rank, and any if the models accept none.
func (m *Model) Effort(effort string) string {
	rank := slices.Index(efforts, effort)
	if rank < 0 || len(m.Efforts) == 0 || slices.Contains(m.Efforts, effort) {
		return effort
	}
	nearest := m.Efforts[0]
	for _, e := range m.Efforts {
		if slices.Index(efforts, e) <= rank {
			nearest = e
		}
	}
	return nearest
}

// Samples reports whether models of OpenAI accept sampling parameters in a request
// with that effort, empty if it names none: only while they do not think.
// https://platform.openai.com/docs/guides/latest-model#gpt-5-parameter-compatibility
func (m *Model) Samples(effort string) bool {
	if effort == "" {
		return m.ThinksIfAsked || !m.Thinks()
	}
	return !m.Thinks() || m.Effort(effort) == "none"
}

// Table holds the rows of a vendor. The first that matches a name applies.
type Table []Model

// NewTable returns a table of rows.
func NewTable(rows ...Model) Table {
	for i := range rows {
		pattern, anchored := strings.CutPrefix(rows[i].Pattern, "^")
		rows[i].parts, rows[i].anchored = strings.Split(pattern, "*"), anchored
		if anchored {
			rows[i].prefix, _, _ = strings.Cut(rows[i].parts[0], "#")
		}
	}
	return rows
}

// maxName is the length in bytes up to which names are matched: clients choose
// them, and no vendor has longer ones.
const maxName = 512

// Of returns the row for a model's name, and an empty one if none matches, as
// for the name of a deployment.
func (t Table) Of(name string) *Model {
	if len(t) == 0 || len(name) > maxName {
		return &unknown
	}
	name = plain(name)
	for i := range t {
		if m := &t[i]; strings.HasPrefix(name, m.prefix) && m.matches(name) {
			return m
		}
	}
	return &unknown
}

// Think reports whether a model thinks.
func (t Table) Think(name string) bool { return t.Of(name).Thinks() }

// unknown is the row of models that no table has.
var unknown Model

// hosts are prefixes that hosts of a vendor's models put before their names.
var hosts = []string{"ft:", "openai.", "google.", "databricks-"}

// plain returns the form of a name that patterns match.
func plain(name string) string {
	name = strings.ToLower(name)
	name = name[strings.LastIndexByte(name, '/')+1:]
	for _, h := range hosts {
		name = strings.TrimPrefix(name, h)
	}
	return strings.ReplaceAll(name, ".", "-")
}

// matches reports whether a name in its plain form matches the pattern.
func (m *Model) matches(name string) bool {
	for i, part := range m.parts {
		at, n := 0, 0
		if i > 0 || !m.anchored {
			at, n = find(name, part)
		} else {
			n = measure(name, part)
		}
		if n < 0 {
			return false
		}
		name = name[at+n:]
	}
	return true
}

// find returns where part is in name and how many bytes it takes there, which
// are -1 if it is nowhere.
func find(name, part string) (at, n int) {
	literal, _, _ := strings.Cut(part, "#")
	for {
		i := strings.Index(name[at:], literal)
		if i < 0 {
			return 0, -1
		}
		at += i
		if n := measure(name[at:], part); n >= 0 {
			return at, n
		}
		at++
	}
}

// measure returns how many bytes of name part takes, if name begins with it and
// it ends with an entire word or number there; otherwise -1.
func measure(name, part string) int {
	n := 0
	for {
		literal, rest, version := strings.Cut(part, "#")
		if !strings.HasPrefix(name[n:], literal) {
			return -1
		}
		if n += len(literal); !version {
			break
		}
		digits := 0
		for n+digits < len(name) && class(name[n+digits]) == 1 {
			digits++
		}
		if n += digits; digits < 1 || digits > 2 || n < len(name) && class(name[n]) != 0 {
			return -1
		}
		part = rest
	}
	if !endsWord(name, n) {
		return -1
	}
	return n
}

// endsWord reports whether a word or number at the end of the first n bytes of
// name ends there.
func endsWord(name string, n int) bool {
	return n == 0 || n == len(name) || class(name[n-1]) == 0 || class(name[n-1]) != class(name[n])
}

// class tells digits from letters and from everything else, which is zero.
func class(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return 1
	case 'a' <= c && c <= 'z':
		return 2
	}
	return 0
}
