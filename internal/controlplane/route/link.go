package route

// Links are the prefixes of links to the gateway. The Host header of a request is never used.
type Links struct {
	// PublicURL returns the public address, without a trailing slash; empty if none is
	// configured. Nil returns none.
	PublicURL func() string

	ListenURL string // the listen address
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
