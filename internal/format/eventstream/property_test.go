package eventstream_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"modelgate/internal/format/eventstream"
)

var headers = rapid.Custom(func(t *rapid.T) eventstream.Header {
	h := eventstream.Header{
		Name: rapid.StringN(1, 60, 255).Draw(t, "name"),
		Kind: rapid.SampledFrom([]eventstream.Kind{eventstream.String, eventstream.Bool, eventstream.Byte, eventstream.Short,
			eventstream.Int, eventstream.Long, eventstream.Bytes, eventstream.Timestamp, eventstream.UUID}).Draw(t, "kind"),
	}
	switch h.Kind {
	case eventstream.String, eventstream.Bytes:
		h.Text = rapid.String().Draw(t, "text")
	case eventstream.UUID:
		h.Text = string(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
	case eventstream.Bool:
		h.Int = rapid.Int64Range(0, 1).Draw(t, "bool")
	case eventstream.Byte:
		h.Int = int64(rapid.Int8().Draw(t, "byte"))
	case eventstream.Short:
		h.Int = int64(rapid.Int16().Draw(t, "short"))
	case eventstream.Int:
		h.Int = int64(rapid.Int32().Draw(t, "int"))
	default:
		h.Int = rapid.Int64().Draw(t, "long")
	}
	return h
})

// streams draws messages and the stream that they make.
func streams(t *rapid.T) (all []message, stream []byte) {
	for range rapid.IntRange(0, 8).Draw(t, "messages") {
		var m message
		if list := rapid.SliceOfN(headers, 0, 4).Draw(t, "headers"); len(list) > 0 {
			m.Headers = list
		}
		m.Payload = string(bytes.Repeat([]byte("pay"), rapid.SampledFrom([]int{0, 1, 40, 2000, 60000}).Draw(t, "size")))
		m.Raw = string(eventstream.Append(nil, m.Headers, []byte(m.Payload)))
		stream = append(stream, m.Raw...)
		all = append(all, m)
	}
	return all, stream
}

// cuts gives a stream out in the given number of bytes per read, over and over.
type cuts struct {
	rest  []byte
	sizes []int
	reads int
}

func (c *cuts) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(len(c.rest), c.sizes[c.reads%len(c.sizes)])])
	c.rest = c.rest[n:]
	c.reads++
	return n, nil
}

func TestAnyCutOfTheBytesGivesTheSameMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, stream := streams(t)
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 20).Draw(t, "sizes")
		for name, src := range map[string]io.Reader{
			"whole":        bytes.NewReader(stream),
			"cut":          &cuts{rest: stream, sizes: sizes},
			"data and EOF": iotest.DataErrReader(bytes.NewReader(stream)),
		} {
			got, err := readAll(eventstream.NewReader(src, 0))
			if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
				t.Fatalf("%s: %v (-want +got):\n%s", name, err, diff)
			}
		}
	})
}

func TestMessagesComeWithTheirLastByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, _ := streams(t)
		in, out := io.Pipe()
		r := eventstream.NewReader(in, 0)
		for i := range want {
			go fmt.Fprint(out, want[i].Raw) // the next is written only after this was read
			m, err := r.Next()
			if err != nil || string(m.Raw) != want[i].Raw {
				t.Fatalf("message %d: %v, %d bytes of %d", i, err, len(m.Raw), len(want[i].Raw))
			}
		}
	})
}

func TestMoreReportsMessagesThatNeedNoRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, stream := streams(t)
		src := &cuts{rest: stream, sizes: rapid.SliceOfN(rapid.IntRange(1, 9000), 1, 20).Draw(t, "sizes")}
		r := eventstream.NewReader(src, 0)
		more := false
		for i := range want {
			before := src.reads
			m, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if read := src.reads != before; read == more && (i > 0 || more) {
				t.Fatalf("message %d: read from the source is %t, but More said %t", i, read, more)
			}
			more = r.More()
			if diff := cmp.Diff(want[i], copied(m)); diff != "" {
				t.Fatalf("message %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestOneChangedByteIsNoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := eventstream.Append(nil, rapid.SliceOfN(headers, 0, 3).Draw(t, "headers"), []byte("some payload"))
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if got, err := readAll(eventstream.NewReader(bytes.NewReader(raw), 0)); len(got) != 0 || err == io.EOF {
			t.Fatalf("%d messages and %v, want an error", len(got), err)
		}
	})
}

func FuzzReader(f *testing.F) {
	whole := eventstream.Append(nil, []eventstream.Header{{Name: ":event-type", Text: "chunk"}, {Name: "n", Kind: eventstream.Long, Int: 3}}, []byte("{}"))
	f.Add(whole, uint8(1), uint8(3))
	f.Add(append(bytes.Clone(whole), whole[:20]...), uint8(12), uint8(4))
	f.Add([]byte{}, uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, stream []byte, a, b uint8) {
		want, wantErr := readAll(eventstream.NewReader(bytes.NewReader(stream), 1<<16))
		got, err := readAll(eventstream.NewReader(&cuts{rest: stream, sizes: []int{int(a) + 1, int(b) + 1}}, 1<<16))
		if diff := cmp.Diff(want, got); diff != "" || err.Error() != wantErr.Error() {
			t.Fatalf("cut: %v, whole: %v (-whole +cut):\n%s", err, wantErr, diff)
		}
		var again []byte
		for _, m := range got {
			again = eventstream.Append(again, m.Headers, []byte(m.Payload))
		}
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("what was read is written as\n%x, of\n%x", again, stream)
		}
	})
}

func BenchmarkReader100Messages(b *testing.B) {
	var stream []byte
	for range 100 {
		stream = appendDelta(stream)
	}
	src := bytes.NewReader(nil)
	r := eventstream.NewReader(src, 0)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		src.Reset(stream)
		r.Reset(src)
		n := 0
		for m, err := r.Next(); err == nil; m, err = r.Next() {
			n += len(m.Type())
		}
		if n != 100*len("contentBlockDelta") {
			b.Fatalf("types of %d bytes in all", n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = appendDelta(dst[:0])
	}
}

var deltaHeaders = []eventstream.Header{{Name: ":event-type", Text: "contentBlockDelta"}, {Name: ":content-type", Text: "application/json"}, {Name: ":message-type", Text: "event"}}

func appendDelta(dst []byte) []byte {
	return eventstream.Append(dst, deltaHeaders, []byte(`{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefgh"}`))
}

func BenchmarkReaderOfALargeMessageInSmallReads(b *testing.B) {
	stream := eventstream.Append(nil, nil, bytes.Repeat([]byte("x"), 1<<20))
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		r := eventstream.NewReader(&cuts{rest: stream, sizes: []int{16}}, 0)
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}
