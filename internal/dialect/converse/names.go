package converse

import (
	"encoding/hex"
	"hash/fnv"
	"math/big"
	"strings"

	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// wireName returns a tool's name as the protocol accepts it: unchanged, or a
// name derived from it with a hash.
func wireName(s string) string { return fitted(s, false) }

// wireID returns a call id as every model accepts it. A call and its result get
// the same id.
func wireID(s string, m model) string {
	if !m.shortIDs() {
		return fitted(s, false)
	}
	if len(s) == 9 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" {
		return s
	}
	text := new(big.Int).SetBytes(hash(s)).Text(36)
	return ("000000000" + text)[len(text):]
}

func hash(s string) []byte {
	h := fnv.New64a()
	h.Write([]byte(s)) // a hash never fails
	return h.Sum(nil)
}

func fitted(s string, id bool) string {
	if isValidName(s, id) {
		return s
	}
	clean := strings.Map(func(r rune) rune {
		if r < 0x80 && plain(byte(r)) {
			return r
		}
		return '_'
	}, s)
	sum := hex.EncodeToString(hash(s))
	return clean[:min(len(clean), maxName-1-len(sum))] + "_" + sum
}

// calledTool returns the tool of the request with a name on the wire, nil if
// there is none.
func calledTool(r *llm.Request, wire string) *llm.Tool {
	if r == nil {
		return nil
	}
	for i := range r.Tools {
		if t := &r.Tools[i]; t.Name == wire || wireName(t.Name) == wire {
			return t
		}
	}
	return nil
}

// blank reports whether s is only white space, which is rejected as text.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// wrap returns an object with one member.
func wrap(name string, value []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name(name)
	b.Raw(value)
	b.Close('}')
	return b.Bytes()
}
