package batches

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// TestLinesAreReadWhole reads lines of all lengths around that of the buffer.
func TestLinesAreReadWhole(t *testing.T) {
	const buffer = 64 << 10
	var want []string
	for _, n := range []int{0, 1, buffer - 2, buffer - 1, buffer, buffer + 1, 2*buffer - 1, 2 * buffer, 3*buffer + 7, 0, 5} {
		want = append(want, strings.Repeat("x", n))
	}
	for _, end := range []string{"\n", "\r\n"} {
		for _, last := range []string{"", end} { // with and without a line break at the end
			in := strings.Join(want, end) + last
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "in halves": iotest.HalfReader(strings.NewReader(in)), "error with data": iotest.DataErrReader(strings.NewReader(in))} {
				reader := newLineReader(r)
				for i, line := range want {
					text, number, err := reader.next()
					if err != nil || number != i+1 || string(text) != line {
						t.Fatalf("%s, end %q: line %d has %d bytes and the number %d, want %d: %v", name, end, i+1, len(text), number, len(line), err)
					}
				}
				if _, number, err := reader.next(); err != io.EOF || number != len(want) {
					t.Errorf("%s: after the last line: number %d, %v", name, number, err)
				}
			}
		}
	}
}

func TestALineOfTheLimitIsRead(t *testing.T) {
	reader := newLineReader(strings.NewReader("a\n" + strings.Repeat("x", maxLine-1) + "\n" + strings.Repeat("y", maxLine+1) + "\n"))
	for i, want := range []int{1, maxLine - 1} {
		if text, number, err := reader.next(); err != nil || number != i+1 || len(text) != want {
			t.Fatalf("line %d: %d bytes, number %d, %v", i+1, len(text), number, err)
		}
	}
	if _, number, err := reader.next(); !errors.Is(err, errLineTooLong) || number != 3 {
		t.Errorf("a line above the limit: number %d, %v", number, err)
	}
}

func TestAnErrorOfReadingIsNotTheEnd(t *testing.T) {
	reader := newLineReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc\n"))))
	if text, _, err := reader.next(); err == nil || err == io.EOF {
		t.Errorf("%q, %v", text, err)
	}
}

// TestSpansNameTheLinesOfASet compares random sets with the spans of their numbers.
func TestSpansNameTheLinesOfASet(t *testing.T) {
	for range 200 {
		var numbers []int
		for n := range 300 {
			if rand.N(3) > 0 {
				numbers = append(numbers, n+1)
			}
		}
		var s lineSet
		s.addAll(spansOf(numbers))
		for n := range 400 {
			if want := slices.Contains(numbers, n); s.has(n) != want {
				t.Fatalf("%d is in the set: %t, want %t", n, s.has(n), want)
			}
		}
	}
	if got := spansOf([]int{1, 2, 3, 63, 64, 65, 70}); !slices.Equal(got, []span{{1, 3}, {63, 65}, {70, 70}}) {
		t.Errorf("%v", got)
	}
	if spansOf(nil) != nil {
		t.Error("no lines have spans")
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}`))
	for _, text := range []string{"", "null", "[]", "{", `{"custom_id":1}`, "\xef\xbb\xbf{}", `{"body":null}`, `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":7,"stream":[]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, fault := parseLine(text, 7, "/v1/chat/completions")
		if fault != nil && (fault.Code == "" || fault.Message == "" || fault.Line == nil || *fault.Line != 7) {
			t.Errorf("the fault %+v", fault)
		}
		if fault == nil && (l.CustomID == "" || l.Method != "POST" || l.URL != "/v1/chat/completions" || !bytes.HasPrefix(l.Body, []byte("{"))) {
			t.Errorf("the line %+v", l)
		}
		if lines, faults, err := validate(bytes.NewReader(text), "/v1/chat/completions", 10); err != nil || faults == nil && lines == 0 {
			t.Errorf("%d lines, faults %v: %v", lines, faults, err)
		}
	})
}

// states are all states of a batch.
var states = []vendorbatch.Status{
	vendorbatch.Validating, vendorbatch.InProgress, vendorbatch.Finalizing, vendorbatch.Cancelling, vendorbatch.Completed, vendorbatch.Failed, vendorbatch.Expired,
	vendorbatch.Cancelled,
}

// TestABatchMovesForwards takes random walks through the states that canMove allows.
func TestABatchMovesForwards(t *testing.T) {
	for range 2000 {
		o := store.Object{State: string(vendorbatch.Validating)}
		var b vendorbatch.Batch
		now := time.Unix(1_000_000, 0)
		seen := map[vendorbatch.Status]int64{}
		for range 20 {
			from, to := vendorbatch.Status(o.State), states[rand.N(len(states))]
			now = now.Add(time.Second)
			if !canMove(from, to) {
				if !from.Ended() && from != vendorbatch.Cancelling && slices.Index(states, to) > slices.Index(states, from) {
					t.Fatalf("a batch may not go from %s to %s", from, to)
				}
				continue
			}
			if from.Ended() || from == vendorbatch.Cancelling && !to.Ended() && to != from || from == vendorbatch.Cancelling && to == vendorbatch.Completed {
				t.Fatalf("a batch may go from %s to %s", from, to)
			}
			if move(&o, &b, to, now); seen[to] == 0 {
				seen[to] = now.Unix()
			}
			if to.Ended() != !o.EndedAt.IsZero() || vendorbatch.Status(o.State) != to || o.UpdatedAt != now {
				t.Fatalf("after %s: %+v", to, o)
			}
		}
		for state, at := range map[vendorbatch.Status]int64{
			vendorbatch.InProgress: b.InProgressAt, vendorbatch.Finalizing: b.FinalizingAt, vendorbatch.Cancelling: b.CancellingAt, vendorbatch.Completed: b.CompletedAt,
			vendorbatch.Failed: b.FailedAt, vendorbatch.Expired: b.ExpiredAt, vendorbatch.Cancelled: b.CancelledAt,
		} {
			if at != seen[state] {
				t.Fatalf("%s was reached at %d, and the batch has %d", state, seen[state], at)
			}
		}
	}
}
