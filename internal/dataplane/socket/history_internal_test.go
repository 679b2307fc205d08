package socket

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"modelgate/internal/base/bytepool"
)

func TestHistoryIsBounded(t *testing.T) {
	pool := bytepool.New(1 << 20)
	h := newHistory(pool.Organisation("o"))
	h.limit = 1000
	var before *pastTurn
	for i := range 30 {
		turn := &pastTurn{before: before, items: bytes.Repeat([]byte("x"), 100)}
		h.add(fmt.Sprint(i), turn)
		if h.held > h.limit || pool.Used() != h.held {
			t.Fatalf("after %d turns %d bytes are held and %d counted", i+1, h.held, pool.Used())
		}
		h.release(before)
		before, _ = h.find(fmt.Sprint(i))
	}
	h.release(before)
	h.add("large", &pastTurn{items: make([]byte, 2000)})
	if _, ok := h.find("large"); ok {
		t.Error("a turn above the limit is kept")
	}
	h.close()
	if h.held != 0 || pool.Used() != 0 {
		t.Errorf("after the end %d bytes are held and %d counted", h.held, pool.Used())
	}
	if h.add("late", &pastTurn{}); len(h.turns) != 0 {
		t.Error("a turn is kept after the end")
	}
}

// What is held is what can be reached, whatever is added, continued and forgotten.
func TestHistoryHoldsWhatCanBeReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(nil)
		h.limit = 50
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(h.order) > 0 && rapid.Bool().Draw(t, "drop") {
				h.drop(rapid.SampledFrom(h.order).Draw(t, "id"))
				continue
			}
			turn := &pastTurn{items: make([]byte, rapid.IntRange(0, 20).Draw(t, "size"))}
			if len(h.order) > 0 && rapid.Bool().Draw(t, "continues") {
				turn.before, _ = h.find(rapid.SampledFrom(h.order).Draw(t, "before"))
			}
			h.add(fmt.Sprint(i), turn)
			h.release(turn.before)
		}
		reached, sum := map[*pastTurn]bool{}, int64(0)
		for _, one := range h.turns {
			for ; one != nil && !reached[one]; one = one.before {
				reached[one], sum = true, sum+int64(len(one.items))
			}
		}
		if sum != h.held || sum > h.limit || len(h.order) != len(h.turns) {
			t.Fatalf("%d bytes can be reached, %d are held; %d ids, %d turns", sum, h.held, len(h.order), len(h.turns))
		}
	})
}

func TestItemsOfAChainAreInOrder(t *testing.T) {
	first := &pastTurn{items: []byte(`1,2`)}
	third := &pastTurn{before: &pastTurn{before: first}, items: []byte(`3`)}
	for want, input := range map[string]string{`[1,2,3,4]`: `4`, `[1,2,3]`: ``} {
		if got := third.appendItems(nil, []byte(input)); string(got) != want {
			t.Errorf("items %s, want %s", got, want)
		}
	}
	if got := (&pastTurn{}).appendItems(nil, nil); string(got) != "[]" {
		t.Errorf("items %s, want none", got)
	}
}

// However a stream is cut, its events are the same.
func TestEventsAreTheSameHoweverTheStreamIsCut(t *testing.T) {
	const stream = ": comment\n\nevent: a\ndata: {\"x\":1}\n\ndata:{}\r\n\r\nevent: b\r\ndata: {\ndata: \"y\":2}\n\n\n\ndata: [DONE]\n\n"
	want := `a={"x":1} ={} b={|"y":2} =[DONE] `
	rapid.Check(t, func(t *rapid.T) {
		var s eventSplitter
		var got strings.Builder
		for rest := []byte(stream); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			err := s.split(bytes.Clone(rest[:n]), func(name, data []byte) error {
				fmt.Fprintf(&got, "%s=%s ", name, bytes.ReplaceAll(data, []byte("\n"), []byte("|")))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got.String() != want {
			t.Fatalf("events %s, want %s", got.String(), want)
		}
	})
}

func TestReasoningThatWasNotStoredIsNotReplayed(t *testing.T) {
	w := &turnWriter{}
	w.readEnd([]byte(`{"response":{"id":"r","output":[{"type":"reasoning","id":"rs","summary":[]},
		{"type":"reasoning","encrypted_content":"e"},{"type":"reasoning","content":[{"text":"t"}]},{"type":"message"}]}}`))
	if got := string(w.output); !strings.HasPrefix(got, `{"type":"reasoning","encrypted_content":"e"},`) || !strings.HasSuffix(got, `{"type":"message"}`) ||
		!strings.Contains(got, `"content"`) {
		t.Errorf("the output is %s", got)
	}
}

func TestReasonsOfCloseFramesFit(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 123), strings.Repeat("x", 124), strings.Repeat("é", 100), strings.Repeat("€x", 50)} {
		got := closeReason(text)
		if len(got) > 123 || len(text) <= 123 && got != text || strings.ToValidUTF8(got, "?") != got {
			t.Errorf("closeReason(%q) = %q", text, got)
		}
	}
}
