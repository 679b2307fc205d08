package eventstream_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/format/eventstream"
)

// message is a Message by value.
type message struct {
	Raw, Payload string
	Headers      []eventstream.Header
}

func copied(m eventstream.Message) message {
	return message{string(m.Raw), string(m.Payload), slices.Collect(m.Headers())}
}

func readAll(r *eventstream.Reader) ([]message, error) {
	var all []message
	for {
		m, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, copied(m))
	}
}

// mustHex reads bytes written in hexadecimal digits with spaces.
func mustHex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors are those of the format's public test suite.
var vectors = []struct {
	name    string
	hex     string
	headers []eventstream.Header
	payload string
}{
	{"empty message", "00000010 00000000 05c248eb 7d98c8ff", nil, ""},
	{"payload without headers", "0000001d 00000000 fd528c5a 7b27666f6f273a27626172277d c3653936", nil, "{'foo':'bar'}"},
	{
		"a number and a payload",
		"0000002d 00000010 41c424b8 0a6576656e742d74797065 04 0000a00c 7b27666f6f273a27626172277d 36f480a0",
		[]eventstream.Header{{Name: "event-type", Kind: eventstream.Int, Int: 40972}}, "{'foo':'bar'}",
	},
}

func TestVectorsOfTheFormatAreReadAndWritten(t *testing.T) {
	for _, tt := range vectors {
		t.Run(tt.name, func(t *testing.T) {
			raw := mustHex(t, tt.hex)
			if got := eventstream.Append(nil, tt.headers, []byte(tt.payload)); !bytes.Equal(got, raw) {
				t.Errorf("Append = %x, want %x", got, raw)
			}
			got, err := readAll(eventstream.NewReader(bytes.NewReader(raw), 0))
			want := []message{{string(raw), tt.payload, tt.headers}}
			if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
				t.Errorf("read with %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestHeadersOfEveryKindAreReadBack(t *testing.T) {
	want := []eventstream.Header{
		{Name: "yes", Kind: eventstream.Bool, Int: 1},
		{Name: "no", Kind: eventstream.Bool},
		{Name: "byte", Kind: eventstream.Byte, Int: -7},
		{Name: "short", Kind: eventstream.Short, Int: -30000},
		{Name: "int", Kind: eventstream.Int, Int: -2_000_000_000},
		{Name: "long", Kind: eventstream.Long, Int: -9_000_000_000},
		{Name: "bytes", Kind: eventstream.Bytes, Text: "\x00\xff"},
		{Name: "string", Text: "größe"},
		{Name: "time", Kind: eventstream.Timestamp, Int: 1700000000123},
		{Name: "uuid", Kind: eventstream.UUID, Text: "0123456789abcdef"},
	}
	raw := eventstream.Append([]byte("kept"), want, []byte("x"))
	m, err := eventstream.NewReader(bytes.NewReader(raw[4:]), 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, slices.Collect(m.Headers())); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if v, ok := m.Header("string"); !ok || v != "größe" {
		t.Errorf("Header(string) = %q, %t", v, ok)
	}
	if v, ok := m.Header("bytes"); ok {
		t.Errorf("Header(bytes) = %q, want none: it is not a string", v)
	}
}

func TestTheShortestHeadersOfEachFormAreReadBack(t *testing.T) {
	for _, want := range []eventstream.Header{
		{Name: "s"},
		{Name: "b", Kind: eventstream.Bytes},
		{Name: "f", Kind: eventstream.Bool},
		{Name: "n", Kind: eventstream.Byte},
	} {
		raw := eventstream.Append(nil, []eventstream.Header{want}, nil)
		m, err := eventstream.NewReader(bytes.NewReader(raw), 0).Next()
		if diff := cmp.Diff([]eventstream.Header{want}, slices.Collect(m.Headers())); diff != "" || err != nil {
			t.Errorf("message %x: error %v, headers (-want +got):\n%s", raw, err, diff)
		}
	}
}

func TestAppendingToPartsOfAMessageLeavesTheStreamAlone(t *testing.T) {
	one := eventstream.Append(nil, []eventstream.Header{{Name: ":event-type", Text: "chunk"}}, []byte("{}"))
	r := eventstream.NewReader(bytes.NewReader(slices.Concat(one, one)), 0)
	m, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{m.Raw, m.Payload, m.Type()} {
		_ = append(part, "overwritten"...)
	}
	if !bytes.Equal(m.Raw, one) {
		t.Errorf("Raw = %x, want %x", m.Raw, one)
	}
	if m, err := r.Next(); err != nil || !bytes.Equal(m.Raw, one) {
		t.Errorf("the next message = %x, %v, want %x", m.Raw, err, one)
	}
}

func TestTypeAndDataSayWhatAMessageIs(t *testing.T) {
	for _, tt := range []struct {
		name       string
		headers    []eventstream.Header
		payload    string
		typ, data  string
		typMissing bool
	}{
		{"event", []eventstream.Header{{Name: ":message-type", Text: "event"}, {Name: ":event-type", Text: "chunk"}}, "{}", "chunk", "{}", false},
		{"exception", []eventstream.Header{{Name: ":exception-type", Text: "throttlingException"}}, `{"message":"slow"}`, "throttlingException", `{"message":"slow"}`, false},
		{"error", []eventstream.Header{{Name: ":error-code", Text: "InternalError"}, {Name: ":error-message", Text: `a "b"`}}, "", "InternalError", `{"message":"a \"b\""}`, false},
		{"nothing", nil, "x", "", "x", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := eventstream.NewReader(bytes.NewReader(eventstream.Append(nil, tt.headers, []byte(tt.payload))), 0).Next()
			if err != nil {
				t.Fatal(err)
			}
			if string(m.Type()) != tt.typ || (m.Type() == nil) != tt.typMissing || string(m.Data()) != tt.data {
				t.Errorf("Type, Data = %q, %q, want %q, %q", m.Type(), m.Data(), tt.typ, tt.data)
			}
		})
	}
}

// withChecksum sets both checksums of a message.
func withChecksum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	binary.BigEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
	return b
}

func TestInvalidMessagesEndTheReading(t *testing.T) {
	whole := eventstream.Append(nil, []eventstream.Header{{Name: "a", Text: "bc"}}, []byte("payload"))
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(whole)
		b[at] = to
		return b
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"prelude checksum", changed(8, whole[8]^1), eventstream.ErrCorrupt},
		{"length under a wrong checksum", changed(3, 200), eventstream.ErrCorrupt},
		{"header byte", changed(14, 'x'), eventstream.ErrCorrupt},
		{"payload byte", changed(len(whole)-6, 'x'), eventstream.ErrCorrupt},
		{"message checksum", changed(len(whole)-1, whole[len(whole)-1]^1), eventstream.ErrCorrupt},
		{"headers longer than the message", withChecksum(changed(7, 250)), eventstream.ErrCorrupt},
		{"length below that of an empty message", mustHex(t, "0000000c 00000000 a0d23268"), eventstream.ErrCorrupt},
		{"header with a name that does not end", withChecksum(changed(12, 200)), eventstream.ErrCorrupt},
		{"header that does not end", withChecksum(changed(16, 200)), eventstream.ErrCorrupt},
		{"header of unknown type", withChecksum(changed(14, 10)), eventstream.ErrCorrupt},
		{"header without a name", withChecksum(changed(12, 0)), eventstream.ErrCorrupt},
		{"cut in the prelude", whole[:5], io.ErrUnexpectedEOF},
		{"cut in the payload", whole[:len(whole)-1], io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := eventstream.NewReader(bytes.NewReader(append(bytes.Clone(whole), tt.raw...)), 0)
			got, err := readAll(r)
			if len(got) != 1 || !errors.Is(err, tt.want) {
				t.Errorf("%d messages and %v, want 1 and %v", len(got), err, tt.want)
			}
			if _, again := r.Next(); again != err || r.More() {
				t.Errorf("then %v, want %v again, and no more", again, err)
			}
		})
	}
}

