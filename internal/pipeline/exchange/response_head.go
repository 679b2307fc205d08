package exchange

// SetBytes replaces the provider's body with b.
func (r *Response) SetBytes(b []byte) {
	r.JsonHead()
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

// JsonHead sets the headers of a JSON response made by the gateway.
func (r *Response) JsonHead() { r.Head("application/json") }

// AsStream sets the headers of a stream.
func (r *Response) AsStream(contentType string) { r.Head(contentType) }

// Head sets the headers of a body that the gateway makes in place of the provider's.
func (r *Response) Head(contentType string) {
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
