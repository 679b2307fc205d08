package exchange

// SetBytes replaces the provider's body with b.
func (r *Response) SetBytes(b []byte) {
	r.SetHead("application/json")
	r.Bytes = b
}

// Edited removes the headers that describe the provider's exact bytes.
func (r *Response) Edited() {
	r.Header = r.Header.Clone()
	for _, name := range bodyHeaders {
		delete(r.Header, name)
	}
	r.Length = -1
}

// SetHead sets the headers of a body that the gateway makes in place of the provider's.
func (r *Response) SetHead(contentType string) {
	r.Edited()
	r.Header["Content-Type"] = []string{contentType}
}

// bodyHeaders are the headers that describe the exact bytes of a provider's
// body.
var bodyHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Md5", "Content-Digest",
	"Digest", "Repr-Digest", "Etag", "Accept-Ranges"}

// SetTapped sets a translated body in the response, and passes it to the tap.
func (r *Response) SetTapped(body []byte) {
	r.SetBytes(body)
	r.Tap.Body(body)
}
