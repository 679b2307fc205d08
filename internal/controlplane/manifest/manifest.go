// Package manifest exports the state of the control plane to a file and applies such a
// file.
//
// A file names objects by slug, users by e-mail address and keys by hash, so it means
// the same in every installation. The package guarantees that a file is applied
// completely, in one transaction, or not at all; that applying it again changes
// nothing; and that equal states are exported as equal bytes. Credentials are exported
// as references or sealed. It does not define the file format (see settings), store
// rows (see store) or validate fields (see the other packages of the control plane).
package manifest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/guardrail"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// Manifest exports and changes one organisation of a database.
type Manifest struct {
	DB           *store.DB
	Organisation string // id or slug

	// Box is the master key. Nil can neither open nor store secrets.
	Box *secret.Box

	// CheckHost checks an address that a file sets for a provider.
	CheckHost func(raw string) (*url.URL, error)

	// Guardrails are the checks that guardrails may have. Nil accepts all.
	Guardrails *guardrail.Table
}

// Secrets selects how credentials are exported.
type Secrets string

// Ways to export credentials.
const (
	Sealed     Secrets = "sealed"     // sealed with the master key, the output of modelgate seal
	References Secrets = "references" // names of environment variables
	None       Secrets = "none"       // left out
)

// Export returns the state of the organisation and, for [References], the names of the
// environment variables that the file needs, in order of appearance.
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
		return nil, nil, fmt.Errorf("secrets must be sealed, references or none, not %q", string(how))
	}
	state, err := m.read(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.ring = datakey.New(m.DB, m.Box)
	out, err := r.settings(state)
	return out, names, err
}

// variable returns the name of an environment variable for the credential at a place,
// different from others.
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
	return slices.Contains(list, s)
}

// read reads the complete state in one transaction.
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
