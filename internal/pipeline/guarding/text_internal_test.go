package guarding

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

func TestPartsAreNumberedWithinTheirMessage(t *testing.T) {
	texts := []bodytext.Text{
		{Role: "system", Message: -1}, {Role: "user", Message: 1}, {Role: "user", Message: 1}, {Role: "assistant", Message: 2},
		{Role: "user", Message: 3}, {Role: "user", Message: 3}, {Role: "user", Message: 3}, {Role: "assistant", Message: 4},
	}
	r := &exchange.Request{Operation: api.Chat, Dialect: api.DialectChat}
	index, earlier := []int{0, 0, 1, 0, 0, 1, 2, 0}, []bool{true, true, true, true, false, false, false, false}
	parts := partsOf(r, bodytext.Request, texts)
	for i, p := range parts {
		if p.Index != index[i] || p.Earlier != earlier[i] {
			t.Errorf("text %d: number %d, earlier %t; want %d, %t", i, p.Index, p.Earlier, index[i], earlier[i])
		}
	}
	for i, p := range partsOf(r, bodytext.Event, []bodytext.Text{{}, {Message: 1}}) {
		if p.Role != "assistant" || p.Earlier {
			t.Errorf("text %d of a response: role %q, earlier %t", i, p.Role, p.Earlier)
		}
	}
}

// Providers send events without data, such as pings.
func TestEventsWithoutDataAreHeldLikeOthers(t *testing.T) {
	for _, data := range []string{"", "[DONE]"} {
		s := &guardedStream{form: bodytext.Event, run: &responseRun{log: new(CheckLog)}, texts: make(map[string]*streamText)}
		s.add(sse.Event{Raw: []byte("event: ping\n\n"), Data: []byte(data)})
		if len(s.queue) != 1 || s.queuedBytes != len("event: ping\n\n") || len(s.order) != 0 {
			t.Errorf("data %q: %d events, %d bytes, %d texts held", data, len(s.queue), s.queuedBytes, len(s.order))
		}
	}
}

func TestWindowsBeginWithAWord(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "word": 4, "a word": 4, "a word ": 0, "a-az09AZ_": 7, "a/a": 1, "a:a": 1, "a@a": 1, "a[a": 1, "a^a": 1, "a`a": 1, "a{a": 1, "é": 0, "éa": 1,
		" " + strings.Repeat("x", maxWord-1): maxWord - 1, strings.Repeat("x", maxWord-1): maxWord - 1,
		strings.Repeat("x", maxWord): 0, strings.Repeat("x", maxWord+9): 0,
	} {
		if got := wordLength(text); got != want {
			t.Errorf("the word at the end of %.20q… has %d bytes, want %d", text, got, want)
		}
	}
}

func TestDenialsAreDistinguishedFromFailures(t *testing.T) {
	var e *apierr.Error
	if !isDenial(apierr.New(apierr.Denied, "no"), &e) || e.Message != "no" {
		t.Error("a denial is not recognised")
	}
	if isDenial(apierr.New(apierr.Unavailable, "no"), &e) || isDenial(http.ErrAbortHandler, &e) {
		t.Error("a failure is taken for a denial")
	}
}
