package dialecttest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"modelgate/internal/model/llm"
)

// Conversation generates plausible requests within can: roles in a valid order,
// a result for every call, and a user message at the end.
func Conversation(can Capabilities) *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		g := generator{T: t, Capabilities: can}
		r := &llm.Request{}
		if !can.PathStream {
			r.Stream = g.maybe("stream")
		}
		g.tools(r)
		g.messages(r)
		g.sampling(r)
		g.otherParams(r)
		if can.Fit != nil {
			can.Fit(r)
		}
		return r
	})
}

// generator generates one request or response.
type generator struct {
	*rapid.T
	Capabilities
	calls int
	named []llm.Tool
}

func (g *generator) maybe(label string) bool      { return rapid.Bool().Draw(g.T, label) }
func (g *generator) upTo(n int, label string) int { return rapid.IntRange(0, n).Draw(g.T, label) }
func (g *generator) number(from, to int64) int64 {
	return rapid.Int64Range(from, to).Draw(g.T, "number")
}
func (g *generator) eighths(from, to int64) float64 { return float64(g.number(from*8, to*8)) / 8 }

func one[T any](g *generator, list []T, label string) T {
	return rapid.SampledFrom(list).Draw(g.T, label)
}

var words = []string{
	"Hello", "What is the weather in Zürich?", "line\nbreak", `a "quoted" back\slash`, "naïve ☃ 𝔘", "<b>&amp;</b>",
	"\u2028tab\t", " leading", "trailing ", "data: x\n\ndata: y", "{\"a\":1}", "0", "null",
}

func (g *generator) word(label string) string { return one(g, words, label) }

func (g *generator) tools(r *llm.Request) {
	if !g.has(llm.FieldTools) || !g.maybe("tools") {
		return
	}
	for i := range 1 + g.upTo(2, "more tools") {
		tool := llm.Tool{Name: fmt.Sprintf("tool_%d", i), Description: g.word("description")}
		if g.CustomTools && g.maybe("custom") {
			tool.Custom = true
		} else {
			tool.Schema = json.RawMessage(one(g, schemas, "schema"))
			if g.StrictTools && g.maybe("strict") {
				strict := true
				tool.Strict = &strict
			}
		}
		r.Tools = append(r.Tools, tool)
	}
	g.named = r.Tools
	if g.has(llm.FieldToolChoice) && g.maybe("choice") {
		r.ToolChoice.Mode = one(g, or(g.Choices, llm.ChoiceAuto, llm.ChoiceNone, llm.ChoiceRequired, llm.ChoiceTool), "choice mode")
		if r.ToolChoice.Mode == llm.ChoiceTool {
			tool := one(g, r.Tools, "chosen")
			r.ToolChoice.Names, r.ToolChoice.Custom = []string{tool.Name}, tool.Custom
		}
	}
	if g.has(llm.FieldParallelTools) && g.maybe("parallel") {
		parallel := g.maybe("parallel calls")
		r.ParallelTools = &parallel
	}
}

var schemas = []string{
	`{"type":"object","properties":{"city":{"type":"string","description":"a \"city\""}},"required":["city"]}`,
	`{"type":"object","properties":{"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}}}`,
	`{"type":"object","properties":{"unit":{"type":"string","enum":["c","f"]},"in":{"type":"object","properties":{"deep":{"type":"boolean"}}}}}`,
}

var arguments = []string{`{}`, `{"city":"Zürich"}`, `{"n":3,"tags":["a\n","\"b\""]}`, `{"unit":"c","in":{"deep":true}}`}

func (g *generator) messages(r *llm.Request) {
	if !g.NoSystem && g.maybe("system") {
		r.Messages = append(r.Messages, g.system())
	}
	r.Messages = append(r.Messages, g.user())
	for range g.upTo(3, "turns") {
		said := llm.Message{Role: llm.Assistant, Parts: g.assistantParts(false), Name: g.name()}
		r.Messages = append(r.Messages, said)
		if results := g.results(said.Parts); results != nil {
			r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: results})
			if !g.TwoUsers || !g.maybe("interrupted") {
				continue
			}
		}
		if g.LateSystem && g.maybe("late system") {
			r.Messages = append(r.Messages, g.system())
		}
		r.Messages = append(r.Messages, g.user())
	}
	if last := r.Messages[len(r.Messages)-1]; last.Role == llm.User && g.TwoUsers && g.maybe("another") {
		r.Messages = append(r.Messages, g.user())
	}
}

func (g *generator) name() string {
	if g.Names && g.maybe("name") {
		return "ada"
	}
	return ""
}

func (g *generator) system() llm.Message {
	m := llm.Message{Role: llm.System, Parts: g.texts(), Name: g.name()}
	if g.Developer && g.maybe("developer") {
		m.Role = llm.Developer
	}
	return m
}

