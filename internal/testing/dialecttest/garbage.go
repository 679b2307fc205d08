package dialecttest

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// malformedBytes generates bytes: arbitrary ones, or a sample with a few
// changes.
func malformedBytes(samples ...[]byte) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		if len(samples) == 0 || rapid.IntRange(0, 9).Draw(t, "from nothing") == 0 {
			return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		}
		b := slices.Clone(rapid.SampledFrom(samples).Draw(t, "sample"))
		for range 1 + rapid.IntRange(0, 3).Draw(t, "changes") {
			b = mutate(t, b)
		}
		return b
	})
}

var tokens = []string{
	"null", "true", "[]", "{}", `""`, "-1", "1e999", "99999999999999999999", "0.5", `"\ud800"`, `[[[[]]]]`, `{"type":null}`, `"x"`, "[null]",
	`{"":{}}`, ",", `"`, "}", "]", "\x00", "\xff",
}

// mutate replaces a value by a token, or cuts, or repeats.
func mutate(t *rapid.T, b []byte) []byte {
	from := rapid.IntRange(0, len(b)).Draw(t, "from")
	to := rapid.IntRange(from, min(len(b), from+40)).Draw(t, "to")
	switch rapid.IntRange(0, 3).Draw(t, "change") {
	case 0:
		return slices.Concat(b[:from], []byte(rapid.SampledFrom(tokens).Draw(t, "token")), b[to:])
	case 1:
		return slices.Concat(b[:to], b[from:])
	case 2:
		return slices.Concat(b[:from], b[to:])
	}
	from, to = valueAt(b, from)
	return slices.Concat(b[:from], []byte(rapid.SampledFrom(tokens).Draw(t, "value")), b[to:])
}

// valueAt finds a value that follows a colon at or after i, roughly.
func valueAt(b []byte, i int) (from, to int) {
	for i < len(b) && b[i] != ':' {
		i++
	}
	if i >= len(b)-1 {
		return 0, len(b)
	}
	from, depth := i+1, 0
	for to = from; to < len(b); to++ {
		switch b[to] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return from, to
			}
		case ',':
			if depth == 0 {
				return from, to
			}
		}
	}
	return from, to
}

// garbage calls every method with malformed input.
func (s Suite) garbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests, responses, frames := s.samples(t)
		if s.Client != nil {
			s.tryRequest(t, malformedBytes(requests...).Draw(t, "request"))
		}
		if s.Provider != nil {
			s.tryResponse(malformedBytes(responses...).Draw(t, "answer"))
			list := rapid.SliceOfN(malformedBytes(frames...), 0, 8).Draw(t, "frames")
			s.tryStream(t, list)
		}
	})
}

func (s Suite) samples(t *rapid.T) (requests, responses, frames [][]byte) {
	requests, responses, frames = slices.Clone(s.SampleRequests), slices.Clone(s.SampleResponses), slices.Clone(s.SampleFrames)
	if s.Provider != nil {
		if body, _, err := s.Provider.EncodeRequest(nil, s.conversation(t), s.Target); err == nil {
			requests = append(requests, body)
		}
	}
	if s.Client != nil {
		response := s.response(t)
		responses = append(responses, s.Client.EncodeResponse(nil, response, s.ResponseTarget))
		list, _ := s.Frames(&cutter{rest: s.encode(slices.Collect(dialect.Replay(response))), sizes: []int{4096}})
		for _, frame := range list {
			frames = append(frames, frame.Data)
		}
	}
	return requests, responses, frames
}

func (s Suite) tryRequest(t *rapid.T, body []byte) {
	r, err := s.Client.DecodeRequest(body)
	if err != nil {
		if refusal, ok := errors.AsType[*apierr.Error](err); !ok || refusal.Kind != apierr.Invalid {
			t.Fatalf("DecodeRequest of %q failed with %T %v, want an *apierr.Error of kind Invalid", body, err, err)
		}
		return
	}
	if s.Provider != nil {
		_, _, _ = s.Provider.EncodeRequest(nil, r, s.Target) // may return an error, but must not panic
	}
}

func (s Suite) tryResponse(body []byte) {
	r, err := s.Provider.DecodeResponse(body, s.ResponseTarget.Request, s.Target)
	if err == nil && s.Client != nil {
		s.Client.EncodeResponse(nil, r, s.ResponseTarget)
	}
}

func (s Suite) tryStream(t *rapid.T, frames [][]byte) {
	d := s.Provider.NewDecoder(s.ResponseTarget.Request, s.Target)
	var events []llm.Event
	for _, data := range frames {
		events = d.Decode(events, sse.Event{Data: data})
	}
	events = d.End(events)
	if why := CheckEventOrder(events); why != "" {
		t.Fatalf("%s\nframes: %q", why, frames)
	}
	if s.Client != nil {
		s.encode(events)
	}
}
