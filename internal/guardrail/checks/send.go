package checks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
)

// Maximum sizes of responses, in bytes.
const (
	maxResponse = 1 << 20  // of partners
	maxBody     = 16 << 20 // of webhooks and modules, which may return a body
)

// outgoing is a request to a webhook or a partner.
type outgoing struct {
	method, url string
	header      http.Header
	body        []byte
	limit       int64 // of the response
	chosen      bool  // a user chose the host, so egress policies apply
	counted     bool  // by [guardrail.Input.CountRequest]
	decides     bool  // the response decides about the text that is sent
	accept      func(status int) bool
}

// send sends a request and returns the body of the response. Errors name the
// host only: addresses and headers can contain credentials.
func (s Services) send(ctx context.Context, in *guardrail.Input, o outgoing) ([]byte, error) {
	if s.Client == nil {
		return nil, errors.New("requests to other services are not available")
	}
	u, err := parseURL(o.url)
	if err != nil {
		return nil, err
	}
	if o.chosen && in.Request.Egress.Check(egress.Request{Managed: true, Host: u}) != nil {
		return nil, fmt.Errorf("the egress policy does not allow the host %s", u.Hostname())
	}
	req, err := http.NewRequestWithContext(ctx, o.method, u.String(), bytes.NewReader(o.body))
	if err != nil {
		return nil, fmt.Errorf("the request to %s is invalid", u.Hostname())
	}
	if o.header != nil {
		req.Header = o.header
	}
	req.Header.Set("Accept-Encoding", "identity")
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if len(o.body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if !o.counted {
		if err := in.CountRequest(); err != nil {
			return nil, err
		}
	}
	res, err := s.Client.Do(req, true)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("the request to %s failed: %w", u.Hostname(), err)
	}
	defer res.Body.Close()
	if o.accept != nil && !o.accept(res.StatusCode) || o.accept == nil && (res.StatusCode < 200 || res.StatusCode > 299) {
		if o.decides && guardrail.RefusesText(res.StatusCode) {
			return nil, guardrail.NewIncomplete("%s returned the status %d, so it has not read the text; send less text, or other text",
				u.Hostname(), res.StatusCode)
		}
		return nil, fmt.Errorf("%s returned the status %d", u.Hostname(), res.StatusCode)
	}
	limit := o.limit
	if limit == 0 {
		limit = maxResponse
	}
	b, err := readCounted(ctx, in, io.LimitReader(res.Body, limit+1))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bytepool.IsFull(err):
		return nil, guardrail.NewIncomplete("there is no memory for the response of %s: %v", u.Hostname(), err)
	case err != nil:
		return nil, fmt.Errorf("the response of %s broke off", u.Hostname())
	case int64(len(b)) > limit:
		return nil, guardrail.NewIncomplete("the response of %s is larger than %d bytes; send less text", u.Hostname(), limit)
	}
	return b, nil
}

// firstRead is the number of bytes of a response that count with its request.
const firstRead = 16 << 10

// readCounted reads a response. What is longer than firstRead counts as memory until the
// check ends, before it is read.
func readCounted(ctx context.Context, in *guardrail.Input, r io.Reader) ([]byte, error) {
	b := make([]byte, 0, firstRead/4)
	for {
		if len(b) == cap(b) {
			if more := 2 * cap(b); more > firstRead {
				if err := in.HoldMore(ctx, more); err != nil {
					return nil, err
				}
			}
			b = slices.Grow(b, cap(b))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// parseURL parses the address of a webhook or a partner.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the address must be an http or https URL without user information")
	}
	return u, nil
}

// urlParam checks the parameter with the address of a webhook.
func urlParam(p *guardrail.Params, name string) (string, error) {
	text := p.String(name)
	if _, err := parseURL(text); err != nil {
		return "", &guardrail.ParamError{Path: name, Message: "must be an http or https URL without user information"}
	}
	return text, nil
}

var forwardHeaders = param("forwardHeaders", guardrail.StringList, "",
	"Names of request headers to copy to the request of the check. Headers with credentials, connection headers and headers of the gateway are not copied.")

// private are headers that are never forwarded.
var private = []string{
	"authorization", "x-api-key", "api-key", "x-goog-api-key", "ocp-apim-subscription-key", "proxy-authorization", "cookie",
	"set-cookie", "metadata", "metadata-flavor", "x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds",
	"x-google-metadata-request", "connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding",
	"upgrade", "host", "content-length", "content-type", "accept-encoding", "expect", "forwarded", "proxy-connection",
}

func mayForward(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "x-gateway-") {
		return name == "x-gateway-trace-id" || name == "x-gateway-span-id"
	}
	return !slices.Contains(private, name) && !strings.HasPrefix(name, "x-forwarded-")
}

// checkForward returns an error if a header in the parameter may not be
// forwarded.
func checkForward(p *guardrail.Params) error {
	for i, name := range p.Strings("forwardHeaders") {
		if !mayForward(name) || textproto.TrimString(name) != name || name == "" {
			return &guardrail.ParamError{Path: fmt.Sprintf("forwardHeaders[%d]", i), Message: "must be a header that may be forwarded"}
		}
	}
	return nil
}

// header returns the headers of a request for a check: those to forward, a new
// traceparent and those of the check, whose names and values were validated.
func headerFor(in *guardrail.Input, forward []string, own map[string]string) http.Header {
	h := http.Header{}
	for _, name := range forward {
		if values := in.Request.Header.Values(name); len(values) > 0 && mayForward(name) {
			h[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	if h.Get("Traceparent") == "" {
		id := make([]byte, 24)
		_, _ = rand.Read(id) // never fails
		h.Set("Traceparent", "00-"+hex.EncodeToString(id[:16])+"-"+hex.EncodeToString(id[16:])+"-01")
	}
	for name, value := range own {
		h.Set(name, value)
	}
	return h
}

// credentials returns the credentials of a check: those of its parameters, else
// those stored for the tenant, never some of both: a stored one would be sent to an
// address in the parameters. Stored ones are paid by the tenant, so the checks of a
// config that the client wrote itself may not use them.
func (s Services) credentials(in *guardrail.Input, p *guardrail.Params, row *partner) (map[string]secret.String, error) {
	own, family := p.Credentials(), row.family()
	if own == nil && s.Credentials != nil {
		if !p.Saved() && !in.Request.StoredCredentials {
			return nil, fmt.Errorf("the stored credentials of %s are for saved guardrails and saved configs; save this config, or set credentials in it", family)
		}
		var err error
		if own, err = s.Credentials(in.Request, row.id, p.Shared()); err != nil {
			return nil, fmt.Errorf("the stored credentials of %s cannot be used: %w", family, err)
		}
	}
	for _, name := range row.needs {
		if own[name].Reveal() == "" {
			return nil, fmt.Errorf("the credential %s of %s is not set; store the credentials of the partner", name, family)
		}
	}
	return own, nil
}

// decode decodes the JSON of a response; the error does not repeat it.
func decode(b []byte, into any, of string) error {
	if !shallow(b) { // it may repeat what was sent
		return guardrail.NewIncomplete("the response of %s is not the expected JSON, but nested more than %d levels deep", of, maxJSONDepth)
	}
	if json.Unmarshal(b, into) != nil {
		return errors.New("the response of " + of + " is not the expected JSON")
	}
	return nil
}