func (g *generator) texts() (parts []llm.Part) {
	n := 1
	if !g.OneText {
		n += g.upTo(2, "more texts")
	}
	for range n {
		text := llm.Text{Text: g.word("text")}
		if g.Cache && g.maybe("cache") {
			text.Cache = &llm.Cache{TTL: one(g, []string{"", "5m", "1h"}, "ttl")}
		}
		parts = append(parts, text)
	}
	return parts
}

func (g *generator) user() llm.Message {
	m := llm.Message{Role: llm.User, Parts: g.texts(), Name: g.name()}
	if len(g.Media) > 0 {
		for range g.upTo(2, "media") {
			m.Parts = append(m.Parts, g.medium(g.Media))
		}
	}
	return m
}

func (g *generator) medium(kinds map[llm.MediaKind]Medium) llm.Media {
	kind := one(g, slices.Sorted(maps.Keys(kinds)), "kind of media")
	how := kinds[kind]
	m := llm.Media{Kind: kind}
	var ways []func()
	if len(how.Types) > 0 {
		ways = append(ways, func() {
			m.Type = one(g, how.Types, "type")
			m.Data = base64.StdEncoding.EncodeToString([]byte(g.word("data")))
		})
	}
	if how.URL {
		ways = append(ways, func() {
			m.URL = "https://media.example.com/a b?c=d&e"
			if how.TypedURL {
				m.Type = one(g, how.Types, "type")
			}
		})
	}
	if how.FileID {
		ways = append(ways, func() { m.FileID = "file-123" })
	}
	if how.Text {
		ways = append(ways, func() { m.Text = g.word("document") })
	}
	one(g, ways, "way")()
	if how.NeedsName || how.Name && g.maybe("named") {
		m.Name = "report"
	}
	if len(how.Details) > 0 && g.maybe("detailed") {
		m.Detail = one(g, how.Details, "detail")
	}
	return m
}

// assistantParts generates the parts of an assistant message: in the order
// thinking, text or a refusal, media, calls, or in any order.
func (g *generator) assistantParts(response bool) (parts []llm.Part) {
	if g.Thinking && g.maybe("thinks") {
		parts = append(parts, g.thinking())
	}
	if g.Refusal && g.maybe("refuses") {
		return append(parts, llm.Refusal{Text: g.word("refusal")})
	}
	calls := g.toolCalls()
	if len(calls) == 0 || g.maybe("speaks") {
		text := llm.Text{Text: g.word("answer")}
		if response && g.Citations && g.maybe("cites") {
			text.Citations = []llm.Citation{{URL: "https://example.com/source", Title: "A source", Start: 0, End: 1}}
		}
		parts = append(parts, text)
	}
	if response && len(g.ResponseMedia) > 0 && g.maybe("shows") {
		parts = append(parts, g.medium(g.ResponseMedia))
	}
	parts = append(parts, calls...)
	if g.AnyOrder && g.maybe("again") {
		parts = append(parts, g.more()...)
	}
	return parts
}

// more generates further parts, without neighbours of one kind.
func (g *generator) more() (parts []llm.Part) {
	if g.Thinking {
		parts = append(parts, g.thinking(), llm.Text{Text: g.word("more")})
	}
	return append(parts, g.toolCalls()...)
}

func (g *generator) thinking() llm.Thinking {
	p := llm.Thinking{Text: g.word("thought")}
	if g.Signed != "" && (!g.Unsigned || g.maybe("signed")) {
		p.Signature = llm.Signature{Vendor: g.Signed, Value: "c2lnbmVk"}
		if g.Redacted && g.maybe("redacted") {
			p.Text, p.Redacted = "", true
		}
	}
	return p
}

func (g *generator) toolCalls() (parts []llm.Part) {
	if len(g.named) == 0 {
		return nil
	}
	most := 3
	if g.OneCall {
		most = 1
	}
	for range g.upTo(most, "calls") {
		tool := one(g, g.named, "called")
		g.calls++
		call := llm.ToolCall{ID: fmt.Sprintf("call%05d", g.calls), Name: tool.Name, Custom: tool.Custom,
			Arguments: one(g, arguments, "arguments")}
		if tool.Custom {
			call.Arguments = g.word("input")
		}
		if g.CallSigned != "" && g.maybe("call signed") {
			call.Signature = llm.Signature{Vendor: g.CallSigned, Value: "Y2FsbA=="}
		}
		parts = append(parts, call)
	}
	return parts
}

// results generates the results of all calls of a message, nil if there are
// none.
func (g *generator) results(parts []llm.Part) (results []llm.Part) {
	for _, p := range parts {
		call, ok := p.(llm.ToolCall)
		if !ok {
			continue
		}
		result := llm.ToolResult{ID: call.ID, Custom: call.Custom, Parts: []llm.Part{llm.Text{Text: g.word("result")}}}
		if g.ResultNames {
			result.Name = call.Name
		}
		if g.Capabilities.Failed {
			result.Failed = g.maybe("failed")
		}
		if len(g.ResultMedia) > 0 && g.maybe("result media") {
			result.Parts = append(result.Parts, g.medium(g.ResultMedia))
		}
		results = append(results, result)
	}
	return results
}
