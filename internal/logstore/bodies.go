package logstore

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"modelgate/internal/reqlog"
)

// Bodies of an exchange are, in this order:
//
//	1 byte    how the data is kept: as it is, or compressed
//	twice     of the request and of the answer:
//	          uvarint flags, type as uvarint length and bytes,
//	          varint size, uvarint length of the data
//	the rest  the data of both, one behind the other
//
// How much comes of compressed data is so known before it is unpacked.
const (
	bodiesRaw  = 1
	bodiesZstd = 2
)

// Flags of a body.
const (
	bodyThere = 1 << iota // it has data, though it may be empty
	bodyCut
)

// maxBody bounds the data of one body that is kept, in bytes. More is cut off.
const maxBody = 2 << 20

// What is shorter is not compressed: it is written once and read once in a row of
// the ledger, while a client waits for the end of its answer, but stays in the
// log.
const (
	rowRaw   = 4 << 10
	tableRaw = 128
)

// packers compresses, a few at a time: each takes about 1 MB.
var packers = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(128<<10),
		zstd.WithEncoderConcurrency(codecConcurrency()), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // of options that can't be meant
	}
	return e
})

// unpackers gives no more than what the slice that it fills has room for.
var unpackers = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(codecConcurrency()), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(2*maxBody), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return d
})

func codecConcurrency() int { return min(4, runtime.GOMAXPROCS(0)) }

// bodiesOf returns the bodies that are kept of e, nil for none.
func bodiesOf(e *reqlog.Entry) *reqlog.Bodies {
	if e.Level != reqlog.LevelFull {
		return nil
	}
	return e.Bodies
}

// appendBodies appends b, whose data is compressed from raw bytes on.
func appendBodies(dst []byte, b *reqlog.Bodies, raw int) []byte {
	how := len(dst)
	dst = append(dst, bodiesRaw)
	dst, request := appendBody(dst, &b.Request)
	dst, response := appendBody(dst, &b.Response)
	start := len(dst)
	if n := len(request) + len(response); n >= raw {
		buf := plain.Get().(*[]byte)
		*buf = append(append((*buf)[:0], request...), response...)
		dst = packers().EncodeAll(*buf, dst)
		plain.Put(buf)
		if len(dst)-start < n {
			dst[how] = bodiesZstd
			return dst
		}
	}
	return append(append(dst[:start], request...), response...)
}

// plain lends memory for the data of both bodies.
var plain = sync.Pool{New: func() any { return new([]byte) }}

// appendBody appends what is said of a body, and returns the data that is kept.
func appendBody(dst []byte, b *reqlog.Body) (out, data []byte) {
	var flags uint64
	if b.Data != nil {
		flags |= bodyThere
	}
	data = b.Data[:min(len(b.Data), maxBody)]
	if b.Cut || len(data) < len(b.Data) {
		flags |= bodyCut
	}
	dst = binary.AppendUvarint(dst, flags)
	dst = binary.AppendUvarint(dst, uint64(len(b.Type)))
	dst = append(dst, b.Type...)
	dst = binary.AppendVarint(dst, b.Size)
	return binary.AppendUvarint(dst, uint64(len(data))), data
}

// parseBodies reads what appendBodies wrote. It does not keep b.
func parseBodies(b []byte) (*reqlog.Bodies, error) {
	r := &reader{b: b}
	how := r.take(1)
	out := new(reqlog.Bodies)
	request, response := readBody(r, &out.Request), readBody(r, &out.Response)
	if r.bad || request > maxBody || response > maxBody {
		return nil, errBodies
	}
	data := make([]byte, 0, request+response)
	switch how[0] {
	case bodiesRaw:
		data = append(data, r.b[:min(len(r.b), cap(data)+1)]...)
	case bodiesZstd:
		var err error
		if data, err = unpackers().DecodeAll(r.b, data); err != nil {
			return nil, fmt.Errorf("%w: %w", errBodies, err)
		}
	default:
		return nil, fmt.Errorf("%w: unknown form", errBodies)
	}
	if len(data) != int(request+response) {
		return nil, errBodies
	}
	if out.Request.Data != nil {
		out.Request.Data = data[:request:request]
	}
	if out.Response.Data != nil {
		out.Response.Data = data[request:]
	}
	return out, nil
}

var errBodies = fmt.Errorf("%w: bodies", errDamaged)

// readBody reads what is said of a body, and returns the length of its data.
func readBody(r *reader, b *reqlog.Body) (length uint64) {
	flags := r.uvarint()
	b.Cut = flags&bodyCut != 0
	b.Type = r.text()
	b.Size = r.varint()
	length = r.uvarint()
	if flags&bodyThere != 0 {
		b.Data = []byte{}
	} else if length != 0 {
		r.fail()
	}
	return length
}
