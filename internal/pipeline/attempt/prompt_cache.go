package attempt

import (
	"bytes"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// breakpoint marks the end of a prefix that the provider caches.
const breakpoint = `"cache_control":{"type":"ephemeral"}`

// markPrefix appends the edits that mark the prefix of a conversation for the
// provider's prompt cache, if the config asks for it and it pays: the target has
// the messages dialect, reading from its cache is cheaper than reading again, and
// the prefix is long enough. A body with a mark of the client is not changed.
//
// The system prompt with the tools is marked, and the last turn of a
// conversation that has earlier turns: it is likely to go on.
func (p *plan) markPrefix(doc *jsonedit.Doc, list []jsonedit.Edit) []jsonedit.Edit {
	if !p.handler.PromptCache || p.wire.dialect != api.DialectMessages || p.wire.op == api.CountTokens || !p.cachingPays() {
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
	if size := loaded + len(system.Raw()); size >= exchange.MinCachedPrefix {
		prefix = size
		if v := withBreakpoint(system); v != nil {
			mark("system", v)
		} else {
			mark("tools", markTools(tools))
		}
	}
	if loaded+len(system.Raw())+len(messages.Raw()) >= exchange.MinCachedPrefix {
		if turn := markTurn(messages); turn != nil {
			mark("messages", turn)
			prefix = loaded + len(system.Raw()) + len(messages.Raw())
		}
	}
	if len(marked) == 0 {
		prefix = 0
	}
	p.trail.Bill().PromptCache.Expect(p.handler.Path, llm.RoughTokens(prefix))
	if len(marked) > 0 {
		p.record.Params = append(p.record.Params, dialect.ParamChange{Name: "cache_control",
			Outcome: dialect.Adapted, Note: dialect.NoteMarks(marked)})
		p.trail.Decide(p.handler.Path, "the provider's prompt cache is used: cache_control is set on %s", strings.Join(marked, " and "))
	}
	return out
}

// cachingPays reports whether the provider sells tokens read from its cache for
// less than others. Models without a prompt cache have no such price.
func (p *plan) cachingPays() bool {
	price, ok := p.record.Target.Price(p.request.Limiting.Prices, p.record.Model, "", p.request.Time)
	return ok && price.Rates[catalog.CachedInput] < price.Rates[catalog.Input]
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
		earlier = earlier || role.IsText("assistant")
		last = m
	}
	role, _ := last.Get("role")
	content, ok := last.Get("content")
	if !earlier || !ok || !role.IsText("user") {
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
	return messages.ReplaceLast(turn)
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
		return slices.Contains(cachedBlocks[:], name) && !(name == "text" && text.IsText(""))
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
	return list.ReplaceLast(marked(last))
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
	p, ok := a.attempt.plan.record.Target.Price(a.attempt.plan.request.Limiting.Prices, a.attempt.plan.record.Model, served, a.began)
	if !ok || !p.Has(t) || !p.Covers(usage) {
		u.Unpriced = true
		return
	}
	u.Saved += p.CacheSaving(usage, t)
}
