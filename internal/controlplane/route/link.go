package route

import (
	"context"

	"modelgate/internal/store"
)

// Exports makes files of the log in the background.
type Exports interface {
	// Notify has it look for what was started.
	Notify()
	// Link returns an address that the file of an export can be read at for some
	// time by whoever has it: one that begins with a slash is the gateway's own.
	Link(ctx context.Context, e store.Export) (string, error)
}

// Link returns the address of a path of the gateway: below the configured public
// address, or the path alone when none is configured.
func (c *Caller) Link(path string) string {
	if c.api.PublicURL == nil {
		return path
	}
	return c.api.PublicURL() + path
}

// AbsoluteLink is Link below the address that is listened on when no public
// address is configured.
func (c *Caller) AbsoluteLink(path string) string {
	if link := c.Link(path); link != path {
		return link
	}
	return c.api.ListenURL + path
}
