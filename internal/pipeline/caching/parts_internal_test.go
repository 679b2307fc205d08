package caching

import (
	"testing"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/format/jsonedit"
)

// The text of a part must be in it once: of two, providers read one and the
// gateway might compare the other.
func TestPartWithTwoTextsIsNotBlanked(t *testing.T) {
	for _, tt := range []struct {
		part, blank, text string
		found, ok         bool
	}{
		{`{"type":"text","text":"a"}`, `{"type":"text","text":""}`, "a", true, true},
		{`{"text":"a","x":1}`, `{"text":"","x":1}`, "a", true, true},
		{`{"type":"text","text":"a","text":"b"}`, "", "", false, false},
		{`{"type":"text","text":"a","text":"b","text":"c"}`, "", "", false, false},
		{`{"type":"text","text":7}`, "", "", false, false},
		{`{"type":"text"}`, "", "", false, true},
		{`{"type":"image","text":"a"}`, "", "", false, true},
	} {
		v, err := jsonedit.ParseValue([]byte(tt.part))
		if err != nil {
			t.Fatal(err)
		}
		blank, text, found, ok := blankPart(v)
		if string(blank) != tt.blank || text != tt.text || found != tt.found || ok != tt.ok {
			t.Errorf("%s: %s, %q, %t, %t; want %s, %q, %t, %t", tt.part, blank, text, found, ok, tt.blank, tt.text, tt.found, tt.ok)
		}
	}
}

func TestReaderHasMoreWhileChunksAreLeft(t *testing.T) {
	s := &sharedResponse{form: respcache.Raw, first: 3, chunks: make([]chunk, 2)}
	for next, want := range map[int]bool{3: true, 4: true, 5: false} {
		if got := (&sharedReader{s: s, next: next}).More(); got != want {
			t.Errorf("of chunks 3 and 4, from %d on there are more: %t, want %t", next, got, want)
		}
	}
}
