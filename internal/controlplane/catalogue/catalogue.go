// Package catalogue implements the control plane's routes that describe what can be used:
// the providers of the table with the fields of their credentials, and the models in force
// for the caller with prices and limits.
//
// It reads the provider table and the current snapshot and changes nothing. Integrations
// and managed providers are in packages of their own, and so are their tests and health.
package catalogue

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/table"
	"modelgate/internal/snapshot"
)

// Routes are the routes of the catalogue.
type Routes struct {
	// Snapshot returns the state that requests read. Nil, or no snapshot, has no models.
	Snapshot func() *snapshot.Snapshot
}

// Add adds the routes.
func (o Routes) Add(a *route.API) {
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/catalogue/providers", Name: "list-catalogue-providers", Tag: "Catalogue",
		Summary: "List the providers that integrations can be made for, with the fields of their credentials",
	}, listProviders)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/catalogue/models", Name: "list-catalogue-models", Tag: "Catalogue",
		Summary: "List models with their prices and limits: those of the workspace's providers, or those of the price book",
		Scopes:  []access.Scope{"providers.list", access.ScopeModels},
	}, o.listModels)
}

// Provider is a provider of the table.
type Provider struct {
	ID             string           `json:"id" doc:"ai_provider_id of integrations"`
	Name           string           `json:"name"`
	Aliases        []string         `json:"aliases" doc:"Further ids"`
	BaseURL        *string          `json:"base_url" doc:"Its address, with {option} placeholders; null if custom_host is required"`
	Docs           *string          `json:"docs" doc:"Address of its API reference"`
	Environment    *string          `json:"env" doc:"Usual environment variable of its key"`
	Authentication []Authentication `json:"authentication" doc:"Ways to authenticate, one of which is enough; empty if it needs none"`
	Credential     []Field          `json:"credential" doc:"Fields of an integration"`
	Operations     []string         `json:"operations"`
	Dialects       []string         `json:"dialects" doc:"API formats of its conversations"`
	Notes          []string         `json:"notes"`
	Object         string           `json:"object"`
}

type providersInput struct {
	Search    string `query:"search" maxLength:"255" doc:"Part of an id, an alias or a name, in any case"`
	Operation string `query:"operation" maxLength:"64" doc:"Returns only providers that offer it, such as chat or embeddings"`
	route.LongPaging
}

func listProviders(_ context.Context, _ *route.Caller, in *providersInput) (*route.List[Provider], error) {
	if err := checkOperation(in.Operation); err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(slices.Clone(providers()), func(p Provider) bool {
		names := append([]string{p.ID, p.Name}, p.Aliases...)
		return !matches(in.Search, names...) || in.Operation != "" && !slices.Contains(p.Operations, in.Operation)
	})
	return route.PageOf(list, in.LongPaging, nil, func(p Provider) Provider { return p })
}

// matches reports whether one of several texts contains a part, in any case.
func matches(part string, texts ...string) bool {
	part = strings.ToLower(part)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), part) })
}

// checkOperation returns an error for an operation that no provider offers. Empty is none.
func checkOperation(name string) error {
	if name == "" {
		return nil
	}
	for _, spec := range table.All() {
		if _, ok := spec.Paths[api.Operation(name)]; ok {
			return nil
		}
	}
	return route.Invalid("operation", "is not an operation of any provider; GET /catalogue/providers lists the operations of each")
}
