// Package table holds the provider table: one row per provider.
//
// A row is an address, an authentication, the paths of the operations that the
// provider offers, and a few quirks. The package guarantees that ids and
// aliases are unique, that [All] returns rows in alphabetical order and that none
// ever changes, so that goroutines may share the returned specs. A quirk that a
// field of [provider.Spec] cannot express is a short function next to the rows that
// have it. The package does not build or send requests; see provider, pipeline and
// upstream.
package table

import (
	"slices"
	"strings"

	"modelgate/internal/provider"
)

var (
	rows = slices.SortedFunc(slices.Values(slices.Concat(
		awsRows(), azureRows(), googleRows(), cloudRows(),
		openAILikeRows(), openAIQuirkRows(), chinaRows(),
		selfHostedRows(), ownFormatRows(),
	)), func(a, b *provider.Spec) int { return strings.Compare(a.ID, b.ID) })
	byName = index(rows)
)

// All returns the rows in the order of their ids. The slice is the caller's;
// the specs are shared and must not be changed.
func All() []*provider.Spec { return slices.Clone(rows) }

// Lookup returns the row with the given id or alias, and false if there is
// none. Ids are case-sensitive.
func Lookup(id string) (*provider.Spec, bool) {
	s, ok := byName[id]
	return s, ok
}

func index(rows []*provider.Spec) map[string]*provider.Spec {
	m := make(map[string]*provider.Spec, 2*len(rows))
	for _, s := range rows {
		m[s.ID] = s
		for _, alias := range s.Aliases {
			m[alias] = s
		}
	}
	return m
}