func TestMessagesOverTheBoundAreRefusedBeforeTheyAreRead(t *testing.T) {
	raw := eventstream.Append(nil, nil, bytes.Repeat([]byte("x"), 1000))
	if got, err := readAll(eventstream.NewReader(bytes.NewReader(raw), len(raw))); len(got) != 1 || err != io.EOF {
		t.Errorf("at the bound: %d messages, %v", len(got), err)
	}
	if got, err := readAll(eventstream.NewReader(bytes.NewReader(raw), 1)); len(got) != 0 || err != eventstream.ErrTooLarge {
		t.Errorf("over a bound of one byte: %d messages, %v, want ErrTooLarge", len(got), err)
	}
	r := eventstream.NewReader(io.MultiReader(bytes.NewReader(raw[:12]), iotest.ErrReader(errors.New("read on"))), len(raw)-1)
	if _, err := r.Next(); err != eventstream.ErrTooLarge {
		t.Errorf("over the bound: %v, want ErrTooLarge", err)
	}
}

func TestASourceThatReadsNothingEndsTheReading(t *testing.T) {
	if _, err := eventstream.NewReader(idleReader{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// measuredReader is a source of one part per read that notes the room that it was given.
type measuredReader struct {
	parts [][]byte
	room  []int
}

func (m *measuredReader) Read(b []byte) (int, error) {
	m.room = append(m.room, len(b))
	if len(m.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, m.parts[0])
	m.parts[0] = m.parts[0][n:]
	if len(m.parts[0]) == 0 {
		m.parts = m.parts[1:]
	}
	return n, nil
}

func TestABufferGrowsForALargeMessageAndIsReleasedAfterManySmallOnes(t *testing.T) {
	const small, usual = 150, 64 << 10
	src := &measuredReader{}
	add := func(n, size int) {
		for range n {
			src.parts = append(src.parts, eventstream.Append(nil, nil, make([]byte, size)))
		}
	}
	add(small, 10)
	add(1, 100_000)
	add(small, 10)
	got, err := readAll(eventstream.NewReader(src, 0))
	if len(got) != 2*small+1 || err != io.EOF {
		t.Fatalf("%d messages and %v, want %d and io.EOF", len(got), err, 2*small+1)
	}
	if room := slices.Max(src.room[:small]); room > usual/2 {
		t.Errorf("before the large message: room for %d bytes, want a small buffer", room)
	}
	if room := src.room[len(src.room)-small+1]; room <= usual {
		t.Errorf("just after the large message: room for %d bytes, want the large buffer still", room)
	}
	if room := src.room[len(src.room)-1]; room > usual {
		t.Errorf("%d small messages after the large one: room for %d bytes, want at most %d", small, room, usual)
	}
}

func TestResetKeepsABufferOfUpTo64KB(t *testing.T) {
	stream := eventstream.Append(nil, nil, make([]byte, 60_000))
	src := bytes.NewReader(stream)
	r := eventstream.NewReader(src, 0)
	read := func() {
		src.Reset(stream)
		r.Reset(src)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if allocs := testing.AllocsPerRun(20, read); allocs != 0 {
		t.Errorf("%v allocations for a message of 60 KB, want 0", allocs)
	}
}

func TestResetLetsALargerBufferGo(t *testing.T) {
	src := &measuredReader{parts: [][]byte{eventstream.Append(nil, nil, make([]byte, 100_000))}}
	r := eventstream.NewReader(src, 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	again := &measuredReader{parts: [][]byte{eventstream.Append(nil, nil, []byte("a"))}}
	r.Reset(again)
	if m, err := r.Next(); err != nil || string(m.Payload) != "a" || again.room[0] > 64<<10 {
		t.Errorf("payload %q, error %v, room for %d bytes, want a and at most 64 KB", m.Payload, err, again.room[0])
	}
}

func TestErrorsOfTheSourceComeAfterTheMessagesBeforeThem(t *testing.T) {
	gone := errors.New("connection reset")
	raw := eventstream.Append(nil, nil, []byte("a"))
	r := eventstream.NewReader(io.MultiReader(bytes.NewReader(append(raw, raw[:3]...)), iotest.ErrReader(gone)), 0)
	if got, err := readAll(r); len(got) != 1 || err != gone {
		t.Errorf("%d messages and %v, want 1 and %v", len(got), err, gone)
	}
}

func TestLongNamesAndTextsAreCutOff(t *testing.T) {
	long := strings.Repeat("n", 70000)
	raw := eventstream.Append(nil, []eventstream.Header{{Name: long, Text: long}, {Name: "u", Kind: eventstream.UUID, Text: "short"}}, nil)
	m, err := eventstream.NewReader(bytes.NewReader(raw), 0).Next()
	if err != nil {
		t.Fatal(err)
	}
	want := []eventstream.Header{{Name: long[:255], Text: long[:65535]}, {Name: "u", Kind: eventstream.UUID, Text: "short" + strings.Repeat("\x00", 11)}}
	if diff := cmp.Diff(want, slices.Collect(m.Headers())); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}
