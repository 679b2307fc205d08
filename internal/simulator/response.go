package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// A partKind is the kind of a part of a response.
type partKind int

const (
	partThinking partKind = iota
	partText
	partRefusal
	partCall
	partImage
)

// A part is one piece of a response, in any protocol.
type part struct {
	kind partKind
	text []byte   // raw JSON string bytes
	call toolCall // of partCall
	sign string   // of partThinking
}

// A stopReason is the reason why a response ended.
type stopReason int

const (
	stopEnd stopReason = iota
	stopLength
	stopSequence
	stopTools
	stopRefusal
	stopCount
)

// A response is the content of a response, before it is written in a protocol.
type response struct {
	parts   []part
	stop    stopReason
	stopped string // the sequence of stopSequence
	tokens  int    // all
	thought int    // thinking tokens among these
}

const (
	refusalText  = "I can not help with that."
	prefaceText  = "Let me look that up."
	thinkingText = "The user asks something, so "
	// shortThinking is the number of tokens of thinking that the request asked
	// for.
	shortThinking = 16
)

// responseTo returns the response to a turn.
func (x *exchange) responseTo(q *turn) *response {
	a := &response{}
	if n := x.thoughts(q); n > 0 {
		text := appendFiller(append([]byte(nil), thinkingText...), max(n*bytesPerToken-len(thinkingText), 0))
		text = text[:n*bytesPerToken]
		a.thought = n
		a.parts = append(a.parts, part{kind: partThinking, text: text, sign: signature(vendors[x.protocol.place()], string(text))})
	}
	x.saySomething(q, a)
	if x.plan.image && x.protocol == &geminiProtocol {
		a.parts = append(a.parts, part{kind: partImage})
	}
	for i := range a.parts {
		a.tokens += a.parts[i].tokens()
	}
	return a
}

// thoughts returns the number of thinking tokens at the start of the response.
func (x *exchange) thoughts(q *turn) int {
	if x.plan.thinking > 0 {
		return x.plan.thinking
	}
	if q.thinks {
		return shortThinking
	}
	return 0
}

func (x *exchange) saySomething(q *turn, a *response) {
	switch {
	case x.plan.huge > 0 || x.plan.gzipBomb:
		a.add(partText, []byte(hugeMark))
	case x.plan.refusal:
		a.stop = stopRefusal
		a.add(partRefusal, []byte(refusalText))
	case x.plan.report:
		raw, _ := json.Marshal(&q.seen) // it came from valid JSON
		a.add(partText, appendRaw(nil, string(raw)))
	case x.directed(q, a):
	case x.call(q, a):
	case q.format != "":
		a.add(partText, appendRaw(nil, string(sampleOf(q.responseSchema(), q.lastUser))))
	default:
		x.sayEcho(q, a)
	}
}

func (a *response) add(kind partKind, text []byte) {
	a.parts = append(a.parts, part{kind: kind, text: text})
}

func (q *turn) responseSchema() any {
	if q.format == "schema" {
		return q.schema
	}
	return map[string]any{"type": "object", "properties": map[string]any{"echo": map[string]any{"type": "string"}}}
}

// sayEcho repeats the user's last text, as the chat protocol does.
func (x *exchange) sayEcho(q *turn, a *response) {
	start := len(x.text)
	var short bool
	x.text, short = x.appendEcho(x.text, 0, appendRaw(nil, q.lastUser), max(q.limit-a.thought, min(q.limit, 1)))
	text := x.text[start:]
	if short {
		a.stop = stopLength
	}
	if end, stop := cutAtStop(text, q.stops); stop != "" {
		text, a.stop, a.stopped = text[:end], stopSequence, stop
	}
	a.add(partText, text)
}

// cutAtStop returns the position of the first stop sequence in raw text, and
// that stop sequence.
func cutAtStop(raw []byte, stops []string) (end int, found string) {
	end = len(raw)
	for _, stop := range stops {
		if stop == "" {
			continue
		}
		if i := bytes.Index(raw, appendRaw(nil, stop)); i >= 0 && i < end {
			end, found = i, stop
		}
	}
	return end, found
}

