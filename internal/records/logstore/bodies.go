package logstore

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"modelgate/internal/records/reqlog"
)

// The bodies of an entry are encoded as:
//
//	1 byte    encoding of the data: plain or compressed
//	twice     for request and response:
//	          uvarint flags, type as uvarint length and bytes,
//	          varint size, uvarint length of the data
//	the rest  the data of both, concatenated
//
// The size of the uncompressed data is therefore known before it is decompressed.
const (
	bodiesRaw  = 1
	bodiesZstd = 2
)

// Flags of a body.
const (
	bodyThere = 1 << iota // has data, possibly empty
	bodyCut
)

// maxBody is the limit of the stored data of one body, in bytes. Longer data is cut.
const maxBody = 2 << 20

// Shorter data is not compressed. In a ledger record it is written and read only once,
// while a client waits for the end of its response; in the log it stays.
const (
	rowRaw   = 4 << 10
	tableRaw = 128
)

// packers returns the compressor, which works on a few bodies at a time: each takes
// about 1 MB.
var packers = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(128<<10),
		zstd.WithEncoderConcurrency(codecConcurrency()), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // invalid options
	}
	return e
})

// unpackers returns the decompressor, which never writes beyond the capacity of its
// output.
var unpackers = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(codecConcurrency()), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(2*maxBody), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic(err)
	}
	return d
})

func codecConcurrency() int { return min(4, runtime.GOMAXPROCS(0)) }

// bodiesOf returns the bodies of e to store, nil for none.
func bodiesOf(e *reqlog.Entry) *reqlog.Bodies {
	if e.Level != reqlog.LevelFull {
		return nil
	}
	return e.Bodies
}

// appendBodies appends b in encoded form. Data of at least raw bytes is compressed.
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

// plain pools buffers for the data of both bodies.
var plain = sync.Pool{New: func() any { return new([]byte) }}

// appendBody appends the header of a body, and returns the data to store.
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

// parseBodies decodes the output of appendBodies. It does not retain b.
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

// readBody decodes the header of a body, and returns the length of its data.
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
