package simulator

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// hugeMark is the text of a huge response until it is sent, when the huge text
// replaces it. It cannot appear elsewhere, since such a response contains
// nothing of the request except the model's name.
const hugeMark = "~~huge~~"

// mostBinary is the largest message of a binary stream; its length has 32 bits.
const mostBinary = 1 << 31

// deliverHuge sends a response of the requested size without holding all of it,
// or the gzip bomb.
func (x *exchange) deliverHuge(complete func(dst []byte) []byte, each func(t *stream)) {
	if x.plan.gzipBomb {
		head, tail, _ := strings.Cut(string(complete(nil)), hugeMark)
		x.sendBomb(head, tail)
		return
	}
	if !x.plan.streams(x.asked) {
		x.sendFilled(typeJSON, complete(nil))
		return
	}
	t := &stream{x: x, kind: x.protocol.kind, holds: true}
	each(t)
	t.close()
	if x.protocol.kind < framingBinary {
		x.sendFilled(x.protocol.stream, t.held)
		return
	}
	x.sendMessages(t)
}

// sendFilled sends a template in which each mark is replaced by text, up to the
// requested size. The remainder is white space at the end.
func (x *exchange) sendFilled(kind []string, template []byte) {
	pieces := bytes.Split(template, []byte(hugeMark))
	marks := len(pieces) - 1
	fixed := int64(len(template) - marks*len(hugeMark))
	rest := max(x.plan.huge-fixed, 0)
	share := rest / int64(marks)
	x.startHuge(kind, fixed+rest)
	for i, piece := range pieces {
		if !x.write(piece) || i < marks && !x.fill(x.w, share) {
			return
		}
	}
	x.write(bytes.Repeat([]byte{'\n'}, int(rest-share*int64(marks))))
}

func (x *exchange) startHuge(kind []string, size int64) {
	x.w.Header()["Content-Type"] = x.typeOf(kind)
	x.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	x.w.WriteHeader(http.StatusOK)
}

// fill writes n bytes of text and reports whether the client is still
// connected.
func (x *exchange) fill(to io.Writer, n int64) bool {
	block := []byte(strings.Repeat("simulator huge! ", 4096)) // 64 KiB
	for n > 0 {
		part := block[:min(n, int64(len(block)))]
		if _, err := to.Write(part); err != nil {
			x.recordDisconnect()
			return false
		}
		n -= int64(len(part))
	}
	return true
}

// hold keeps a frame instead of sending it. A message of a binary stream with
// the mark is stored separately, unsealed.
func (t *stream) hold(b []byte) bool {
	if t.kind >= framingBinary && bytes.Contains(b[t.start:], []byte(hugeMark)) {
		t.marked, t.markAt, t.markStart = bytes.Clone(b), len(t.held), t.start
	} else {
		t.held = append(t.held, t.seal(b)...)
	}
	t.n++
	return true
}

// sendMessages sends the held messages, and between them the marked one with
// the huge text.
func (x *exchange) sendMessages(t *stream) {
	head, tail, _ := bytes.Cut(t.marked[t.markStart:], []byte(hugeMark))
	headers := t.marked[preludeSize:t.markStart]
	const prelude, checksum = preludeSize, 4
	frame := int(min(x.plan.huge, mostBinary)) - len(t.held)
	room := max(frame-prelude-len(headers)-checksum, 4096) // for the payload
	before, after := "", ""
	text := room - len(head) - len(tail)
	if t.kind == framingChunks {
		before = `{"bytes":"`
		after = `","p":"`
		inner := (room - len(before) - len(after) - len(`"}`)) / 4 * 3
		text = inner - len(head) - len(tail)
		used := len(before) + base64.StdEncoding.EncodedLen(inner) + len(after) + len(`"}`)
		after += strings.Repeat("p", room-used) + `"}`
	}
	size := prelude + len(headers) + room + checksum
	x.startHuge(x.protocol.stream, int64(size+len(t.held)))
	if !x.write(t.held[:t.markAt]) {
		return
	}
	sum := crc32.NewIEEE()
	to := io.MultiWriter(x.w, sum)
	start := binary.BigEndian.AppendUint32(nil, uint32(size))
	start = binary.BigEndian.AppendUint32(start, uint32(len(headers)))
	start = binary.BigEndian.AppendUint32(start, crc32.ChecksumIEEE(start))
	to.Write(append(append(start, headers...), before...)) // fill notices a client that disconnected
	payload := io.WriteCloser(plainWriter{to})
	if t.kind == framingChunks {
		payload = base64.NewEncoder(base64.StdEncoding, to)
	}
	payload.Write(head)
	if !x.fill(payload, int64(text)) {
		return
	}
	payload.Write(tail)
	payload.Close()
	io.WriteString(to, after)
	if x.write(sum.Sum(nil)) {
		x.write(t.held[t.markAt:])
	}
}

// plainWriter is a writer that does not need closing.
type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }
