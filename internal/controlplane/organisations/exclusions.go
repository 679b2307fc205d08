package organisations

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// addExclusions adds the routes for the workspaces to which default guardrails of the
// organisation do not apply.
func addExclusions(a *route.API) {
	r := route.Family{Path: "/workspace-exclusions", Tag: "Organisation", Scopes: []string{"organisation_exclusions"},
		Resource: "organisation", Versioned: true}
	for _, list := range []exclusionList{
		{"input", func(s *store.OrganisationSettings) *[]string { return &s.InputExclusions }},
		{"output", func(s *store.OrganisationSettings) *[]string { return &s.OutputExclusions }},
	} {
		path := "/" + list.kind + "-guardrails"
		route.Add(a, r.Route(http.MethodGet, path, "get-"+list.kind+"-guardrail-exclusions", "list",
			"List the workspaces excluded from the organisation's "+list.kind+" guardrails"), list.get)
		route.Add(a, r.Route(http.MethodPut, path, "update-"+list.kind+"-guardrail-exclusions", "update",
			"Exclude workspaces from the organisation's "+list.kind+" guardrails, or include them again"), list.update)
	}
}

// exclusionList is one of the two lists of excluded workspaces in settings.
type exclusionList struct {
	kind string
	of   func(*store.OrganisationSettings) *[]string // ids
}

// Exclusion says whether a workspace is excluded.
type Exclusion struct {
	Workspace string `json:"workspace_id"`
	Slug      string `json:"slug"`
	Excluded  bool   `json:"excluded"`
}

type exclusions struct {
	Organisation string      `json:"organisation_id"`
	Workspaces   []Exclusion `json:"workspaces" doc:"The active workspaces that are excluded, by slug"`
	Object       string      `json:"object"`
}

func (l exclusionList) get(ctx context.Context, c *route.Caller, _ *struct{}) (*exclusions, error) {
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	excluded := *l.of(&o.Settings)
	all, _, err := c.DB().Workspaces(ctx, store.WorkspaceQuery{Organisation: o.ID, Statuses: []string{store.Active}}, store.Page{})
	if err != nil {
		return nil, err
	}
	out := &exclusions{Organisation: o.ID, Workspaces: []Exclusion{}, Object: "workspace-exclusions"}
	for _, w := range all {
		if slices.Contains(excluded, w.ID) {
			out.Workspaces = append(out.Workspaces, Exclusion{w.ID, w.Slug, true})
		}
	}
	slices.SortFunc(out.Workspaces, func(a, b Exclusion) int { return cmp.Compare(a.Slug, b.Slug) })
	return out, nil
}

type exclusionInput struct {
	Body struct {
		Organisation string `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug of the caller's organisation, which is the default"`
		Workspaces   []struct {
			Workspace string `json:"workspace_id" minLength:"1" maxLength:"255" doc:"Id or slug"`
			Excluded  bool   `json:"excluded"`
		} `json:"workspaces" maxItems:"1000"`
		Override bool `json:"override_existing,omitempty" doc:"Replaces the list: workspaces that are not named are included again"`
	}
}

func (l exclusionList) update(ctx context.Context, c *route.Caller, in *exclusionInput) (*route.Empty, error) {
	return change(ctx, c, func(tx *store.Tx, o *store.Organisation) error {
		if ref := in.Body.Organisation; ref != "" && ref != o.ID && ref != o.Slug {
			return route.Missing("organisation_id", "organisation", ref)
		}
		before := *l.of(&o.Settings)
		if in.Body.Override {
			before = nil
		}
		next := slices.Clone(before)
		named := make(map[string]bool, len(in.Body.Workspaces))
		for i, given := range in.Body.Workspaces {
			at := fmt.Sprintf("workspaces[%d].workspace_id", i)
			w, err := tx.Workspace(ctx, o.ID, given.Workspace)
			if apierr.IsNotFound(err) || err == nil && w.Status != store.Active {
				return route.Missing(at, "workspace", given.Workspace)
			}
			if err != nil {
				return err
			}
			if named[w.ID] {
				return route.Invalid(at, "names %.60q a second time; name each workspace once", given.Workspace)
			}
			named[w.ID] = true
			next = slices.DeleteFunc(next, func(id string) bool { return id == w.ID })
			if given.Excluded {
				next = append(next, w.ID)
			}
		}
		*l.of(&o.Settings) = next
		return nil
	})
}
