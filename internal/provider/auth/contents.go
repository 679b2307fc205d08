package auth

import (
	"crypto/sha256"
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
)

// contents returns the hash and the length of req's body, which a signature
// covers.
func contents(req *http.Request, body []byte) (hash [sha256.Size]byte, length int64, err error) {
	if body != nil || req.Body == nil || req.Body == http.NoBody {
		return sha256.Sum256(body), int64(len(body)), nil
	}
	if req.GetBody == nil {
		return hash, 0,
			apierr.New(apierr.Unsupported,
				"this provider's requests are signed over the complete body, and this one is streamed through; send it on a unified route or in a smaller body")
	}
	r, err := req.GetBody()
	if err != nil {
		return hash, 0, err
	}
	defer r.Close()
	h := sha256.New()
	length, err = io.Copy(h, r)
	return [sha256.Size]byte(h.Sum(nil)), length, err
}
