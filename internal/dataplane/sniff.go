package dataplane

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/pipeline"
	"modelgate/internal/sse"
)

// maxSniff bounds what is kept of a passed-through answer to read its usage.
const maxSniff = 1 << 20

// sniffer shows a passed-through answer to its tap without touching it.
// Answers that are too long, or of a kind it can't read, go unread.
type sniffer struct {
	tap     dialect.Tap
	events  bool
	gzipped bool
	line    []byte // of a stream: the line so far; of JSON: the body so far
	blind   bool
}

func newSniffer(res *pipeline.Response) *sniffer {
	s := &sniffer{tap: res.Tap}
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(media) {
	case "text/event-stream":
		s.events = true
	case "application/json":
	default:
		s.blind = true
	}
	switch res.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		s.gzipped = true
		s.blind = s.blind || s.events
	default:
		s.blind = true
	}
	if res.Length > maxSniff {
		s.blind = s.blind || !s.events
	}
	return s
}

func (s *sniffer) write(b []byte) {
	if s.blind {
		return
	}
	if !s.events {
		s.keep(b)
		return
	}
	for {
		i := lineEnd(b)
		if i < 0 {
			s.keep(b)
			return
		}
		s.keep(b[:i])
		s.endLine()
		b = b[i+1:]
	}
}

// lineEnd returns where the first line of b ends, or -1. Searching for each of
// the two ends in turn is several times as fast as for either.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

func (s *sniffer) keep(b []byte) {
	if len(s.line)+len(b) > maxSniff {
		s.blind, s.line = true, nil
		return
	}
	s.line = append(s.line, b...)
}

// endLine shows one line of a stream. Providers write an event's data in one.
func (s *sniffer) endLine() {
	if data, ok := bytes.CutPrefix(s.line, []byte("data:")); ok {
		s.tap.Event(sse.Event{Data: bytes.TrimPrefix(data, []byte(" "))})
	}
	s.line = s.line[:0]
}

// close shows a JSON answer, now that it is whole.
func (s *sniffer) close() {
	if s.blind || s.events || len(s.line) == 0 {
		return
	}
	if !s.gzipped {
		s.tap.Body(s.line)
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(s.line))
	if err != nil {
		return
	}
	if body, err := io.ReadAll(io.LimitReader(z, 8*maxSniff)); err == nil {
		s.tap.Body(body)
	}
}
