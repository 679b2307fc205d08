package provider

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/base/urlpath"
)

// Call is one operation at a target.
type Call struct {
	Operation api.Operation
	Method    string

	// Path is the path after /v1 exactly as the client sent it. Only api.Proxy
	// uses it; other operations have a path in the provider definition.
	Path string
	// Query is the client's query exactly as sent, without the question mark.
	Query string
	// EmptyQuery is true if Path was followed by a question mark only.
	EmptyQuery bool

	// Header is sent with the request. The provider's credential overrides it,
	// and it overrides the headers of the provider definition. NewRequest takes
	// ownership.
	Header http.Header

	Body Body
	// Model is the client's name of the model.
	Model string

	// DroppedBetas are the beta flags that NewRequest removed, since the host
	// does not accept them.
	DroppedBetas []string
	// Replaced are the headers of the call that NewRequest replaced with another
	// value, since an option of the provider sets them.
	Replaced []ReplacedHeader

	// Trailer has the names of trailer fields after a body of unknown length.
	// Their values are set once the body has been read. It is optional.
	Trailer http.Header
}

// ReplacedHeader is a header that an option of the provider replaces.
type ReplacedHeader struct{ Name, Option string }

// Body is the body of a call. The zero value is empty.
type Body struct {
	// Source opens the body. Nil means no body.
	Source Source
	// Length is the number of bytes, or -1 if unknown.
	Length int64
	// Replayable is true if Open may be called again.
	Replayable bool
}

// Source opens a body from its start.
type Source interface {
	Open() (io.ReadCloser, error)
}

// NewRequest returns the HTTP request of c for t. If the provider does not
// offer the operation, it returns an *apierr.Error of kind Unsupported.
func NewRequest(ctx context.Context, t *Target, c *Call) (*http.Request, error) {
	u, err := t.url(c)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method:     c.Method,
		URL:        u,
		Host:       u.Host,
		Header:     t.header(c),
		Trailer:    c.Trailer,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(ctx)
	c.DroppedBetas = t.Betas.filter(req.Header)
	if err := attach(req, &c.Body); err != nil {
		return nil, err
	}
	if err := t.Auth.apply(ctx, t, req); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return req, nil
}

// joinFlags adds the beta flags that a request sends to those of the provider's
// option, each once.
func joinFlags(option string, sent []string) string {
	if len(sent) == 0 {
		return option
	}
	known := make(map[string]bool)
	var all []string
	for flag := range strings.SplitSeq(option+","+strings.Join(sent, ","), ",") {
		if flag = strings.TrimSpace(flag); flag != "" && !known[flag] {
			known[flag] = true
			all = append(all, flag)
		}
	}
	return strings.Join(all, ",")
}

func attach(req *http.Request, b *Body) error {
	if b.Source == nil {
		return nil
	}
	body, err := b.Source.Open()
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = body, b.Length
	if b.Length == 0 {
		// net/http treats a body with length zero as unknown and would send
		// chunks.
		body.Close()
		req.Body = http.NoBody
	}
	if b.Replayable {
		req.GetBody = b.Source.Open
	}
	return nil
}

// url returns the address of c: the provider's path for a unified operation,
// the client's path appended to the base address for pass-through.
func (t *Target) url(c *Call) (*url.URL, error) {
	if u, ok := t.urls[c.Operation]; ok && c.Query == "" {
		return u, nil // shared: the code below does not change it
	}
	path := c.Path
	if c.Operation != api.Proxy {
		row, ok := t.Path(c.Operation)
		if !ok {
			return nil, OperationNotSupported(t, c.Operation)
		}
		if t.PathOf != nil {
			if own := t.PathOf(c.Operation, t.BaseModelOf(c.Model)); own != "" && !(t.Guarded && isAbsoluteURL(own)) {
				row = own
			}
		}
		var err error
		if path, err = t.expandPath(row, c.Model); err != nil {
			return nil, err
		}
	}
	u, err := t.join(path, c.Query)
	if err != nil {
		return nil, err
	}
	u.ForceQuery = c.EmptyQuery && c.Operation == api.Proxy
	if t.Spec.URL != nil {
		if err := t.Spec.URL(t, c, u); err != nil {
			return nil, err
		}
	}
	if c.Operation != api.Proxy && urlpath.HasDotSegment(u.EscapedPath()) {
		return nil, apierr.New(apierr.Invalid,
			"the model %.100q cannot be part of the provider's path; it must not contain the segments . and ..", c.Model).WithParam("model")
	}
	return u, nil
}

