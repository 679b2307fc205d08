package route

import (
	"net"
	"net/netip"
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/oauth"
)

// Links are the prefixes of links to the gateway. The Host header of a request is never used,
// except by [Caller.DialledLink] for names of this host.
type Links struct {
	// PublicURL returns the public address, without a trailing slash; empty if none is
	// configured. Nil returns none.
	PublicURL func() string

	ListenURL string // the listen address
}

// Site returns the host of the gateway as browsers know it, without a port, and the origin of
// its pages. They are of the public address; without one, only of localhost, which no other host
// can be.
func (c *Caller) Site() (host, origin string, err error) {
	address := c.Link("")
	if address == "" {
		scheme := "http"
		if c.request.TLS != nil {
			scheme = "https"
		}
		address = scheme + "://" + c.request.Host
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", "", siteError()
	}
	_, ip := netip.ParseAddr(u.Hostname())
	if ip == nil || c.Link("") == "" && u.Hostname() != "localhost" {
		return "", "", siteError()
	}
	origin = u.Scheme + "://" + u.Hostname()
	if port := u.Port(); port != "" && (u.Scheme != "https" || port != "443") && (u.Scheme != "http" || port != "80") {
		origin = u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
	}
	return u.Hostname(), origin, nil
}

func siteError() error {
	return apierr.New(apierr.Unavailable, "passkeys belong to the name of a host: set public_url to an address with a host name, or open the gateway at localhost").
		WithCode("no_host_name")
}

// Link returns the address of a path of the gateway: absolute if a public address is
// configured, otherwise the path.
func (c *Caller) Link(path string) string {
	if c.api.PublicURL == nil {
		return path
	}
	return c.api.PublicURL() + path
}

// AbsoluteLink is [Caller.Link] but uses the listen address if no public address is
// configured.
func (c *Caller) AbsoluteLink(path string) string {
	if link := c.Link(path); link != path {
		return link
	}
	return c.api.ListenURL + path
}

// DialledLink is [Caller.AbsoluteLink] for documents that clients compare with the address
// that they dialled; see [oauth.Address].
func (c *Caller) DialledLink(path string) string {
	return oauth.Address(c.request, c.Link(""), c.api.ListenURL) + path
}
