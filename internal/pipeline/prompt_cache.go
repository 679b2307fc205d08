package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// minPrefix is the length in bytes from which a prefix may be in a provider's
// prompt cache: about 1,024 tokens, the least that they cache.
// https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
const minPrefix = 4 << 10

// findPrefix returns a hash of the beginning of a conversation: the model, tools,
// system prompt, and the messages up to the first of the user. All turns of a
// conversation have the same. It returns false for a prefix that is too short to
// be cached.
func findPrefix(l *exchange.Lookups, r *exchange.Request) (json.RawMessage, bool) {
	if v, ok := l.Found[prefixKey]; ok {
		return v, v != nil
	}
	if r.Received.Doc == nil || !l.Work.Spend(len(r.Received.Doc.Bytes())/8+1) {
		return nil, false
	}
	h, size := sha256.New(), 0
	add := func(name string, b []byte) {
		fmt.Fprintf(h, "%s %d ", name, len(b))
		h.Write(b)
		size += len(b)
	}
	add("model", []byte(r.Model))
	for _, name := range [...]string{"tools", "toolConfig", "functions", "system", "systemInstruction", "system_instruction", "instructions"} {
		if v, ok := r.Received.Doc.Find(name); ok {
			add(name, v.Raw())
		}
	}
	for _, name := range [...]string{"messages", "contents", "input"} {
		list, _ := r.Received.Doc.Find(name)
		for m := range list.Elements() {
			add(name, m.Raw())
			if role, ok := m.Get("role"); ok && isText(role, "user") {
				break
			}
		}
	}
	var v json.RawMessage
	if size >= minPrefix {
		v, l.PrefixTokens = quoted(hex.EncodeToString(h.Sum(nil))), estimateTokens(size)
	}
	if l.Found == nil {
		l.Found = make(map[string]json.RawMessage)
	}
	l.Found[prefixKey] = v
	return v, v != nil
}

// prefixKey is the key of the prefix among the cached fields, which are paths.
const prefixKey = " prefix"

func isText(v jsonedit.Value, want string) bool {
	s, ok := v.Text()
	return ok && s == want
}

// breakpoint marks the end of a prefix that the provider caches.
const breakpoint = `"cache_control":{"type":"ephemeral"}`

// markPrefix appends the edits that mark the prefix of a conversation for the
// provider's prompt cache, if the config asks for it and it pays: the target has
// the messages dialect, reading from its cache is cheaper than reading again, and
// the prefix is long enough. A body with a mark of the client is not changed.
//
// The system prompt with the tools is marked, and the last turn of a
// conversation that has earlier turns: it is likely to go on.
func (a *attempt) markPrefix(doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	if !a.handler.PromptCache || a.wire.dialect != api.DialectMessages || a.wire.op == api.CountTokens || !a.cachingPays() {
		return list
	}
	if bytes.Contains(doc.Bytes(), []byte(`cache_control`)) {
		return list
	}
	tools, system, messages := edited(doc, list, "tools"), edited(doc, list, "system"), edited(doc, list, "messages")
	var marked []string
	var prefix int // bytes before the last mark
	out := slices.Clip(list)
	mark := func(name string, value []byte) {
		if value != nil {
			out, marked = append(out, jsonedit.Edit{Name: name, Value: value}), append(marked, name)
		}
	}
	loaded := loadedSize(tools)
	if size := loaded + len(system.Raw()); size >= minPrefix {
		prefix = size
		if v := withBreakpoint(system); v != nil {
			mark("system", v)
		} else {
			mark("tools", markTools(tools))
		}
	}
	if loaded+len(system.Raw())+len(messages.Raw()) >= minPrefix {
		if turn := markTurn(messages); turn != nil {
			mark("messages", turn)
			prefix = loaded + len(system.Raw()) + len(messages.Raw())
		}
	}
	if len(marked) == 0 {
		prefix = 0
	}
	a.trail.Bill().PromptCache.Expect(a.handler.Path, estimateTokens(prefix))
	if len(marked) > 0 {
		a.record.Params = append(a.record.Params, dialect.ParamChange{Name: "cache_control",
			Outcome: dialect.Adapted, Note: "set on " + strings.Join(marked, " and ")})
		a.trail.Decide(a.handler.Path, "the provider's prompt cache is used: cache_control is set on %s", strings.Join(marked, " and "))
	}
	return out
}

// cachingPays reports whether the provider sells tokens read from its cache for
// less than others. Models without a prompt cache have no such price.
func (a *attempt) cachingPays() bool {
	p, ok := a.record.Target.Price(a.request.Limiting.Prices, a.record.Model, "", a.request.Time)
	return ok && p.Rates[catalog.CachedInput] < p.Rates[catalog.Input]
}

