package replay

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// gemini reads a response of generateContent, of which a stream gives parts.
type gemini struct {
	response
	said, blocked string
	counted       counters
	open          map[string]any // arguments of a call that comes in pieces
}

// https://ai.google.dev/api/generate-content
func readGemini(documents []string) response {
	g := gemini{counted: counters{}}
	for _, d := range documents {
		v := parse(d)
		last := counters{}
		last.take(object(v, "usageMetadata"))
		maps.Copy(g.counted, last) // each is a snapshot of all so far
		if reason := text(v, "promptFeedback.blockReason"); reason != "" {
			g.blocked = reason
		}
		for _, c := range list(v, "candidates") {
			if number64(c, "index") != 0 {
				continue
			}
			if reason := text(c, "finishReason"); reason != "" {
				g.said = reason
			}
			for _, part := range list(c, "content.parts") {
				g.part(part)
			}
		}
	}
	return g.end()
}

func (g *gemini) end() response {
	words := map[string]string{"MAX_TOKENS": "length"}
	for word := range strings.FieldsSeq("SAFETY BLOCKLIST PROHIBITED_CONTENT SPII LANGUAGE IMAGE_SAFETY MODEL_ARMOR") {
		words[word] = "content_filter"
	}
	if g.finish(g.said, words); g.blocked != "" && g.said == "" {
		g.Finish = "content_filter"
	}
	if n := g.counted; len(n) > 0 {
		g.Usage = usage{Prompt: n["promptTokenCount"] + n["toolUsePromptTokenCount"],
			Completion: n["candidatesTokenCount"] + n["thoughtsTokenCount"],
			Cached:     n["cachedContentTokenCount"], Reasoning: n["thoughtsTokenCount"]}.sum()
	}
	return g.response
}

func (g *gemini) part(part any) {
	call := object(part, "functionCall")
	switch {
	case call != nil && g.open != nil:
		g.piece(call)
	case call != nil:
		args := maps.Clone(object(call, "args"))
		if args == nil {
			args = map[string]any{}
		}
		g.Calls = append(g.Calls, toolCall{text(call, "id"), text(call, "name"), args})
		g.open = args
		g.piece(call)
	case at(part, "thought") == true:
		g.Thinking += text(part, "text")
	default:
		g.Text += text(part, "text")
	}
}

// piece takes in a piece of the open call, which is the last unless it says
// that others follow.
// https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling
func (g *gemini) piece(call map[string]any) {
	for _, p := range list(call, "partialArgs") {
		var value any
		for _, kind := range []string{"stringValue", "numberValue", "boolValue"} {
			if v := at(p, kind); v != nil {
				value = v
			}
		}
		put(g.open, steps(text(p, "jsonPath")), value)
	}
	if at(call, "willContinue") != true {
		g.open = nil
	}
}

// steps parts a path such as $.a[0].b.
func steps(path string) []string {
	path = strings.NewReplacer("[", ".", "]", "").Replace(strings.TrimPrefix(path, "$."))
	return strings.Split(path, ".")
}

// put sets what is at the end of the path, or adds to the text there, and
// returns the container, which a longer list replaces.
func put(in any, path []string, value any) any {
	if len(path) == 0 {
		before, _ := in.(string)
		if s, ok := value.(string); ok {
			return before + s
		}
		return value
	}
	if i, err := strconv.Atoi(path[0]); err == nil {
		all, _ := in.([]any)
		all = slices.Concat(all, make([]any, max(0, i+1-len(all))))
		all[i] = put(all[i], path[1:], value)
		return all
	}
	fields, ok := in.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	fields[path[0]] = put(fields[path[0]], path[1:], value)
	return fields
}
