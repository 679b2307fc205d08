package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/format/sse"
)

// reference reads a whole stream by the letter of the HTML standard: slowly, and
// knowing where it ends. Its events have no Raw.
func reference(stream string) (events []event) {
	stream, started := strings.CutPrefix(stream, "\ufeff")
	var now event
	var data []string
	filled := false // the event has a line
	for stream != "" {
		n := strings.IndexAny(stream, "\r\n")
		line, ended := stream, n >= 0
		if ended {
			line = stream[:n]
			stream = stream[n+len(lineEndAt(stream[n:])):]
		} else {
			stream = ""
		}
		if line == "" {
			if filled {
				events = append(events, finish(now, data))
			}
			now, data, started, filled = event{}, nil, false, false
			continue
		}
		started, filled = true, true
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data":
			data = append(data, value)
		case name == "event":
			now.Type = new(value)
		case name == "id" && !strings.Contains(value, "\x00"):
			now.ID = new(value)
		}
	}
	if started {
		now.Unterminated = true
		events = append(events, finish(now, data))
	}
	return events
}

func lineEndAt(s string) string {
	if strings.HasPrefix(s, "\r\n") {
		return s[:2]
	}
	return s[:1]
}

func finish(e event, data []string) event {
	if data != nil {
		e.Data = new(strings.Join(data, "\n"))
	}
	return e
}

// mustRead reads src, which returns stream, and checks that the Raw of the
// events are the stream and that the events are those of the reference.
func mustRead(t interface{ Fatalf(string, ...any) }, stream string, src io.Reader) {
	got, err := readAll(sse.NewReader(src, 0))
	if err != io.EOF {
		t.Fatalf("%q: reading ended with %v, want io.EOF", stream, err)
	}
	var raw strings.Builder
	var events []event
	for _, e := range got {
		raw.WriteString(e.Raw)
		// Blank lines alone are joined as they arrive, and no event of the format.
		text := e.Raw
		if raw.Len() == len(text) { // only the first event can begin with a byte order mark
			text = strings.TrimPrefix(text, "\ufeff")
		}
		blank := strings.Trim(text, "\r\n") == ""
		e.Raw = ""
		if !blank || e.Data != nil || e.Unterminated {
			events = append(events, e)
		}
	}
	if raw.String() != stream {
		t.Fatalf("the Raw of the events are\n%q, want\n%q", raw.String(), stream)
	}
	if diff := cmp.Diff(reference(stream), events); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", stream, diff)
	}
}

var fragments = rapid.SampledFrom([]string{"\n", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r", "data:", "data: ", "data", "event: delta", "id: 7",
	"id: \x00", ": comment", ":", "retry: 1", " ", "{\"a\":1}", "x", "\ufeff", "\xef", "é", strings.Repeat("long ", 900)})

func streams() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		mark := rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(t, "mark")
		return mark + strings.Join(rapid.SliceOfN(fragments, 0, 40).Draw(t, "fragments"), "")
	})
}

// cuts gives a stream out in the given number of bytes per read, over and over.
type cuts struct {
	rest  string
	sizes []int
	reads int
}

func (c *cuts) Read(b []byte) (int, error) {
	if c.rest == "" {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(len(c.rest), c.sizes[c.reads%len(c.sizes)])])
	c.rest = c.rest[n:]
	c.reads++
	return n, nil
}

func TestAnyCutOfTheBytesGivesTheSameEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := streams().Draw(t, "stream")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 20).Draw(t, "sizes")
		mustRead(t, stream, &cuts{rest: stream, sizes: sizes})
		mustRead(t, stream, strings.NewReader(stream))
		mustRead(t, stream, iotest.OneByteReader(strings.NewReader(stream)))
		mustRead(t, stream, iotest.DataErrReader(strings.NewReader(stream)))
	})
}

func TestMoreChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := streams().Draw(t, "stream")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 20).Draw(t, "sizes")
		want, _ := readAll(sse.NewReader(&cuts{rest: stream, sizes: sizes}, 0))
		src := &cuts{rest: stream, sizes: sizes}
		r := sse.NewReader(src, 0)
		more := false
		for i := 0; ; i++ {
			before := src.reads
			e, err := r.Next()
			if err != nil {
				break
			}
			if more && src.reads != before {
				t.Fatalf("event %d was read from the source, but More had reported it", i)
			}
			more = r.More()
			got := event{string(e.Raw), text(e.Type), text(e.ID), text(e.Data), e.Unterminated}
			// With More a late LF is seen with the next event rather than this one.
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Fatalf("event %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestWrittenEventsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"", " ", "a", "data: x", ":", "\r", "\n", "\r\n", "{\"a\":1}", "é"})
		texts := rapid.Map(rapid.SliceOfN(line, 0, 8), func(s []string) string { return strings.Join(s, "") })
		data, typ, comment := texts.Draw(t, "data"), texts.Draw(t, "type"), texts.Draw(t, "comment")
		stream := sse.AppendEvent(nil, typ, []byte(data))
		stream = sse.AppendComment(stream, comment)
		stream = sse.AppendData(stream, []byte(data))

		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		oneLine := strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ").Replace(typ)
		want := []event{{Data: new(lines)}, {}, {Data: new(lines)}}
		if typ != "" {
			want[0].Type = new(oneLine)
		}
		if diff := cmp.Diff(want, reference(string(stream))); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", stream, diff)
		}
	})
}

func FuzzReader(f *testing.F) {
	for _, stream := range []string{"", "data: a\n\n", "\ufeffdata: a\r\n\r\ndata: b\r\rid: 1\n\nevent: c", "data\n\n\r\n: x\n\ndata:  y\nid: \x00\n\n", "\r\n\r\n\n\r"} {
		f.Add(stream, uint8(1), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream string, a, b uint8) {
		mustRead(t, stream, strings.NewReader(stream))
		mustRead(t, stream, &cuts{rest: stream, sizes: []int{int(a) + 1, int(b) + 1}})
	})
}

func chatStream(n int) []byte {
	var b []byte
	for range n {
		b = sse.AppendData(b, []byte(`{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini-2024","choices":[{"index":0,"delta":{"content":" word"}}]}`))
	}
	return b
}

func BenchmarkReader100Chunks(b *testing.B) {
	for name, stream := range map[string][]byte{
		"LF":   chatStream(100),
		"CRLF": bytes.ReplaceAll(chatStream(100), []byte("\n"), []byte("\r\n")),
	} {
		b.Run(name, func(b *testing.B) {
			src := bytes.NewReader(nil)
			r := sse.NewReader(src, 0)
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(stream)
				r.Reset(src)
				n := 0
				for {
					if _, err := r.Next(); err != nil {
						break
					}
					n++
				}
				if n != 100 {
					b.Fatalf("%d events, want 100", n)
				}
			}
		})
	}
}

func BenchmarkReaderOfALargeEventInSmallReads(b *testing.B) {
	stream := sse.AppendData(nil, bytes.Repeat([]byte("x"), 1<<20))
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		r := sse.NewReader(&cuts{rest: string(stream), sizes: []int{16}}, 0)
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendData(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-123","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}`)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = sse.AppendData(dst[:0], data)
	}
}
