package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
)

// A framing is the way in which a stream is divided into frames.
type framing int

const (
	framingEvents framing = iota // server-sent events
	framingLines                 // one line of JSON each
	framingArray                 // elements of one JSON array
	framingBinary                // messages of an AWS event stream with the frame as payload
	framingChunks                // the same, with the frame in base64 inside the payload
)

// named begins the next frame. The event name is written if the framing has
// names.
func (t *stream) named(event string) []byte {
	b := t.x.out[:0]
	switch t.kind {
	case framingEvents:
		if t.x.faulty {
			b = t.preamble(b, event == "")
		}
		if event != "" {
			b = t.newline(append(append(b, "event: "...), event...))
		}
		b = append(b, "data: "...)
	case framingArray:
		if t.n == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ",\r\n"...)
		}
	case framingBinary:
		b = appendPrelude(b, "event", event)
	case framingChunks:
		b = appendPrelude(b, "event", "chunk")
	}
	t.start = len(b)
	return b
}

// seal finishes a frame.
func (t *stream) seal(b []byte) []byte {
	switch t.kind {
	case framingEvents:
		b = t.newline(b)
		if !t.last || !t.x.plan.noBlank {
			b = t.newline(b)
		}
	case framingLines:
		if !t.last || !t.x.plan.noBlank {
			b = t.newline(b)
		}
	case framingBinary:
		b = sealMessage(b)
	case framingChunks:
		if !t.exception {
			b = wrapChunk(b, t.start, t.n)
		}
		b = sealMessage(b)
	}
	if t.x.plan.badCRC == t.n+1 && t.kind >= framingBinary {
		b[len(b)-1] ^= 0xff
	}
	return b
}

// preludeSize is the size of the prelude of a message: two lengths and their
// checksum.
const preludeSize = 12

// appendPrelude appends space for the prelude, and the headers of a message.
// https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html
func appendPrelude(dst []byte, kind, name string) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, preludeSize)...)
	dst = appendHeader(dst, ":"+kind+"-type", name)
	dst = appendHeader(dst, ":content-type", "application/json")
	dst = appendHeader(dst, ":message-type", kind)
	binary.BigEndian.PutUint32(dst[start+4:], uint32(len(dst)-start-preludeSize))
	return dst
}

func appendHeader(dst []byte, name, value string) []byte {
	const text = 7
	dst = append(append(dst, byte(len(name))), name...)
	dst = binary.BigEndian.AppendUint16(append(dst, text), uint16(len(value)))
	return append(dst, value...)
}

// sealMessage fills in the length and both checksums of the message b.
func sealMessage(b []byte) []byte {
	const checksum = 4
	binary.BigEndian.PutUint32(b, uint32(len(b)+checksum))
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// wrapChunk replaces the payload from start on by an object with the payload in
// base64 and padding of varying length, as Bedrock sends it.
func wrapChunk(b []byte, start, number int) []byte {
	const padding = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	payload := append([]byte(nil), b[start:]...)
	b = append(b[:start], `{"bytes":"`...)
	b = base64.StdEncoding.AppendEncode(b, payload)
	b = append(append(b, `","p":"`...), padding[:number%len(padding)]...)
	return append(b, `"}`...)
}

// exceptional begins the frame of an exception in a binary stream.
func (t *stream) exceptional(name string) []byte {
	b := appendPrelude(t.x.out[:0], "exception", name)
	t.start, t.exception = len(b), true
	return b
}
