package route

import (
	"context"

	"modelgate/internal/store"
)

// Exports writes log exports in the background.
type Exports interface {
	// Notify starts a search for started exports.
	Notify()
	// Link returns a temporary address of an export's file for anyone who has the link.
	// An address that begins with a slash is a path of the gateway.
	Link(ctx context.Context, e store.Export) (string, error)
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
