package kept

import (
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// CopyFile writes the content of a file of the workspace to the response, from wherever it
// is.
func (q *Request) CopyFile(file *store.Object) error {
	if file.ProviderID == "" {
		body, err := q.Deps.Open(q.HTTP.Context(), file)
		if err != nil {
			return err
		}
		defer body.Close()
		if _, err := io.Copy(q.W, body); err != nil {
			return StoreFailed(err)
		}
		return nil
	}
	r := q.Forwarded(file.Provider)
	r.Method, r.RequestURI, r.Body, r.ContentLength = http.MethodGet, "/v1/files/"+file.ProviderID+"/content", http.NoBody, 0
	body := &bodyOnly{to: q.W}
	c := q.From.ClientCall()
	q.From.Ask(body, r, c)
	if body.status >= 300 || c.Result.Broken {
		return apierr.New(apierr.UpstreamFailed, "the provider %s did not return the file %s", file.Provider,
			file.ProviderID).WithCode("upstream_error")
	}
	return nil
}

// bodyOnly passes on the body of a successful response.
type bodyOnly struct {
	to     io.Writer
	header http.Header
	status int
}

// Header implements [http.ResponseWriter].
func (b *bodyOnly) Header() http.Header {
	if b.header == nil {
		b.header = make(http.Header)
	}
	return b.header
}

// WriteHeader implements [http.ResponseWriter].
func (b *bodyOnly) WriteHeader(status int) { b.status = status }

// Write implements [http.ResponseWriter].
func (b *bodyOnly) Write(p []byte) (int, error) {
	if b.status >= 300 {
		return len(p), nil
	}
	return b.to.Write(p)
}
