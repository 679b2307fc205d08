package attempt

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/provider"
	"modelgate/internal/upstream"
)

// maxRedirects is how many redirects of a provider the gateway follows for a request.
const maxRedirects = 5

// redirectHeaders are the client's headers that go to the host of a redirect: what part
// and form of the content the client wants. All others may be credentials.
var redirectHeaders = [...]string{
	"Accept", "Accept-Encoding", "Accept-Language", "Range", "If-Range",
	"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "User-Agent",
}

// followRedirects returns the response to which the provider redirects a request that
// passes through, or res if that is not a redirect. The gateway follows because clients would
// send the gateway key to the new host; it sends no credential there. A redirect below the
// provider's own address is returned, for the client to get as an address of the gateway.
// It closes res if it returns something else.
func (a *attempt) followRedirects(req *http.Request, res *http.Response) (*http.Response, error) {
	for hops := 0; IsRedirect(res); hops++ {
		to, err := ResolveAddress(res, res.Header.Get("Location"))
		if _, below := a.plan.record.Target.PathBelow(to); hops == 0 && below {
			return res, nil
		}
		res.Body.Close()
		switch {
		case err != nil || to.Host == "":
			return nil, a.unreadable("a redirect to an address that is not valid, which is not followed").WithCode(codeRedirect)
		case req.Method != http.MethodGet:
			return nil, RefuseRedirect(a.plan.record.Target, to,
				"only redirects of GET requests are followed, and this is a "+req.Method+"; if the provider has moved, change its address")
		case hops == maxRedirects:
			return nil, RefuseRedirect(a.plan.record.Target, to, "it is one of more than 5 redirects in a row")
		}
		if res, err = a.followRedirect(req, res.Request.URL, to); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// followRedirect sends req, without credentials, to the address to which one at from
// redirects.
func (a *attempt) followRedirect(req *http.Request, from, to *url.URL) (*http.Response, error) {
	if from.Scheme == "https" && to.Scheme != "https" {
		return nil, RefuseRedirect(a.plan.record.Target, to, "it leads from https to "+to.Scheme)
	}
	if a.repeatsKey(to.String()) {
		return nil, RefuseRedirect(a.plan.record.Target, to, "the address repeats the provider's credential")
	}
	own := strings.EqualFold(to.Host, a.plan.record.Target.Base.Host) && to.Scheme == a.plan.record.Target.Base.Scheme
	if !own {
		if err := a.plan.request.Checking.Egress.Check(egress.Request{Managed: a.plan.record.Target.Slug != "", Host: to}); err != nil {
			return nil, RefuseRedirect(a.plan.record.Target, to, apierr.From(err).Message)
		}
	}
	a.plan.trail.Decide(a.plan.handler.Path, "the provider redirects to %s, where the gateway follows without credentials", originOf(to))
	next := (&http.Request{Method: req.Method, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: make(http.Header)}).WithContext(req.Context())
	for _, name := range redirectHeaders {
		if v, ok := a.plan.request.Received.Header[name]; ok {
			next.Header[name] = v
		}
	}
	a.plan.timers.dog.Restart()
	res, err := a.plan.handler.Engine.Client.Do(next, a.plan.record.Target.Guarded || !own)
	if err != nil {
		return nil, a.redirectFailure(next, err)
	}
	delete(res.Header, "Set-Cookie") // the client would store it for the gateway
	return res, nil
}

// redirectFailure returns the error for a redirect to a host that could not be called.
func (a *attempt) redirectFailure(next *http.Request, err error) error {
	f := upstream.Classify(next, err)
	if f.Kind == upstream.Canceled || f.Timeout() {
		return a.failure(next, err)
	}
	if refused, ok := errors.AsType[*upstream.RefusedError](f); ok {
		return RefuseRedirect(a.plan.record.Target, next.URL, refused.Reason())
	}
	return RefuseRedirect(a.plan.record.Target, next.URL, f.Reason()).WithCause(f)
}

// codeRedirect is the code of the error for a redirect that is not followed.
const codeRedirect = "redirect_refused"

// RefuseRedirect returns the error for a redirect of a provider that cannot be followed.
func RefuseRedirect(from *provider.Target, to *url.URL, why string) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, "%s redirected to %.300s, which is not followed, so that no credential goes there: %s", from.ID, originOf(to), why).WithCode(codeRedirect)
}

// IsRedirect reports whether clients may follow the Location of a response.
func IsRedirect(res *http.Response) bool {
	return res.StatusCode >= 300 && res.StatusCode <= 399 && res.StatusCode != http.StatusNotModified && res.Header.Get("Location") != ""
}

// ResolveAddress returns the address that text means in a header of res.
func ResolveAddress(res *http.Response, text string) (*url.URL, error) {
	from, at := res.Request.URL, res.Request.URL.RequestURI()
	if strings.HasPrefix(at, "/") {
		at = originOf(from) + at
	}
	base, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	return base.Parse(text)
}

// refuseUnifiedRedirect returns the error for a redirect of a unified request. A client that
// followed it would send its gateway key along.
func (a *attempt) refuseUnifiedRedirect(res *http.Response) error {
	where := ""
	if to, err := ResolveAddress(res, res.Header.Get("Location")); err == nil && IsRedirect(res) {
		where = " to " + originOf(to)
	}
	return a.unreadable("a redirect" + where + ", which is not followed; check the address of the provider")
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }
