package sse_test

import (
	"io"
	"strings"
	"testing"

	"modelgate/internal/format/sse"
)

// A provider that sends nothing except blank lines must not make each of them cost as much
// as an event.
func TestBlankLinesCostNoEventEach(t *testing.T) {
	for name, line := range map[string]string{"LF": "\n", "CR": "\r", "CR LF": "\r\n"} {
		stream := "data: a\n\n" + strings.Repeat(line, 1<<20) + "data: b\n\n"
		r := sse.NewReader(strings.NewReader(stream), 1<<16)
		var raw strings.Builder
		var data []string
		events := 0
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			events++
			raw.Write(e.Raw)
			if e.Data != nil {
				data = append(data, string(e.Data))
			}
		}
		if most := len(stream)/(3<<10) + 4; events > most {
			t.Errorf("%s: %d events, want at most %d", name, events, most)
		}
		if raw.String() != stream || strings.Join(data, " ") != "a b" {
			t.Errorf("%s: %d of %d bytes, data %q", name, raw.Len(), len(stream), data)
		}
	}
}

// Blank lines are joined up to the limit of an event, and returned without waiting for more.
func TestBlankLinesAreBoundedAndPrompt(t *testing.T) {
	r := sse.NewReader(strings.NewReader(strings.Repeat("\n", 2500)), 1000)
	for _, want := range []int{1000, 1000, 500} {
		if e, err := r.Next(); err != nil || len(e.Raw) != want {
			t.Fatalf("%d bytes, %v; want %d", len(e.Raw), err, want)
		}
	}
	from, to := io.Pipe()
	defer to.Close()
	go to.Write([]byte("\n\n"))
	if e, err := sse.NewReader(from, 0).Next(); err != nil || string(e.Raw) != "\n\n" {
		t.Errorf("%q, %v", e.Raw, err)
	}
}
