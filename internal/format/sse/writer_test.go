package sse_test

import (
	"testing"

	"modelgate/internal/format/sse"
)

// https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
// Lines end in CR, LF or CR LF, wherever in the data they stand.
func TestEveryLineOfDataHasItsOwnField(t *testing.T) {
	for _, tt := range []struct{ data, want string }{
		{"", "data: \n\n"},
		{"a", "data: a\n\n"},
		{"a\nb", "data: a\ndata: b\n\n"},
		{"a\rb", "data: a\ndata: b\n\n"},
		{"a\r\nb", "data: a\ndata: b\n\n"},
		{"\revent: b", "data: \ndata: event: b\n\n"},
		{"\nevent: b", "data: \ndata: event: b\n\n"},
		{"a\r", "data: a\ndata: \n\n"},
		{"a\n\rb", "data: a\ndata: \ndata: b\n\n"},
	} {
		if got := string(sse.AppendData(nil, []byte(tt.data))); got != tt.want {
			t.Errorf("AppendData of %q = %q, want %q", tt.data, got, tt.want)
		}
	}
}
