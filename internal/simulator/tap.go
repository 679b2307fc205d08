package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// keepBody is the number of bytes of a body that are recorded.
const keepBody = 1 << 20

// A tap records what is read through it.
type tap struct {
	io.ReadCloser
	digest hash.Hash
	size   int64
	kept   []byte
}

func newTap(body io.ReadCloser) *tap {
	return &tap{ReadCloser: body, digest: sha256.New()}
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

func (t *tap) sum() string { return hex.EncodeToString(t.digest.Sum(nil)) }
