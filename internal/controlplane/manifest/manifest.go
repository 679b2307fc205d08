// Package manifest writes the state of the control plane as a file, and brings
// it to what such a file says.
//
// A file names things by slugs, people by e-mail addresses and keys by hashes,
// so that it means the same in every installation. It promises that a file is
// applied whole, in one change, or not at all; that applying it again changes
// nothing; and that equal states are written as equal bytes. Credentials leave
// as references or sealed. The form of the file is left to settings, rows to
// store, what a field may hold to the other packages of the control plane.
package manifest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/datakey"
	"modelgate/internal/secret"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// Manifest works on one organisation of a database.
type Manifest struct {
	DB           *store.DB
	Organisation string // id or slug

	// Box is that of the master key. Nil neither opens nor stores secrets.
	Box *secret.Box

	// CheckHost checks an address that a file chose for a provider.
	CheckHost func(raw string) (*url.URL, error)
}

// Secrets is how credentials are written.
type Secrets string

// The ways to write credentials.
const (
	Sealed     Secrets = "sealed"     // with the master key, as `modelgate seal` does
	References Secrets = "references" // as the names of environment variables
	None       Secrets = "none"       // not at all
)

// Export returns the state of the organisation, and for references the names of
// the variables that the file needs, in its order.
func (m *Manifest) Export(ctx context.Context, how Secrets) (*settings.Settings, []string, error) {
	var names []string
	r := reader{how: how, box: m.Box}
	switch how {
	case Sealed:
		r.render = r.sealed
	case References:
		r.render = func(place string, _ secret.String) string {
			names = append(names, variable(place, names))
			return "${" + names[len(names)-1] + "}"
		}
	case None:
		r.render = func(string, secret.String) string { return "" }
	default:
		return nil, nil, fmt.Errorf("secrets are written sealed, as references or not at all (none), not %q", string(how))
	}
	state, err := m.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.ring = datakey.New(m.DB, m.Box)
	out, err := r.settings(state)
	return out, names, err
}

// variable returns the name of an environment variable for the credential at a
// place, which none of the others has.
func variable(place string, others []string) string {
	var b strings.Builder
	for _, c := range strings.ToUpper(place) {
		if c < 'A' || c > 'Z' {
			if c < '0' || c > '9' {
				c = '_'
			}
		}
		b.WriteRune(c)
	}
	name := b.String()
	for n := 2; contains(others, name); n++ {
		name = fmt.Sprintf("%s_%d", b.String(), n)
	}
	return name
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// read reads the state at one moment.
func (m *Manifest) read(ctx context.Context) (*state, error) {
	var s *state
	err := m.DB.View(ctx, func(q store.Queries) (err error) {
		s, err = readState(ctx, q, m.Organisation)
		return err
	})
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, fmt.Errorf("%s", e.Message)
	}
	return s, err
}
