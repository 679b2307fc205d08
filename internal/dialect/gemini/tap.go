package gemini

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/sse"
)

// NewTap returns a tap for one answer to op.
func (Dialect) NewTap(api.Operation) dialect.Tap { return new(tap) }

// tap reads an answer that passes by.
type tap struct {
	seen    dialect.ResponseInfo
	counts  counts
	choices [2]uint64 // the candidates that were seen, by index
	ended   [2]uint64 // those with a reason
}

// Info returns what was read so far. Without a terminator of its own, a stream is
// whole when each candidate has its reason.
func (t *tap) Info() *dialect.ResponseInfo {
	t.seen.Usage = t.counts.usage()
	return &t.seen
}

// Event reads one event of a streamed answer.
func (t *tap) Event(e sse.Event) {
	if e.Data != nil {
		t.Body(e.Data)
	}
}

// Body reads a complete response, which is also what a frame of a stream is. A list
// holds several.
func (t *tap) Body(body []byte) {
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
			t.candidates(v)
		case `"usageMetadata"`:
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

// tier reads how the request was served, of which the two hosts tell otherwise.
// Capacity that was bought ahead has a price that is not in its tokens.
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

// feedback reads why a prompt was refused, which ends the answer.
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

// candidate reads what is at n unless it says its index.
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

// begin counts the content. It begins with a part that is more than an empty
// text.
func (t *tap) begin(content jsonedit.Value) {
	parts, _ := content.Get("parts")
	for p := range parts.Elements() {
		for key, v := range p.Fields() {
			switch string(key.Raw()) {
			case `"thought"`, `"thoughtSignature"`:
			case `"text"`:
				t.seen.Written += int64(len(v.Raw()) - len(`""`))
				t.seen.Begun = t.seen.Begun || len(v.Raw()) > len(`""`)
			default:
				t.seen.Written += int64(len(v.Raw()))
				t.seen.Begun = true
			}
		}
	}
}
