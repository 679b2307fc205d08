package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"

	"modelgate/internal/simulator"
)

// keepBody is the number of bytes of a body that are recorded.
const keepBody = 1 << 20

// A tap is the body of a request. It records what is read through it.
type tap struct {
	io.ReadCloser
	header http.Header // as sent
	digest hash.Hash
	size   int64
	kept   []byte
}

func newTap(r *http.Request) *tap {
	return &tap{ReadCloser: r.Body, header: r.Header.Clone(), digest: sha256.New()}
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.digest.Write(p[:n])
	t.size += int64(n)
	if room := keepBody - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(n, room)]...)
	}
	return n, err
}

// withBytes returns a body of these bytes, which were read from body. What a tap
// has recorded remains.
func withBytes(body io.ReadCloser, read []byte) io.ReadCloser {
	content := io.NopCloser(bytes.NewReader(read))
	if t, ok := body.(*tap); ok {
		return &tap{ReadCloser: content, header: t.header, digest: sha256.New()}
	}
	return content
}

// request returns the record of a request that has ended.
func (t *tap) request(o simulator.Outcome) Request {
	return Request{
		Method: o.Request.Method, URI: o.Request.RequestURI, Header: t.header, Time: o.Began,
		Body: t.kept, Size: t.size, SHA256: hex.EncodeToString(t.digest.Sum(nil)),
		Canceled: !o.CanceledAt.IsZero(), CanceledAt: o.CanceledAt,
	}
}
