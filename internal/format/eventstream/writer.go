package eventstream

import (
	"encoding/binary"
	"hash/crc32"
)

// Append appends a message with its checksums. A name must be 1 to 255 bytes
// long and a Text at most 65535 (a UUID 16); longer ones are cut.
func Append(dst []byte, headers []Header, payload []byte) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, preludeSize)...)
	for i := range headers {
		dst = appendHeader(dst, &headers[i])
	}
	binary.BigEndian.PutUint32(dst[from+4:], uint32(len(dst)-from-preludeSize))
	return seal(append(dst, payload...), from)
}

// seal sets the length and the checksums of the message that begins at from and
// has everything else.
func seal(dst []byte, from int) []byte {
	prelude := dst[from : from+preludeSize]
	binary.BigEndian.PutUint32(prelude, uint32(len(dst)-from+4))
	binary.BigEndian.PutUint32(prelude[8:], crc32.ChecksumIEEE(prelude[:8]))
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[from:]))
}

// AppendWith appends message, which must be one that a [Reader] returned, with
// another payload.
func AppendWith(dst, message, payload []byte) []byte {
	from := len(dst)
	dst = append(dst, message[:preludeSize+int(binary.BigEndian.Uint32(message[4:]))]...)
	dst = append(dst, payload...)
	return seal(dst, from)
}

func appendHeader(dst []byte, h *Header) []byte {
	name := h.Name[:min(len(h.Name), 255)]
	dst = append(append(dst, byte(len(name))), name...)
	switch h.Kind {
	case Bool:
		if h.Int != 0 {
			return append(dst, wireTrue)
		}
		return append(dst, wireFalse)
	case Byte:
		return append(dst, wireByte, byte(h.Int))
	case Short:
		return binary.BigEndian.AppendUint16(append(dst, wireShort), uint16(h.Int))
	case Int:
		return binary.BigEndian.AppendUint32(append(dst, wireInt), uint32(h.Int))
	case Long:
		return binary.BigEndian.AppendUint64(append(dst, wireLong), uint64(h.Int))
	case Timestamp:
		return binary.BigEndian.AppendUint64(append(dst, wireTimestamp), uint64(h.Int))
	case UUID:
		var id [16]byte
		copy(id[:], h.Text)
		return append(append(dst, wireUUID), id[:]...)
	case Bytes:
		return appendText(append(dst, wireBytes), h.Text)
	}
	return appendText(append(dst, wireString), h.Text)
}

func appendText(dst []byte, text string) []byte {
	text = text[:min(len(text), 1<<16-1)]
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(text))), text...)
}
