package simulator

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
)

const (
	bulkHead = `{"id":"chatcmpl-bulk","object":"chat.completion","created":` + created +
		`,"model":"bulk","choices":[{"index":0,"message":{"role":"assistant","content":"`
	bulkTail = `"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

	frameHead = `data: {"id":"chatcmpl-bulk","object":"chat.completion.chunk","created":` + created +
		`,"model":"bulk","choices":[{"index":0,"delta":{"role":"assistant","content":"`
	frameTail = `"},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// bombSize is the decompressed size of a gzip bomb.
const bombSize = 1 << 30

// serveBulk answers with a huge body if the plan has one. It reports whether
// it did.
func (x *exchange) serveBulk() bool {
	switch {
	case x.protocol != nil: // the response's own format is needed first
		return false
	case x.plan.gzipBomb:
		x.sendBomb(bulkHead, bulkTail)
	case x.plan.huge > 0:
		x.sendHuge()
	default:
		return false
	}
	return true
}

// sendHuge writes a response of the size without holding all of it.
func (x *exchange) sendHuge() {
	head, tail, kind := bulkHead, bulkTail, typeJSON
	if x.asked {
		head, tail, kind = frameHead, frameTail, typeStream
	}
	x.w.Header()["Content-Type"] = kind
	rest := max(x.plan.huge-int64(len(head)+len(tail)), 0)
	x.w.Header().Set("Content-Length", strconv.FormatInt(rest+int64(len(head)+len(tail)), 10))
	x.w.WriteHeader(http.StatusOK)
	block := []byte(strings.Repeat("simulator huge! ", 4096)) // 64 KiB
	ok := x.write([]byte(head))
	for ok && rest > 0 {
		n := min(rest, int64(len(block)))
		ok = x.write(block[:n])
		rest -= n
	}
	if ok {
		x.write([]byte(tail))
	}
}

// sendBomb writes gzip that is small on the wire: a head and a tail, and
// between them one compressed block of blanks many times. Each block is
// compressed separately, so that it does not refer to previous data.
func (x *exchange) sendBomb(head, tail string) {
	const step = 1 << 20
	x.w.Header()["Content-Type"] = typeJSON
	x.w.Header().Set("Content-Encoding", "gzip")
	x.w.WriteHeader(http.StatusOK)
	blanks := bytes.Repeat([]byte{' '}, step)
	block := deflated(blanks, false)
	ok := x.write([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")) && x.write(deflated([]byte(head), false))
	sum := crc32.ChecksumIEEE([]byte(head))
	rest := bombSize - len(head) - len(tail)
	for ; ok && rest >= step; rest -= step {
		ok = x.write(block)
		sum = crc32.Update(sum, crc32.IEEETable, blanks)
	}
	if !ok {
		return
	}
	end := append(blanks[:rest:rest], tail...)
	sum = crc32.Update(sum, crc32.IEEETable, end)
	foot := binary.LittleEndian.AppendUint32(deflated(end, true), sum)
	x.write(binary.LittleEndian.AppendUint32(foot, bombSize&0xffffffff))
}

func deflated(data []byte, last bool) []byte {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestCompression) // the level is a valid one
	z.Write(data)                                      // a bytes.Buffer never fails
	if last {
		z.Close()
	} else {
		z.Flush()
	}
	return b.Bytes()
}
