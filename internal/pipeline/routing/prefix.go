package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

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
			if role, ok := m.Get("role"); ok && role.IsText("user") {
				break
			}
		}
	}
	var v json.RawMessage
	if size >= exchange.MinCachedPrefix {
		v, l.PrefixTokens = quoted(hex.EncodeToString(h.Sum(nil))), llm.RoughTokens(size)
	}
	if l.Found == nil {
		l.Found = make(map[string]json.RawMessage)
	}
	l.Found[prefixKey] = v
	return v, v != nil
}

// prefixKey is the key of the prefix among the cached fields, which are paths.
const prefixKey = " prefix"
