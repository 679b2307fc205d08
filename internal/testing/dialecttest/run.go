package dialecttest

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

func (s Suite) conversation(t *rapid.T) *llm.Request {
	r := Conversation(s.Can).Draw(t, "request")
	r.Dialect = s.Dialect
	if !s.Can.PathModel {
		r.Model = s.Target.Model
	}
	return r
}

func (s Suite) response(t *rapid.T) *llm.Response {
	r := Response(s.Can).Draw(t, "answer")
	r.Dialect = s.Dialect
	return r
}

func (s Suite) requests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := s.conversation(t)
		body, fates, err := s.Provider.EncodeRequest(nil, want, s.Target)
		if err != nil {
			t.Fatalf("EncodeRequest refused what the dialect can say: %v", err)
		}
		if !json.Valid(body) {
			t.Fatalf("EncodeRequest wrote what is not JSON: %s", body)
		}
		if len(fates) > 0 {
			t.Fatalf("EncodeRequest told the fates %v of what the dialect can say", fates)
		}
		if again, _, _ := s.Provider.EncodeRequest([]byte("x"), want, s.Target); !bytes.Equal(again, append([]byte("x"), body...)) {
			t.Fatalf("EncodeRequest wrote %s, then appended %s", body, again)
		}
		got, err := s.Client.DecodeRequest(body)
		if err != nil {
			t.Fatalf("DecodeRequest of %s: %v", body, err)
		}
		if diff := s.diff(want, got); diff != "" {
			t.Fatalf("the request came back otherwise (-want +got):\n%s\nbody: %s", diff, body)
		}
	})
}

func (s Suite) testResponses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := s.response(t)
		body := s.Client.EncodeResponse(nil, want, s.ResponseTarget)
		if !json.Valid(body) {
			t.Fatalf("EncodeResponse wrote what is not JSON: %s", body)
		}
		got, err := s.Provider.DecodeResponse(body, s.ResponseTarget.Request, s.Target)
		if err != nil {
			t.Fatalf("DecodeResponse of %s: %v", body, err)
		}
		if diff := s.diff(want, got); diff != "" {
			t.Fatalf("the answer came back otherwise (-want +got):\n%s\nbody: %s", diff, body)
		}
	})
}

func (s Suite) streams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := s.response(t)
		stream := s.encode(slices.Collect(dialect.Replay(want)))
		s.mustAssemble(t, want, stream)
		s.mustAssemble(t, want, s.encode(Streamed(t, want)))

		complete, err := s.Provider.DecodeResponse(s.Client.EncodeResponse(nil, want, s.ResponseTarget), s.ResponseTarget.Request, s.Target)
		if err != nil {
			t.Fatalf("DecodeResponse: %v", err)
		}
		s.mustAssemble(t, complete, stream)
	})
}

func (s Suite) encode(events []llm.Event) (stream []byte) {
	e := s.Client.NewEncoder(s.ResponseTarget)
	for i := range events {
		stream = e.Encode(stream, &events[i])
	}
	return stream
}

func (s Suite) mustAssemble(t *rapid.T, want *llm.Response, stream []byte) {
	t.Helper()
	frames, err := s.Frames(bytes.NewReader(stream))
	if err != nil {
		t.Fatalf("reading the frames of %q: %v", stream, err)
	}
	events := s.decode(frames)
	if why := CheckEventOrder(events); why != "" {
		t.Fatalf("%s\nstream: %s", why, stream)
	}
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	got, fault, complete := a.Response()
	if fault != nil || !complete {
		t.Fatalf("the stream has fault %v and complete %t, want nil and true\nstream: %s", fault, complete, stream)
	}
	if diff := s.diff(want, got); diff != "" {
		t.Fatalf("the stream holds another response (-want +got):\n%s\nstream: %s", diff, stream)
	}
}

func (s Suite) decode(frames []sse.Event) (events []llm.Event) {
	d := s.Provider.NewDecoder(s.ResponseTarget.Request, s.Target)
	for _, frame := range frames {
		events = d.Decode(events, frame)
	}
	return d.End(events)
}

func (s Suite) cuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := s.response(t)
		stream := s.encode(slices.Collect(dialect.Replay(want)))
		at, err := s.Frames(bytes.NewReader(stream))
		if err != nil {
			t.Fatalf("reading the frames: %v", err)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 10).Draw(t, "sizes")
		cut, err := s.Frames(&cutter{rest: stream, sizes: sizes})
		if err != nil {
			t.Fatalf("reading the cut frames: %v", err)
		}
		if diff := s.diff(at, cut); diff != "" {
			t.Fatalf("cut, the stream has other frames (-want +got):\n%s", diff)
		}
	})
}

// cutter returns its bytes in pieces.
type cutter struct {
	rest  []byte
	sizes []int
	reads int
}

func (c *cutter) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(len(c.rest), c.sizes[c.reads%len(c.sizes)])])
	c.rest = c.rest[n:]
	c.reads++
	return n, nil
}

// prompt checks that text is emitted as soon as it arrives, and calls as soon
// as they end.
func (s Suite) prompt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := Streamed(t, s.response(t))
		encoder := s.Client.NewEncoder(s.ResponseTarget)
		decoder := s.Provider.NewDecoder(s.ResponseTarget.Request, s.Target)
		in, out := gauge{}, gauge{}
		for i := range events {
			e := &events[i]
			frames, err := s.Frames(bytes.NewReader(encoder.Encode(nil, e)))
			if err != nil {
				t.Fatalf("reading the frames: %v", err)
			}
			in.add(e)
			for _, frame := range frames {
				for _, got := range decoder.Decode(nil, frame) {
					out.add(&got)
				}
			}
			if out.words.Len() < in.words.Len() && !in.calling() {
				t.Fatalf("%q went in and %q came out", in.words.String(), out.words.String())
			}
		}
	})
}

// gauge counts emitted text and tracks open parts.
type gauge struct {
	words strings.Builder
	texts map[[2]int]bool
	calls int
}

func (g *gauge) calling() bool { return g.calls > 0 }

func (g *gauge) add(e *llm.Event) {
	id := [2]int{e.Choice, e.Part}
	if g.texts == nil {
		g.texts = map[[2]int]bool{}
	}
	switch opened := e.Opened.(type) {
	case llm.Text:
		g.texts[id] = true
		g.words.WriteString(opened.Text)
	case llm.ToolCall:
		g.calls++
	}
	if e.Kind == llm.EventDelta && g.texts[id] {
		g.words.WriteString(e.Text)
	}
	if e.Kind == llm.EventPartEnd && !g.texts[id] {
		g.calls = max(g.calls-1, 0)
	}
}
