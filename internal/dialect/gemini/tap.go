package gemini

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewTap returns a tap for one response to op.
func (Dialect) NewTap(op api.Operation) dialect.Tap {
	return &tap{op: op}
}

// tap reads a response that passes through.
type tap struct {
	seen    dialect.ResponseInfo
	counts  counts
	op      api.Operation
	answers bool      // has candidates or usage, or an error
	choices [2]uint64 // candidates seen, by index
	ended   [2]uint64 // candidates with a finish reason
}

// Info returns what has been read so far. The dialect has no terminator, so a
// stream is complete if each candidate has a finish reason.
func (t *tap) Info() *dialect.ResponseInfo {
	t.seen.Usage = t.counts.usage()
	// no input has no tokens: the count is unknown
	if (t.op == api.GenerateEmbed || t.op == api.GenerateEmbedBatch) && t.seen.Usage.Total() == 0 {
		t.seen.Usage.Known = false
	}
	return &t.seen
}

// Event reads one event of a streamed response.
func (t *tap) Event(e sse.Event) {
	if e.Data != nil {
		t.frames(e.Data)
		t.seen.Blank = t.answers && t.op == api.Generate && t.choices == [2]uint64{} && !t.seen.Finished
	}
}

// Body reads a complete response, which has the form of a stream frame.
func (t *tap) Body(body []byte) {
	t.frames(body)
	t.answers = t.answers || dialect.IsFailure(body)
	if t.answers && t.op == api.Generate && t.seen.Failed == "" && !t.seen.Begun && !t.seen.Finished {
		t.seen.Failed = dialect.NoContent
	}
}

// frames reads a frame, or a list of several.
func (t *tap) frames(body []byte) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return
	}
	if v.Kind() == jsonedit.Array {
		for e := range v.Elements() {
			t.read(e)
		}
		return
	}
	t.read(v)
}

func (t *tap) read(v jsonedit.Value) {
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"candidates"`:
			t.answers = true
			t.candidates(v)
		case `"usageMetadata"`:
			t.answers = true
			t.counts.read(v)
			t.tier(v)
		case `"modelVersion"`:
			if t.seen.Model == "" {
				t.seen.Model, _ = v.Text()
			}
		case `"promptFeedback"`:
			t.feedback(v)
		case `"error"`:
			t.fail(v)
		}
	}
}

// tier reads the service tier, which the two hosts report differently. The
// price of provisioned capacity is not per token.
func (t *tap) tier(usage jsonedit.Value) {
	if tier, ok := usage.Get("serviceTier"); ok {
		word, _ := tier.TextBytes()
		t.seen.SetTier(word)
		return
	}
	traffic, _ := usage.Get("trafficType")
	if word, _ := traffic.TextBytes(); string(word) == "PROVISIONED_THROUGHPUT" {
		t.seen.Tier = "provisioned"
		return
	}
	if tier := tierOf(usage); tier != "" {
		t.seen.Tier = tier
	}
}

// feedback reads the reason for a blocked prompt, which ends the response.
func (t *tap) feedback(v jsonedit.Value) {
	reason, _ := v.Get("blockReason")
	if word, ok := reason.Text(); ok && t.choices == [2]uint64{} {
		t.seen.Finish, t.seen.Finished = word, true
	}
}

func (t *tap) fail(v jsonedit.Value) {
	if v.IsNull() || t.seen.Failed != "" {
		return
	}
	if t.seen.Failed = dialect.ErrorMessage(v.Raw()); t.seen.Failed == "" {
		t.seen.Failed = "the provider reported an error without a message"
	}
}

func (t *tap) candidates(v jsonedit.Value) {
	n := int64(0)
	for c := range v.Elements() {
		t.candidate(c, n)
		n++
	}
	t.seen.Finished = t.choices != [2]uint64{} && t.choices == t.ended
}

// candidate reads a candidate, whose index is n unless it has one.
func (t *tap) candidate(v jsonedit.Value, n int64) {
	var reason string
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"index"`:
			n, _ = v.Int()
		case `"finishReason"`:
			reason, _ = v.Text()
		case `"content"`:
			t.begin(v)
		}
	}
	n = max(0, min(n, maxChoices-1))
	t.choices[n/64] |= 1 << (n % 64)
	if reason != "" {
		t.ended[n/64] |= 1 << (n % 64)
		if n == 0 {
			t.seen.Finish = reason
		}
	}
}

// quotes is the size of an empty string.
var quotes = llm.TextSize(`""`)

// begin counts the content. Content begins with the first part that is not an
// empty string.
func (t *tap) begin(content jsonedit.Value) {
	parts, _ := content.Get("parts")
	for p := range parts.Elements() {
		for key, v := range p.Fields() {
			switch string(key.Raw()) {
			case `"thought"`, `"thoughtSignature"`:
			case `"text"`:
				t.seen.Written += max(llm.TextSize(v.Raw())-quotes, 0)
				t.seen.Begun = t.seen.Begun || len(v.Raw()) > len(`""`)
			default:
				t.seen.Written += llm.TextSize(v.Raw())
				t.seen.Begun = true
			}
		}
	}
}
