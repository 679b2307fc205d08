package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/model/llm"
)

// plainly reads a response by decoding it, without regard to speed.
func plainly(t *testing.T, body string, stream bool) summary {
	t.Helper()
	p := &plain{numbers: map[string]int64{}}
	if !stream {
		p.object(mustJSON(t, body).(map[string]any))
		return p.summary()
	}
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			p.object(mustJSON(t, data).(map[string]any))
		}
	}
	return p.summary()
}

type plain struct {
	s       summary
	numbers map[string]int64
	args    map[string]any // of the call that goes on
}

func text(v any) string           { s, _ := v.(string); return s }
func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }

func (p *plain) object(v map[string]any) {
	if p.s.ID == "" {
		p.s.ID = text(v["responseId"])
	}
	if p.s.Model == "" {
		p.s.Model = text(v["modelVersion"])
	}
	if reason := text(object(v["promptFeedback"])["blockReason"]); reason != "" {
		p.s.Finish = reason
	}
	for _, c := range list(v["candidates"]) {
		if reason := text(object(c)["finishReason"]); reason != "" {
			p.s.Finish = reason
		}
		for _, part := range list(object(object(c)["content"])["parts"]) {
			p.part(part.(map[string]any))
		}
	}
	for k, n := range object(v["usageMetadata"]) {
		if f, ok := n.(float64); ok {
			p.numbers[k] = int64(f)
		}
		for _, kind := range list(n) {
			if f, _ := object(kind)["tokenCount"].(float64); object(kind)["modality"] == "AUDIO" {
				p.numbers[k+"AUDIO"] = int64(f)
			} else if object(kind)["modality"] == "IMAGE" {
				p.numbers[k+"IMAGE"] = int64(f)
			}
		}
	}
}

func (p *plain) part(v map[string]any) {
	p.s.Signatures += len(text(v["thoughtSignature"]))
	delete(v, "thoughtSignature")
	thought, _ := v["thought"].(bool)
	delete(v, "thought")
	if words, ok := v["text"]; ok {
		if thought {
			p.s.Thoughts += words.(string)
		} else {
			p.s.Text += words.(string)
		}
		return
	}
	if c, ok := v["functionCall"]; ok {
		p.call(c.(map[string]any))
		return
	}
	for k := range v {
		p.s.Natives = append(p.s.Natives, k)
	}
}

func (p *plain) call(v map[string]any) {
	if name := text(v["name"]); name != "" {
		args := object(v["args"])
		if args == nil {
			args = map[string]any{}
		}
		p.args = args
		p.s.Calls = append(p.s.Calls, call{text(v["id"]), name, args})
	}
	for _, piece := range list(v["partialArgs"]) {
		piece := piece.(map[string]any)
		path := strings.TrimPrefix(text(piece["jsonPath"]), "$.")
		put(p.args, strings.Split(strings.ReplaceAll(path, "[", ".["), "."), piece)
	}
}

// put sets the value of a piece at a path.
func put(at map[string]any, path []string, piece map[string]any) {
	if len(path) > 1 && strings.HasPrefix(path[1], "[") {
		l := list(at[path[0]])
		var i int
		_ = json.Unmarshal([]byte(strings.Trim(path[1], "[]")), &i)
		for len(l) <= i {
			l = append(l, map[string]any{})
		}
		at[path[0]] = l
		if len(path) > 2 {
			put(l[i].(map[string]any), path[2:], piece)
			return
		}
		inner := map[string]any{}
		if words, ok := l[i].(string); ok {
			inner["x"] = words
		}
		put(inner, []string{"x"}, piece)
		l[i] = inner["x"]
		return
	}
	if len(path) > 1 {
		if at[path[0]] == nil {
			at[path[0]] = map[string]any{}
		}
		put(at[path[0]].(map[string]any), path[1:], piece)
		return
	}
	for _, kind := range []string{"numberValue", "boolValue"} {
		if v, ok := piece[kind]; ok {
			at[path[0]] = v
		}
	}
	if words, ok := piece["stringValue"]; ok {
		at[path[0]] = text(at[path[0]]) + words.(string)
	}
}

func (p *plain) summary() summary {
	n := p.numbers
	p.s.Usage = llm.Usage{
		Input:       n["promptTokenCount"] + n["toolUsePromptTokenCount"] - n["cachedContentTokenCount"],
		CachedInput: n["cachedContentTokenCount"],
		Output:      n["candidatesTokenCount"],
		Reasoning:   n["thoughtsTokenCount"],
		Known:       n["promptTokenCount"] > 0,
	}
	p.s.Usage.InputAudio = n["promptTokensDetailsAUDIO"] - n["cacheTokensDetailsAUDIO"]
	p.s.Usage.Input -= p.s.Usage.InputAudio
	p.s.Usage.InputImage = min(max(0, n["promptTokensDetailsIMAGE"]-n["cacheTokensDetailsIMAGE"]), p.s.Usage.Input)
	p.s.Usage.OutputImage = min(n["candidatesTokensDetailsIMAGE"], p.s.Usage.Output)
	return p.s
}
