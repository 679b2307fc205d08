package pipeline

// setBytes replaces the provider's body with b.
func (r *Response) setBytes(b []byte) {
	r.jsonHead()
	r.Bytes = b
}

// edited removes the headers that describe the provider's exact bytes.
func (r *Response) edited() {
	r.Header = r.Header.Clone()
	for _, name := range bodyHeaders {
		delete(r.Header, name)
	}
	r.Length = -1
}

// jsonHead sets the headers of a JSON response made by the gateway.
func (r *Response) jsonHead() { r.head("application/json") }

// asStream sets the headers of a stream.
func (r *Response) asStream(contentType string) { r.head(contentType) }

func (r *Response) head(contentType string) {
	r.edited()
	r.Header["Content-Type"] = []string{contentType}
}

// bodyHeaders are the headers that describe the exact bytes of a provider's
// body.
var bodyHeaders = [...]string{"Content-Length", "Content-Encoding", "Content-Md5", "Content-Digest", "Digest", "Repr-Digest", "Etag", "Accept-Ranges"}

// setTapped sets a translated body in the response, and passes it to the tap.
func (r *Response) setTapped(body []byte) {
	r.setBytes(body)
	r.Tap.Body(body)
}
