package server

import (
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// config returns a saved config with its credentials, or with the error of opening
// them.
func (o secretOpener) config(c *publication.Config) snapshot.Config {
	h, v := configHistory{o, c}, c.Current()
	out := snapshot.Config{Workspace: c.Row.Workspace, ID: c.Row.ID, Slug: c.Row.Slug, Version: v.Number, History: h, Stored: true}
	out.Text, out.Err = h.open(v.Text, v.Sealed)
	return out
}

// configHistory has the versions of a saved config. It opens their credentials when a
// request names a version.
type configHistory struct {
	opener secretOpener
	config *publication.Config
}

// Numbers implements [snapshot.History].
func (h configHistory) Numbers() []int64 {
	list := make([]int64, len(h.config.Versions))
	for i := range list {
		list[i] = h.config.Versions[i].Number
	}
	return list
}

// Text implements [snapshot.History].
func (h configHistory) Text(number int64) (secret.String, error) {
	for i := range h.config.Versions {
		if v := &h.config.Versions[i]; v.Number == number {
			return h.open(v.Text, v.Sealed)
		}
	}
	return secret.String{}, apierr.New(apierr.NotFound, "version %d of config %q not found", number, h.config.Row.Slug)
}

// open returns a text with its credentials.
func (h configHistory) open(text, sealed string) (secret.String, error) {
	if sealed == "" {
		return secret.New(text), nil
	}
	o, c := h.opener, &h.config.Row
	opened, err := o.ring.OpenWith(c.Organisation, o.keys[c.Organisation], sealed)
	var held store.ConfigSecrets
	if err == nil {
		held, err = store.ParseConfigSecrets(opened)
	}
	var full secret.String
	if err == nil {
		full, err = store.FillConfig(text, held)
	}
	if err != nil {
		return secret.String{}, apierr.New(apierr.Unavailable, "the credentials of the saved config %s cannot be read", c.Slug).
			WithParam("x-gateway-config").WithCode("unreadable_config").WithCause(err)
	}
	return full, nil
}
