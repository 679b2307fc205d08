package pipeline

import (
	"context"

	"modelgate/config"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/exchange"
)

// ignoredProperties returns the names of properties of an effective config that
// this version does not implement. They are announced with every response, so
// that no user relies on them.
func (b *build) ignoredProperties(n *config.Config) []string {
	var names []string
	for _, p := range [...]struct {
		name  string
		given bool
	}{
		{"cache", n.Cache != nil && b.Cache == nil},
		{"fetch_integrated_models", n.FetchModels},
	} {
		if p.given {
			names = append(names, p.name)
		}
	}
	return names
}

// noticeHandler announces settings of a leaf without effect.
type noticeHandler struct {
	names []string
	next  exchange.Handler
}

// Handle adds the names to the trail and calls the leaf.
func (a noticeHandler) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	for _, name := range a.names {
		t.Note(dialect.ParamChange{Name: name, Outcome: dialect.Ignored})
	}
	return a.next.Handle(ctx, r, t)
}