// join appends path to the base address without changing its encoding: the
// opaque form of a URL is sent as it is.
func (t *Target) join(path, query string) (*url.URL, error) {
	if isAbsoluteURL(path) {
		u, err := url.Parse(path)
		if err != nil {
			return nil, err
		}
		u.RawQuery = joinQuery(u.RawQuery, query)
		return u, nil
	}
	path, own, _ := strings.Cut(path, "?")
	return &url.URL{
		Scheme:   t.Base.Scheme,
		Host:     t.Base.Host,
		Path:     t.Base.Path + path,
		Opaque:   opaque(t.Base, path),
		RawQuery: joinQuery(joinQuery(t.Base.RawQuery, own), query),
	}, nil
}

// opaque returns the request target. net/http takes two leading slashes of an
// opaque URL for a host; such a path is preceded by the host, which HTTP allows
// (RFC 9112, 3.2.2).
func opaque(base *url.URL, path string) string {
	target := base.EscapedPath() + path
	if strings.HasPrefix(target, "//") {
		return "//" + base.Host + target
	}
	return target
}

func joinQuery(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "&" + b
}

func (t *Target) header(c *Call) http.Header {
	h := c.Header
	if h == nil {
		h = make(http.Header, len(t.Spec.Header)+1)
	}
	for _, o := range t.Spec.Options {
		if o.Header == "" {
			continue
		}
		if v := t.Option(o.Name); v != "" {
			k, sent := HeaderKey(h, o.Header)
			switch {
			case o.Name == "beta":
				v = joinFlags(v, h[k])
			case sent && (len(h[k]) != 1 || h[k][0] != v):
				c.Replaced = append(c.Replaced, ReplacedHeader{o.Header, o.Name})
			}
			h[k] = []string{v}
		}
	}
	for k, v := range t.Spec.Header {
		if k, ok := HeaderKey(h, k); !ok {
			h[k] = []string{v}
		}
	}
	if v, wanted := t.messagesVersion(c.Operation); wanted {
		if k, ok := HeaderKey(h, "Anthropic-Version"); !ok {
			h[k] = []string{v}
		}
	}
	for name, v := range t.Headers {
		h[name] = []string{v.Reveal()}
		dropOtherSpellings(h, name)
	}
	return h
}

// messagesVersion returns the version header that the messages protocol
// requires, unless the version is in the body.
// https://docs.anthropic.com/en/api/versioning
func (t *Target) messagesVersion(op api.Operation) (version string, wanted bool) {
	if !strings.HasPrefix(string(op), string(api.Messages)) {
		return "", false
	}
	_, inBody := t.BodyRules[op].Set["anthropic_version"]
	return "2023-06-01", !inBody
}

// apply sets the credential of t. It is called last, so that nothing from a
// client can replace the credential.
func (a *Auth) apply(ctx context.Context, t *Target, req *http.Request) error {
	if !t.Key.Empty() {
		switch {
		case a.Header != "" && t.credential != nil:
			req.Header[a.Header] = t.credential
		case a.Header != "":
			if v := a.value(t.Key); v != nil {
				req.Header[a.Header] = v
			}
		case a.Query != "":
			req.URL.RawQuery = joinQuery(req.URL.RawQuery, a.Query+"="+url.QueryEscape(t.Key.Reveal()))
		}
	}
	if a.Sign != nil {
		if err := a.Sign(ctx, t, req); err != nil {
			return err
		}
		dropOtherSpellings(req.Header, "Authorization")
	}
	dropOtherSpellings(req.Header, a.Header)
	return nil
}

// HeaderKey returns the key of a header in h, where a forwarded header has the
// spelling of its config, and whether it is set. The key of one that is not set is
// canonical.
func HeaderKey(h http.Header, name string) (key string, set bool) {
	name = http.CanonicalHeaderKey(name)
	if _, set := h[name]; set {
		return name, true
	}
	for other := range h {
		if len(other) == len(name) && strings.EqualFold(other, name) {
			return other, true
		}
	}
	return name, false
}

// dropOtherSpellings removes other spellings of a header that is set. A
// forwarded client header keeps its spelling, and the provider would have to
// choose between it and the credential.
func dropOtherSpellings(h http.Header, name string) {
	if _, set := h[name]; !set {
		return
	}
	for other := range h {
		if len(other) == len(name) && other != name && strings.EqualFold(other, name) {
			delete(h, other)
		}
	}
}

// value returns the header values for the credential, nil if there is none. A
// JSON object is used to fetch tokens and is never sent.
func (a *Auth) value(key secret.String) []string {
	switch {
	case a.Header == "" || key.Empty() || a.Method != "" && strings.HasPrefix(strings.TrimSpace(key.Reveal()), "{"):
		return nil
	case a.Scheme != "":
		return []string{a.Scheme + " " + key.Reveal()}
	}
	return []string{key.Reveal()}
}
