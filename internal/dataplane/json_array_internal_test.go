package dataplane

import (
	"strings"
	"testing"
)

func TestEventsBecomeAnArray(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		events []string
		end    string
		want   string
	}{
		{"nothing", nil, "", "[]"},
		{"one", []string{"data: {\"a\":1}\n\n"}, "", `[{"a":1}]`},
		{"two in one piece", []string{"data: 1\r\n\r\n: comment\n\ndata: 2\n\n"}, "", "[1,\r\n2]"},
		{"an error at the end", []string{"data: 1\n\n"}, "data: {\"error\":{}}\n\n", "[1,\r\n{\"error\":{}}]"},
		{"only an error", nil, "data: 2\n\n", "[2]"},
	} {
		var a jsonArrayWriter
		var got strings.Builder
		for _, e := range tt.events {
			got.WriteString(string(a.take([]byte(e))))
		}
		if got.WriteString(string(a.close([]byte(tt.end)))); got.String() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got.String(), tt.want)
		}
	}
	for query, want := range map[string]bool{"": false, "alt=sse": true, "key=k&alt=sse": true, "alt=json": false, "%zz": false} {
		if wantsEvents(query) != want {
			t.Errorf("wantsEvents(%q) = %t", query, !want)
		}
	}
}
