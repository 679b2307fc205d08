package simulator

import (
	"encoding/json"
	"strings"
)

// content reads one turn. Consecutive turns of one role are accepted.
func (g *geminiReader) content(m map[string]any, path string, index int) {
	c, q := g.c, g.q
	c.checkMembers(m, path, "role", "parts")
	role := c.word(m, "role", path, "user", "model", "function")
	if role == "" {
		role = "user"
		if g.vertex {
			c.fail(at(path, "role"), "Please use a valid role: user, model.")
		}
	}
	parts := c.needList(m, "parts", path)
	p := geminiParts{geminiReader: g, role: role}
	for i, v := range parts {
		where := at(path, "parts") + "[" + itoa(i) + "]"
		p.part(camel(c.object(v, where)), where)
	}
	switch {
	case p.calls > 0 && index == 0:
		c.fail(path, "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case p.results != g.waits && (p.results > 0 || g.waits > 0):
		c.fail(path, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
	}
	g.waits = p.calls
	q.prefill, q.afterTool = role == "model", p.results > 0
	if role == "model" {
		role = "assistant"
	}
	q.addMessage(strings.Replace(role, "function", "user", 1), p.said.String())
}

// geminiParts reads the parts of one turn.
type geminiParts struct {
	*geminiReader
	role           string
	said           strings.Builder
	calls, results int
}

func (p *geminiParts) part(m map[string]any, path string) {
	c := p.c
	kinds := []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
		"toolCall", "toolResponse"}
	c.checkMembers(m, path, append([]string{"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}, kinds...)...)
	if m["thoughtSignature"] != nil {
		c.bytes(m, "thoughtSignature", path)
	}
	thought := c.flag(m, "thought", path)
	switch kind := c.one(m, path, kinds...); kind {
	case "text":
		p.text(m, path, thought)
	case "inlineData":
		data := p.child(m, kind, path, "mimeType", "data", "displayName")
		c.bytes(data, "data", at(path, kind))
		p.media(c.filled(data, "mimeType", at(path, kind)))
	case "fileData":
		data := p.child(m, kind, path, "mimeType", "fileUri", "displayName")
		c.filled(data, "fileUri", at(path, kind))
		p.media(c.text(data, "mimeType", at(path, kind)))
	case "functionCall":
		p.call(m, path)
	case "functionResponse":
		p.result(m, path)
	}
}

func (p *geminiParts) text(m map[string]any, path string, thought bool) {
	text := p.c.needText(m, "text", path)
	sign := p.c.text(m, "thoughtSignature", path)
	if thought || sign != "" {
		p.q.seen.Thinking = append(p.q.seen.Thinking, ReportedThought{Text: text, Signature: sign})
		p.verify(sign, "text", path)
	}
	if !thought {
		p.said.WriteString(text)
	}
}

func (p *geminiParts) media(mime string) {
	seen := &p.q.seen
	switch {
	case strings.HasPrefix(mime, "image/"):
		seen.Images++
	case strings.HasPrefix(mime, "audio/"):
		seen.Audio++
	case strings.HasPrefix(mime, "video/"):
		seen.Videos++
	default:
		seen.Documents++
	}
}

// id checks an id. Vertex AI has none.
func (p *geminiParts) id(m map[string]any, path string) string {
	if p.vertex && m["id"] != nil {
		p.c.wrong = unknownGemini(path+".", "id")
	}
	return p.c.text(m, "id", path)
}

func (p *geminiParts) call(m map[string]any, path string) {
	c := p.c
	call := p.child(m, "functionCall", path, "id", "name", "args")
	path = at(path, "functionCall")
	if p.role != "model" {
		c.fail(path, "a function call must be in a turn of the model")
	}
	name := c.filled(call, "name", path)
	sign := c.text(m, "thoughtSignature", path)
	p.verify(sign, name, path)
	if p.signed && p.calls == 0 && sign == "" {
		c.fail(path, "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Function call `%s`", name)
	}
	p.calls++
	p.q.seen.Calls = append(p.q.seen.Calls,
		ReportedCall{ID: p.id(call, path), Name: name, Arguments: c.child(call, "args", path), Signature: sign})
}

// ordinaryBase64 turns base64url, in which clients may send bytes, into ordinary
// base64.
var ordinaryBase64 = strings.NewReplacer("-", "+", "_", "/")

// verify records a mistake for a signature that the simulator has not made. Two
// strings are accepted for calls of other models.
// https://ai.google.dev/gemini-api/docs/thought-signatures
func (p *geminiParts) verify(sign, name, path string) {
	if ordinaryBase64.Replace(sign) == signature("google", name) {
		return
	}
	switch sign {
	case "", "skip_thought_signature_validator", "context_engineering_is_the_way_to_go",
		// the same as bytes, which libraries send
		"c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv":
		return
	}
	p.c.fail(path, "Corrupted thought signature.")
}

func (p *geminiParts) result(m map[string]any, path string) {
	c, q := p.c, p.q
	r := p.child(m, "functionResponse", path, "id", "name", "response", "parts", "willContinue", "scheduling")
	path = at(path, "functionResponse")
	name := c.filled(r, "name", path)
	response := c.object(r["response"], at(path, "response"))
	if p.results < p.waits {
		if asked := q.seen.Calls[len(q.seen.Calls)-p.waits+p.results].Name; asked != name {
			c.fail(path, "the function response is for %q, the call was of %q", name, asked)
		}
	}
	p.results++
	for i, v := range c.list(r, "parts", path) {
		where := nth(at(path, "parts"), i)
		data := p.child(camel(c.object(v, where)), "inlineData", where, "mimeType", "data", "displayName")
		c.bytes(data, "data", where)
		p.media(c.filled(data, "mimeType", where))
	}
	text, ok := response["output"].(string)
	if !ok {
		raw, _ := json.Marshal(response) // it came from valid JSON
		text = string(raw)
	}
	q.prompt += tokensOf(len(text))
	q.seen.Results = append(q.seen.Results, ReportedResult{ID: p.id(r, path), Name: name, Text: text, Failed: response["error"] != nil})
}
