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

	"modelgate/internal/eventstream"
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
		t.Errorf("Header(bytes) = %q, want none: it is no string", v)
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

// sealed sets both checksums of a message.
func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	binary.BigEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
	return b
}

func TestBytesThatAreNoMessageEndTheReading(t *testing.T) {
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
		{"headers longer than the message", sealed(changed(7, 250)), eventstream.ErrCorrupt},
		{"header that does not end", sealed(changed(16, 200)), eventstream.ErrCorrupt},
		{"header of unknown type", sealed(changed(14, 10)), eventstream.ErrCorrupt},
		{"header without a name", sealed(changed(12, 0)), eventstream.ErrCorrupt},
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
	r := eventstream.NewReader(io.MultiReader(bytes.NewReader(raw[:12]), iotest.ErrReader(errors.New("read on"))), len(raw)-1)
	if _, err := r.Next(); err != eventstream.ErrTooLarge {
		t.Errorf("over the bound: %v, want ErrTooLarge", err)
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
