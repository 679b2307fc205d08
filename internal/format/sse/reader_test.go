package sse_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/format/sse"
)

// event is an event with its own memory. Data and the like are pointers so that
// absent and empty differ.
type event struct {
	Raw            string
	Type, ID, Data *string
	Unterminated   bool
}

func text(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}

// readAll reads every event of r and the error that ended the reading.
func readAll(r *sse.Reader) (events []event, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{string(e.Raw), text(e.Type), text(e.ID), text(e.Data), e.Unterminated})
	}
}

func TestReaderFollowsTheEventStreamFormat(t *testing.T) {
	for _, tt := range []struct {
		name, stream string
		want         []event
	}{
		{"nothing", "", nil},
		{"one event", "data: a\n\n", []event{{Raw: "data: a\n\n", Data: new("a")}}},
		{"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", []event{
			{Raw: "data: a\r\n\r\n", Data: new("a")}, {Raw: "data: b\r\n\r\n", Data: new("b")}}},
		{"CR", "data: a\r\rdata: b\r\r", []event{
			{Raw: "data: a\r\r", Data: new("a")}, {Raw: "data: b\r\r", Data: new("b")}}},
		{"line ends mixed", "event: x\rdata: a\r\ndata: b\n\r\ndata: c\r\n\n", []event{
			{Raw: "event: x\rdata: a\r\ndata: b\n\r\n", Type: new("x"), Data: new("a\nb")},
			{Raw: "data: c\r\n\n", Data: new("c")}}},
		{"several lines", "data: a\ndata\ndata:\ndata:  b\n\n", []event{
			{Raw: "data: a\ndata\ndata:\ndata:  b\n\n", Data: new("a\n\n\n b")}}},
		{"no space after the colon", "data:a\nevent:b\nid:c\n\n", []event{
			{Raw: "data:a\nevent:b\nid:c\n\n", Data: new("a"), Type: new("b"), ID: new("c")}}},
		{"one space only is taken off", "data:  a \n\n", []event{{Raw: "data:  a \n\n", Data: new(" a ")}}},
		{"data before event", "data: a\nevent: b\n\n", []event{
			{Raw: "data: a\nevent: b\n\n", Data: new("a"), Type: new("b")}}},
		{"the last event field counts", "event: a\nevent: b\ndata: c\n\n", []event{
			{Raw: "event: a\nevent: b\ndata: c\n\n", Data: new("c"), Type: new("b")}}},
		{"event without data", "event: ping\n\n", []event{{Raw: "event: ping\n\n", Type: new("ping")}}},
		{"empty data is not absent", "data\n\ndata:\n\nevent\nid\n\n", []event{
			{Raw: "data\n\n", Data: new("")}, {Raw: "data:\n\n", Data: new("")},
			{Raw: "event\nid\n\n", Type: new(""), ID: new("")}}},
		{"comments", ": one\n\n: two\n:\ndata: a\n\n", []event{
			{Raw: ": one\n\n"}, {Raw: ": two\n:\ndata: a\n\n", Data: new("a")}}},
		{"blank lines", "\n\ndata: a\n\n\n", []event{
			{Raw: "\n\n"}, {Raw: "data: a\n\n", Data: new("a")}, {Raw: "\n"}}},
		{"unknown fields", "retry: 10\nfoo: bar\ndatas: 1\nDATA: 2\n data: 3\n\n", []event{
			{Raw: "retry: 10\nfoo: bar\ndatas: 1\nDATA: 2\n data: 3\n\n"}}},
		{"id with NUL", "id: 1\nid: 2\x003\n\n", []event{{Raw: "id: 1\nid: 2\x003\n\n", ID: new("1")}}},
		{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []event{
			{Raw: "\ufeffdata: a\n\n", Data: new("a")}, {Raw: "\ufeffdata: b\n\n"}}},
		{"byte order mark before a blank line", "\ufeff\n", []event{{Raw: "\ufeff\n"}}},
		{"byte order mark after a blank line", "\n\ufeffdata: a\n\n", []event{{Raw: "\n"}, {Raw: "\ufeffdata: a\n\n"}}},
		{"half a byte order mark", "\xef\xbbdata: a\n\n", []event{{Raw: "\xef\xbbdata: a\n\n"}}},
		{"colons in the value", "data: {\"a\":1}\nid: a:b\n\n", []event{
			{Raw: "data: {\"a\":1}\nid: a:b\n\n", Data: new(`{"a":1}`), ID: new("a:b")}}},
		{"no final blank line", "data: a\n\ndata: b\n", []event{
			{Raw: "data: a\n\n", Data: new("a")}, {Raw: "data: b\n", Data: new("b"), Unterminated: true}}},
		{"no final line end", "data: a\nevent: b", []event{
			{Raw: "data: a\nevent: b", Data: new("a"), Type: new("b"), Unterminated: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readAll(sse.NewReader(strings.NewReader(tt.stream), 0))
			if err != io.EOF {
				t.Errorf("reading ended with %v, want io.EOF", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// parts is a source that returns one part per read and then fails.
type parts struct {
	parts []string
	err   error
	reads int
}

func (p *parts) Read(b []byte) (int, error) {
	p.reads++
	if len(p.parts) == 0 {
		return 0, p.err
	}
	n := copy(b, p.parts[0])
	p.parts[0] = p.parts[0][n:]
	if p.parts[0] == "" {
		p.parts = p.parts[1:]
	}
	return n, nil
}

func TestNextNeverWaitsForALaterEvent(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n", "\r\n\r", "\n\r", "\r\n\n"} {
		src := &parts{parts: []string{"data: a" + end, "data: b" + end}, err: io.EOF}
		r := sse.NewReader(src, 0)
		e, err := r.Next()
		if err != nil || string(e.Data) != "a" || src.reads != 1 {
			t.Errorf("ended by %q: data %q, error %v after %d reads, want a after 1", end, e.Data, err, src.reads)
		}
	}
}

func TestTheLineFeedOfASplitLineEndOpensNoLine(t *testing.T) {
	src := &parts{parts: []string{"data: a\r", "\n\r", "\ndata: b\r", "\ndata: c\r\n\r", "\n"}, err: io.EOF}
	got, err := readAll(sse.NewReader(src, 0))
	want := []event{
		{Raw: "data: a\r\n\r", Data: new("a")},
		{Raw: "\ndata: b\r\ndata: c\r\n\r", Data: new("b\nc")},
		{Raw: "\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
		t.Errorf("error %v, events (-want +got):\n%s", err, diff)
	}
}

func TestAnErrorDropsTheIncompleteEventAndLasts(t *testing.T) {
	broken := errors.New("connection reset")
	for _, cut := range []error{broken, io.ErrUnexpectedEOF} {
		src := &parts{parts: []string{"data: a\n\ndata: b\n\ndata: c\n"}, err: cut}
		r := sse.NewReader(src, 0)
		got, err := readAll(r)
		if len(got) != 2 || err != cut {
			t.Errorf("%d events and %v, want 2 and %v", len(got), err, cut)
		}
		if e, err := r.Next(); err != cut || e.Raw != nil {
			t.Errorf("Next after the end = %q, %v, want nothing and %v", e.Raw, err, cut)
		}
	}
}

func TestAnErrorThatComesWithBytesIsGivenAfterThem(t *testing.T) {
	got, err := readAll(sse.NewReader(iotest.DataErrReader(strings.NewReader("data: a\n\ndata: b")), 0))
	if len(got) != 2 || !got[1].Unterminated || err != io.EOF {
		t.Errorf("events %v, error %v", got, err)
	}
}

func TestASourceThatReadsNothingEndsTheReading(t *testing.T) {
	if _, err := sse.NewReader(idle{}, 0).Next(); err != io.ErrNoProgress {
		t.Errorf("error %v, want io.ErrNoProgress", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestAnEventBeyondTheBoundIsRefusedHoweverItArrives(t *testing.T) {
	for _, size := range []int{100, 5000, 70_000} {
		fits := "data: " + strings.Repeat("x", size-8) + "\n\n"
		for _, tt := range []struct {
			stream string
			want   int
			err    error
		}{
			{fits + fits, 2, io.EOF},
			{fits + "x" + fits + fits, 1, sse.ErrTooLarge},
			{fits + "x" + fits[:size], 1, sse.ErrTooLarge},
			{strings.ReplaceAll(fits, "x\n\n", "\r\r\n") + fits, 2, io.EOF},
			{fits + strings.Repeat("y", size), 2, io.EOF},
			{fits + strings.Repeat("y", size+1), 1, sse.ErrTooLarge},
		} {
			for name, src := range map[string]io.Reader{
				"whole":  strings.NewReader(tt.stream),
				"parts":  &cuts{rest: tt.stream, sizes: []int{1, 2, 61}},
				"halves": iotest.HalfReader(strings.NewReader(tt.stream)),
			} {
				r := sse.NewReader(src, size)
				got, err := readAll(r)
				if len(got) != tt.want || err != tt.err {
					t.Errorf("size %d, %s: %d events, %v, want %d, %v", size, name, len(got), err, tt.want, tt.err)
				}
				if _, again := r.Next(); again != err {
					t.Errorf("size %d, %s: Next after the end: %v, want %v", size, name, again, err)
				}
			}
		}
	}
}

func TestABoundOfOneByteAllowsBlankLinesOnly(t *testing.T) {
	got, err := readAll(sse.NewReader(strings.NewReader("\n\n:\n\n"), 1))
	if diff := cmp.Diff([]event{{Raw: "\n"}, {Raw: "\n"}}, got); diff != "" || err != sse.ErrTooLarge {
		t.Errorf("error %v, want ErrTooLarge; events (-want +got):\n%s", err, diff)
	}
}

// Two bytes a line fill a buffer of any usual size to its last byte.
func TestShortLinesMayFillTheBuffer(t *testing.T) {
	stream := strings.Repeat(":\n", 40_000) + "data\n\n"
	got, err := readAll(sse.NewReader(strings.NewReader(stream), 0))
	if len(got) != 1 || got[0].Raw != stream || got[0].Data == nil || err != io.EOF {
		t.Errorf("%d events, error %v, want one event of %d bytes with empty data", len(got), err, len(stream))
	}
}

// measured is a source of one part per read that notes the room that it was given.
type measured struct {
	parts
	room []int
}

func (m *measured) Read(b []byte) (int, error) {
	m.room = append(m.room, len(b))
	return m.parts.Read(b)
}

func TestABufferGrowsForALargeEventAndIsReleasedAfterManySmallOnes(t *testing.T) {
	const small, large, usual = 150, 100_000, 64 << 10
	src := &measured{parts: parts{err: io.EOF}}
	addSmall := func() {
		for range small {
			src.parts.parts = append(src.parts.parts, "data: a\n\n")
		}
	}
	addSmall()
	src.parts.parts = append(src.parts.parts, "data: "+strings.Repeat("x", large)+"\n\n")
	addSmall()
	got, err := readAll(sse.NewReader(src, 0))
	if len(got) != 2*small+1 || err != io.EOF {
		t.Fatalf("%d events and %v, want %d and io.EOF", len(got), err, 2*small+1)
	}
	if room := slices.Max(src.room[:small]); room > usual/2 {
		t.Errorf("before the large event: room for %d bytes, want a small buffer", room)
	}
	if room := src.room[len(src.room)-small+1]; room <= usual {
		t.Errorf("just after the large event: room for %d bytes, want the large buffer still", room)
	}
	if room := src.room[len(src.room)-1]; room > usual {
		t.Errorf("%d small events after the large one: room for %d bytes, want at most %d", small, room, usual)
	}
}

func TestResetKeepsABufferOfUpTo64KB(t *testing.T) {
	stream := []byte("data: " + strings.Repeat("x", 60_000) + "\n\n")
	src := bytes.NewReader(stream)
	r := sse.NewReader(src, 0)
	read := func() {
		src.Reset(stream)
		r.Reset(src)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if allocs := testing.AllocsPerRun(20, read); allocs != 0 {
		t.Errorf("%v allocations for an event of 60 KB, want 0", allocs)
	}
}

func TestResetLetsALargerBufferGo(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: "+strings.Repeat("x", 100_000)+"\n\n"), 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	src := &measured{parts: parts{parts: []string{"data: a\n\n"}, err: io.EOF}}
	r.Reset(src)
	if e, err := r.Next(); err != nil || string(e.Data) != "a" || src.room[0] > 64<<10 {
		t.Errorf("data %q, error %v, room for %d bytes, want a and at most 64 KB", e.Data, err, src.room[0])
	}
}

func TestALargeEventAmongSmallOnesIsReadAgainAndAgain(t *testing.T) {
	large := "data: " + strings.Repeat("x", 300_000) + "\n\n"
	small := strings.Repeat("data: a\ndata: b\n\n", 1000)
	stream := strings.Repeat(large+small, 3)
	r := sse.NewReader(&cuts{rest: stream, sizes: []int{50, 100, 70_000}}, 0)
	sizes := map[int]int{}
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		sizes[len(e.Data)]++
	}
	if diff := cmp.Diff(map[int]int{300_000: 3, len("a\nb"): 3000}, sizes); diff != "" {
		t.Errorf("events by the length of their data (-want +got):\n%s", diff)
	}
}

func TestMoreReportsWholeEventsOnly(t *testing.T) {
	src := &parts{parts: []string{"data: a1\ndata: a2\n\ndata: b1\ndata: b2\n\ndata: c\n", "\n: d"}, err: io.EOF}
	r := sse.NewReader(src, 0)
	for _, want := range []struct {
		data string
		more bool
	}{{"a1\na2", true}, {"b1\nb2", false}, {"c", false}, {"", false}} {
		e, err := r.Next()
		before := src.reads
		more := r.More()
		if err != nil || string(e.Data) != want.data || more != want.more || r.More() != more {
			t.Errorf("data %q, more %t, error %v, want %q, %t", e.Data, more, err, want.data, want.more)
		}
		if src.reads != before {
			t.Error("More read from the source")
		}
	}
	if e, err := r.Next(); err != io.EOF || r.More() {
		t.Errorf("after the last: %q, %v, more %t", e.Raw, err, r.More())
	}
}

func TestResetStartsAfresh(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: a\r\rdata: half"), 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	r.Reset(strings.NewReader("\n\ufeffdata: b\n\n"))
	first, err := r.Next()
	if string(first.Raw) != "\n" || err != nil {
		t.Errorf("first event %q, %v, want a blank line", first.Raw, err)
	}
	r.Reset(strings.NewReader("\ufeffdata: b\n\n"))
	if e, err := r.Next(); string(e.Data) != "b" || err != nil {
		t.Errorf("data %q, %v, want b", e.Data, err)
	}
}

func TestReadingAllocatesNothingPerEvent(t *testing.T) {
	stream := bytes.Repeat([]byte("event: delta\ndata: {\"x\":1}\n\ndata: two\ndata: lines\n\n"), 200)
	src := bytes.NewReader(stream)
	r := sse.NewReader(src, 0)
	allocs := testing.AllocsPerRun(20, func() {
		src.Reset(stream)
		r.Reset(src)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
			r.More()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations for 400 events, want 0", allocs)
	}
}

func TestClonesRemainWhenTheReaderGoesOn(t *testing.T) {
	const text = "event: one\nid: 1\ndata: first\n\nevent: two\nid: 2\ndata: a\ndata: b\n\nevent: three\ndata:\n\n: only a comment\n\n"
	r := sse.NewReader(iotest.OneByteReader(strings.NewReader(strings.Repeat(text, 2000))), 1<<10)
	var clones []sse.Event
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		c := e.Clone()
		if (c.Data == nil) != (e.Data == nil) || (c.Type == nil) != (e.Type == nil) || (c.ID == nil) != (e.ID == nil) {
			t.Fatalf("%+v is copied as %+v", e, c)
		}
		clones = append(clones, c)
	}
	for i, want := range []sse.Event{
		{Raw: []byte("event: one\nid: 1\ndata: first\n\n"), Type: []byte("one"), ID: []byte("1"), Data: []byte("first")},
		{Raw: []byte("event: two\nid: 2\ndata: a\ndata: b\n\n"), Type: []byte("two"), ID: []byte("2"), Data: []byte("a\nb")},
		{Raw: []byte("event: three\ndata:\n\n"), Type: []byte("three"), Data: []byte("")},
		{Raw: []byte(": only a comment\n\n")},
	} {
		if diff := cmp.Diff(want, clones[i]); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
	}
}
