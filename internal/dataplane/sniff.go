package dataplane

import (
	"bytes"
	"io"
	"strings"
	"sync/atomic"

	"modelgate/internal/dialect"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

// maxSniff is the limit of what is stored of a pass-through response to read
// its usage.
const maxSniff = 1 << 20

// maxDecoders is the limit of pass-through responses that are decompressed at a
// time: each holds a window of up to 8 MB. The usage of further ones is
// estimated.
const maxDecoders = 64

// sniffer passes a pass-through response to its tap without changing it. A
// compressed one is decompressed in parallel. Responses that are too long or of
// an unknown kind are not read.
type sniffer struct {
	reader lineReader
	coded  *io.PipeWriter // of a compressed response; nil if it is not compressed
	done   chan struct{}  // closed when the compressed response has been read
	in     *atomic.Int32  // number of responses being decompressed
}

// newSniffer returns a sniffer for res. decoding is the number of responses
// being decompressed.
func newSniffer(res *exchange.Response, decoding *atomic.Int32) *sniffer {
	s := &sniffer{reader: lineReader{tap: res.Tap}}
	switch media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); strings.ToLower(strings.TrimSpace(media)) {
	case "text/event-stream":
		s.reader.events = true
	case "application/json", "":
	default:
		s.reader.blind = !strings.HasSuffix(media, "+json")
	}
	coding := res.Header.Get("Content-Encoding")
	switch {
	case s.reader.blind:
	case !contentcoding.IsIdentity(coding):
		s.decode(coding, res.MaxDecoded, decoding)
	case res.Length > maxSniff:
		s.reader.blind = !s.reader.events
	}
	return s
}

// decode starts decompression. Decoders read from a reader, while the response
// is written as it arrives, so a goroutine connects them; close waits for it.
func (s *sniffer) decode(coding string, limit int64, decoding *atomic.Int32) {
	if decoding.Add(1) > maxDecoders {
		decoding.Add(-1)
		s.reader.blind = true
		return
	}
	var src *io.PipeReader
	src, s.coded = io.Pipe()
	s.done, s.in = make(chan struct{}), decoding
	go func() {
		defer close(s.done)
		err := errPanic // of a decoder, whose input a provider chose
		defer func() {
			recover()
			s.reader.blind = s.reader.blind || err != nil
			src.CloseWithError(err) // further writes return at once
		}()
		err = s.reader.readAll(coding, src, limit)
	}()
}

// write passes the next bytes of the response.
func (s *sniffer) write(b []byte) {
	if s.coded != nil {
		s.coded.Write(b)
		return
	}
	s.reader.write(b)
}

// close passes a JSON response, which is complete now, to the tap.
func (s *sniffer) close() {
	if s.coded != nil {
		s.coded.Close()
		<-s.done
		s.in.Add(-1)
	}
	s.reader.close()
}

// lineReader reads a response without content coding.
type lineReader struct {
	tap    dialect.Tap
	events bool
	line   []byte // of a stream: the line so far; of JSON: the body so far
	blind  bool
}

// readAll reads a compressed response to its end.
func (s *lineReader) readAll(coding string, src io.Reader, limit int64) error {
	r, err := contentcoding.NewReader(coding, src, limit)
	if err != nil {
		return err
	}
	defer r.Close()
	var buf [4 << 10]byte
	for !s.blind {
		n, err := r.Read(buf[:])
		s.write(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return bytes.ErrTooLarge
}

func (s *lineReader) write(b []byte) {
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

// lineEnd returns the end of the first line of b, or -1. Searching for each of
// the two line ends in turn is several times as fast as searching for either.
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

func (s *lineReader) keep(b []byte) {
	if len(s.line)+len(b) > maxSniff {
		s.blind, s.line = true, nil
		return
	}
	s.line = append(s.line, b...)
}

// endLine handles one line of a stream. Providers write an event's data in a
// single line.
func (s *lineReader) endLine() {
	if data, ok := bytes.CutPrefix(s.line, []byte("data:")); ok {
		s.tap.Event(sse.Event{Data: bytes.TrimPrefix(data, []byte(" "))})
	}
	s.line = s.line[:0]
}

// close passes a JSON response to the tap.
func (s *lineReader) close() {
	if !s.blind && !s.events && len(s.line) > 0 {
		s.tap.Body(s.line)
	}
}
