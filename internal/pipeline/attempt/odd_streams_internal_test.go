package attempt

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"modelgate/internal/pipeline/framing"
)

// maxOddStreams is the number of recorded streams of each dialect that are framed
// in other ways.
const maxOddStreams = 10

// oddFramings write a stream in other ways that mean the same. Its lines end with
// a line feed and its events with a blank line.
var oddFramings = map[string]func(string) string{
	"CRLF":       func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"CR":         func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
	"BOM":        func(s string) string { return "\ufeff" + s },
	"no space":   func(s string) string { return strings.ReplaceAll(s, "data: ", "data:") },
	"cut end":    func(s string) string { return strings.TrimSuffix(s, "\n") },
	"blank":      func(s string) string { return "\n\n" + strings.ReplaceAll(s, "\n\n", "\n\n\n\n") },
	"comments":   func(s string) string { return ": first\n\n" + strings.ReplaceAll(s, "\n\n", "\n: inside\n\n:\n\n") },
	"fields":     func(s string) string { return strings.ReplaceAll(s, "\n\n", "\nid: 7\nretry: 3000\nother: x\n\n") },
	"empty data": func(s string) string { return "data\n\n" + strings.ReplaceAll(s, "\n\n", "\n\ndata:\n\ndata: \n\n") },
	"only ids":   func(s string) string { return "retry: 1\n\n" + strings.ReplaceAll(s, "\n\n", "\n\nid: 1\n\n") },
	"late names": lateNames,
	"data lines": dataLines,
	"spaces":     func(s string) string { return strings.ReplaceAll(s, "}\n\n", "} \t \n\n") },
	"no DONE":    withoutTerminator,
	"DONE twice": func(s string) string {
		return strings.Replace(s, "data: [DONE]\n\n", "data: [DONE]\n\ndata: [DONE]\n\n", 1)
	},
	"DONE last": func(s string) string { return strings.Replace(s, "data: [DONE]\n\n", "data: [DONE] \n\n", 1) },
	"large":     largeEvents,
}

// withoutTerminator leaves out the terminator of chat after a finish reason, which
// ends a stream too.
func withoutTerminator(s string) string {
	if !strings.Contains(s, `"finish_reason":"`) {
		return s
	}
	return strings.Replace(s, "data: [DONE]\n\n", "", 1)
}

// lateNames puts the type of each event after its data.
func lateNames(s string) string {
	var out strings.Builder
	for event := range strings.SplitSeq(strings.TrimSuffix(s, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\n")
		if ok && strings.HasPrefix(name, "event:") && !strings.Contains(data, "\n") {
			event = data + "\n" + name
		}
		out.WriteString(event + "\n\n")
	}
	return out.String()
}

// dataLines spreads JSON over three fields data.
func dataLines(s string) string { return mapData(s, "data: {\ndata: ", "\ndata: }\n") }

// largeEvents pads each event by 70 KB of white space.
func largeEvents(s string) string { return mapData(s, "data: {"+strings.Repeat(" ", 70<<10), "}\n") }

// mapData writes the braces of each event's JSON in another way.
func mapData(s, begin, end string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		data, ok := strings.CutPrefix(line, "data: {")
		data, closed := strings.CutSuffix(data, "}\n")
		if !ok || !closed {
			out.WriteString(line)
			continue
		}
		out.WriteString(begin + data + end)
	}
	return out.String()
}

// Every way to frame a stream gives every client the same, and the tap of a
// stream that passes reads the same.
func TestFramingOfStreamsChangesNothing(t *testing.T) {
	t.Parallel()
	recorded := mustRecordedStreams(t, "stream", maxOddStreams)
	for i := range cutDialects {
		d := &cutDialects[i]
		if d.media == framing.MediaBinary {
			continue
		}
		if len(recorded[d.api]) == 0 {
			t.Fatalf("no recorded streams of %s", d.api)
		}
		for _, s := range recorded[d.api] {
			normal := strings.ReplaceAll(string(s.body), "\r\n", "\n")
			if normal = strings.TrimRight(normal, "\n") + "\n\n"; strings.Contains(normal, "\r") || strings.Contains(normal, "\n\n\n") {
				t.Errorf("%s: the recording has a framing of its own", s.name)
				continue
			}
			for _, c := range cutClients {
				t.Run(d.name+" for "+c.name+"/"+s.name, func(t *testing.T) {
					way := translateCut
					if c.name == d.name {
						way = forwardCut
					}
					want, wantTap := way(d, c.client, []byte(normal), nil)
					for name, frame := range oddFramings {
						got, tap := way(d, c.client, []byte(frame(normal)), nil)
						if c.name != d.name && !bytes.Equal(got, want) {
							t.Errorf("%s: the client gets\n%.3000s\nwant\n%.3000s", name, got, want)
						}
						seen, wanted := *tap.Info(), *wantTap.Info()
						if c.name == d.name {
							seen.Written, wanted.Written = 0, 0 // an estimate, by bytes
							seen.Terminated, wanted.Terminated = false, false
						}
						if !reflect.DeepEqual(seen, wanted) {
							t.Errorf("%s: the tap has read\n%+v, want\n%+v", name, seen, wanted)
						}
					}
				})
			}
		}
	}
}

// Streams mean the same however their bytes arrive.
func TestStreamsThatArriveByTheByteChangeNothing(t *testing.T) {
	t.Parallel()
	recorded := mustRecordedStreams(t, "stream", 3)
	for i := range cutDialects {
		d := &cutDialects[i]
		for _, s := range recorded[d.api] {
			for _, c := range cutClients {
				if c.name == d.name {
					continue
				}
				want, _ := translateCut(d, c.client, s.body, nil)
				if got, _ := translateFrom(d, c.client, iotest.OneByteReader(bytes.NewReader(s.body))); !bytes.Equal(got, want) {
					t.Errorf("%s for %s, %s: the client gets\n%.3000s\nwant\n%.3000s", d.name, c.name, s.name, got, want)
				}
			}
		}
	}
}