// edited returns the value of a member after the edits in list. The zero value
// has no bytes.
func edited(doc *jsonedit.Doc, list []jsonedit.Edit, name string) jsonedit.Value {
	v, _ := doc.Find(name)
	for _, e := range list {
		if e.Name == name {
			v, _ = jsonedit.ParseValue(e.Value)
		}
	}
	return v
}

// markTurn returns messages with a breakpoint at the end of the last turn, or
// nil if it is the first of the conversation or cannot have one.
func markTurn(messages jsonedit.Value) []byte {
	var last jsonedit.Value
	earlier := false
	for m := range messages.Elements() {
		role, _ := m.Get("role")
		earlier = earlier || isText(role, "assistant")
		last = m
	}
	role, _ := last.Get("role")
	content, ok := last.Get("content")
	if !earlier || !ok || !isText(role, "user") {
		return nil
	}
	v := withBreakpoint(content)
	if v == nil {
		return nil
	}
	turn := []byte{'{'}
	for name, value := range last.Fields() {
		raw := value.Raw()
		if name.Is("content") {
			raw = v
		}
		turn = slices.Concat(turn, name.Raw(), []byte{':'}, raw, []byte{','})
	}
	turn[len(turn)-1] = '}'
	return replaceLast(messages, turn)
}

// withBreakpoint returns content, a string or a list of blocks, with a
// breakpoint at its end, or nil if its end cannot have one.
func withBreakpoint(content jsonedit.Value) []byte {
	if text, ok := content.Text(); ok {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		return slices.Concat([]byte(`[{"type":"text","text":`), content.Raw(), []byte(`,`+breakpoint+`}]`))
	}
	return markLast(content, func(block jsonedit.Value) bool {
		kind, _ := block.Get("type")
		name, _ := kind.Text()
		text, _ := block.Get("text")
		return slices.Contains(cachedBlocks[:], name) && !(name == "text" && isText(text, ""))
	})
}

// cachedBlocks are the types of blocks that can have a breakpoint.
var cachedBlocks = [...]string{"text", "image", "document", "tool_result", "tool_use"}

// markLast returns a list with a breakpoint on its last element, an object, if
// may allows it, otherwise nil.
func markLast(list jsonedit.Value, may func(jsonedit.Value) bool) []byte {
	var last jsonedit.Value
	for e := range list.Elements() {
		last = e
	}
	if last.Kind() != jsonedit.Object || !may(last) {
		return nil
	}
	return replaceLast(list, marked(last))
}

// marked returns an object with a breakpoint.
func marked(object jsonedit.Value) []byte {
	raw := object.Raw()
	inner := bytes.TrimRight(raw[:len(raw)-1], " \t\r\n")
	comma := ","
	if len(inner) == 1 {
		comma = ""
	}
	return slices.Concat(inner, []byte(comma+breakpoint+"}"))
}

// replaceLast returns a list with another last element.
func replaceLast(list jsonedit.Value, with []byte) []byte {
	n := 0
	for range list.Elements() {
		n++
	}
	return replaceElement(list, n-1, with)
}

// replaceElement returns a list with another element at an index.
func replaceElement(list jsonedit.Value, at int, with []byte) []byte {
	out := append(make([]byte, 0, len(list.Raw())+len(with)), '[')
	i := 0
	for e := range list.Elements() {
		if i > 0 {
			out = append(out, ',')
		}
		raw := e.Raw()
		if i == at {
			raw = with
		}
		out = append(out, raw...)
		i++
	}
	return append(out, ']')
}

// estimateTokens returns a rough number of the tokens of text: one for four bytes.
func estimateTokens(bytes int) int64 { return int64(bytes+3) / 4 }

// countCached adds what the cache saved in an attempt.
func (a *attemptAccount) countCached(usage llm.Usage, served string, t catalog.Tier) {
	u := &a.bill.PromptCache
	u.Mu.Lock()
	defer u.Mu.Unlock()
	written := usage.CacheWrite5m + usage.CacheWrite1h
	if u.Path == "" || usage.CachedInput+written == 0 {
		return
	}
	u.Reads += usage.CachedInput
	u.Writes += written
	p, ok := a.attempt.record.Target.Price(a.attempt.request.Limiting.Prices, a.attempt.record.Model, served, a.began)
	if !ok || !p.Has(t) || !p.Covers(usage) {
		u.Unpriced = true
		return
	}
	u.Saved += p.CacheSaving(usage, t)
}
