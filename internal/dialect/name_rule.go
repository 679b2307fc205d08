package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
)

// NameRule says which names of tools, or ids of calls, a target accepts: letters, digits and
// Others, up to Max bytes. An empty name breaks every rule and is never replaced.
type NameRule struct {
	Max    int  // bytes; 0 for no limit
	Exact  bool // all have Max bytes, letters and digits
	Any    bool // every character is accepted
	Letter bool // the first is a letter or an underscore
	Others string
}

// Rules for ids of calls.
var (
	// AnyCallID is for targets whose documentation has no rule.
	AnyCallID = NameRule{Any: true}
	// ShortCallID is the rule of OpenAI's APIs.
	// https://platform.openai.com/docs/api-reference/responses/create
	ShortCallID = NameRule{Max: 64, Any: true}
	// PlainCallID is the rule of Anthropic's API.
	// https://docs.claude.com/en/api/messages (tool_use.id: ^[a-zA-Z0-9_-]+$)
	PlainCallID = NameRule{Others: "_-"}
	// PlainShortCallID is the rule of Bedrock's Converse, which Anthropic's accepts too.
	// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html
	PlainShortCallID = NameRule{Max: 64, Others: "_-"}
	// NineCallID is the rule of Mistral's models.
	// https://docs.mistral.ai/capabilities/function_calling
	NineCallID = NameRule{Max: 9, Exact: true}
)

// Accepts reports whether the rule holds for a name.
func (r NameRule) Accepts(name string) bool { return accepts(r, name) }

func accepts[T string | []byte](r NameRule, name T) bool {
	switch {
	case len(name) == 0, r.Max > 0 && len(name) > r.Max, r.Exact && len(name) < r.Max:
		return false
	case r.Letter && (name[0] == '-' || name[0] == '.' || name[0] == ':' || name[0] >= '0' && name[0] <= '9'):
		return false
	case r.Any:
		return true
	}
	for i := range len(name) {
		if r.rejects(name[i]) {
			return false
		}
	}
	return true
}

func (r NameRule) rejects(c byte) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(r.Others, c) < 0
}

// Fit returns a name that the rule accepts: the name itself, or one that begins like it and
// ends in its hash, the same one wherever the name occurs.
func (r NameRule) Fit(name string) string {
	if name == "" || r.Accepts(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	if r.Exact {
		text := new(big.Int).SetBytes(sum[:]).Text(62)
		return (strings.Repeat("0", r.Max) + text)[len(text):]
	}
	end := "_" + hex.EncodeToString(sum[:4])
	clean := r.replaceRejected(name)
	if r.Letter && !r.Accepts(clean[:1]) {
		clean = "_" + clean
	}
	if r.Max > 0 && len(clean) > r.Max-len(end) {
		clean = strings.ToValidUTF8(clean[:r.Max-len(end)], "")
	}
	return clean + end
}

// replaceRejected returns a name with an underscore for each character that is rejected.
func (r NameRule) replaceRejected(name string) string {
	if r.Any {
		return name
	}
	return strings.Map(func(c rune) rune {
		if c >= 0x80 || r.rejects(byte(c)) {
			return '_'
		}
		return c
	}, name)
}