// call adds tool calls if they are requested and allowed: as in the chat
// protocol, unless the plan sets their number. It reports whether it did.
func (x *exchange) call(q *turn, a *response) bool {
	if q.afterTool || q.mode == "none" || len(q.tools) == 0 {
		return false
	}
	offers := q.tools
	if q.mode == "tool" {
		offers = nil
		for _, o := range q.tools {
			if o.name == q.only {
				offers = append(offers, o)
			}
		}
	}
	n := min(len(offers), maxCalls)
	if x.plan.calls > 0 && n > 0 {
		n = x.plan.calls
	}
	if q.serial {
		n = min(n, 1)
	}
	if n > 0 && x.plan.preface {
		a.add(partText, []byte(prefaceText))
	}
	for i := range n {
		o := offers[i%len(offers)]
		a.stop = stopTools
		a.parts = append(a.parts, part{kind: partCall, call: toolCall{
			id: x.callID(len(q.seen.Calls) + i), name: appendRaw(nil, o.name),
			arguments: appendRaw(nil, string(sampleOf(o.schema, q.lastUser))),
		}})
	}
	return n > 0
}

// callID returns the id of call i of the conversation, in the spelling of the
// protocol.
func (x *exchange) callID(i int) string {
	prefix, filler := "call_sim", "|fc.x"
	switch x.protocol.place() {
	case messagesIndex:
		prefix, filler = "toolu_sim", "x"
	case converseIndex:
		prefix, filler = "tooluse_sim", "x"
	}
	id := prefix + strconv.Itoa(i+1)
	if n := x.plan.callIDs - len(id); n > 0 {
		id += strings.Repeat(filler, n)[:n]
	}
	return id
}

func (p *part) tokens() int {
	if p.kind == partCall {
		return p.call.tokens()
	}
	return tokensOf(textLen(p.text))
}

// signature returns the signature of thinking made by the simulator. It is
// base64 and always the same for a text.
func signature(vendor, text string) string {
	sum := sha256.Sum256([]byte("simulator " + vendor + " " + text))
	return base64.StdEncoding.EncodeToString(sum[:24])
}

// vendors are the owners of the models of each protocol: a signature is valid
// at every host of the owner's models.
var vendors = [protocolCount]string{messagesIndex: "anthropic", converseIndex: "anthropic", responsesIndex: "openai", geminiIndex: "google"}

// sealed returns encrypted thinking that only the simulator can read: a text
// with its signature.
func sealed(vendor, text string) string {
	return "gAAAA" + signature(vendor, text) + "." + base64.RawURLEncoding.EncodeToString([]byte(text))
}

// unsealed reports whether the simulator made this encrypted thinking.
func unsealed(vendor, value string) bool {
	sign, text, ok := strings.Cut(strings.TrimPrefix(value, "gAAAA"), ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return ok && err == nil && sign == signature(vendor, string(raw))
}

// pieces passes a text in raw JSON to send in pieces, and counts what was sent.
// It returns false if nothing more may be sent.
func (x *exchange) pieces(raw []byte, send func(piece []byte) bool) bool {
	size := x.plan.size
	if size == 0 {
		size = bytesPerToken
	}
	if x.plan.huge > 0 {
		size = max(len(hugeMark), size)
	}
	for at, sent := 0, 0; at < len(raw); {
		to, passed := advance(raw, at, size)
		if !send(raw[at:to]) {
			return false
		}
		x.served += tokensOf(sent+passed) - tokensOf(sent)
		at, sent = to, sent+passed
	}
	return true
}

// idText returns the id of the response in hex. It is computed once.
func (x *exchange) idText() string {
	if x.name == "" {
		x.name = strconv.FormatUint(x.id()|1<<63, 16)
	}
	return x.name
}

func (x *exchange) appendID(dst []byte) []byte { return append(dst, x.idText()...) }

// quoted returns text as a JSON string.
func quoted(text string) string {
	return string(append(appendRaw([]byte{'"'}, text), '"'))
}

// appendAll appends several strings.
func appendAll(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = append(dst, text...)
	}
	return dst
}

func itoa(n int) string { return strconv.Itoa(n) }
