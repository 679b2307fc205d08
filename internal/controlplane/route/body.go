package route

import (
	"io"
	"net/http"

	"modelgate/internal/apierr"
)

// maxBody bounds a request to the control plane, in bytes.
const maxBody = 4 << 20

func (r *Route) maxBody() int64 {
	if r.MaxBody > 0 {
		return r.MaxBody
	}
	return maxBody
}

// checkBody refuses what no handler is to see.
func (a *API) checkBody(r *http.Request, route *Route, c *Caller) error {
	if err := checkText(r, c.body); err != nil || route.Open || route.Data {
		return err
	}
	return a.Off.refuses(c.Identity, c.body)
}

func readBody(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "the request's body ended early").WithCause(err)
	}
	if int64(len(body)) > limit {
		return nil, apierr.New(apierr.TooLarge, "the request's body is larger than %d bytes", limit)
	}
	return body, nil
}
