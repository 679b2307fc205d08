package secrets

import (
	"context"

	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type item struct {
	ID            string            `json:"id"`
	Slug          string            `json:"slug"`
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	Manager       string            `json:"manager_type"`
	Auth          map[string]string `json:"auth_config" doc:"Secrets are masked"`
	Path          string            `json:"secret_path"`
	Key           string            `json:"secret_key"`
	AllWorkspaces bool              `json:"allow_all_workspaces"`
	Workspaces    []string          `json:"allowed_workspaces"`
	Providers     []string          `json:"allowed_providers" doc:"Empty for all"`
	Hosts         []string          `json:"allowed_hosts" doc:"In addition to the providers' own hosts"`
	Tags          map[string]string `json:"tags"`
	CreatedAt     route.Time        `json:"created_at"`
	UpdatedAt     route.Time        `json:"last_updated_at"`
	Object        string            `json:"object"`
}

func toResponse(s store.SecretReference) item {
	return item{
		ID: s.ID, Slug: s.Slug, Name: s.Name, Description: s.Description, Manager: s.Manager, Auth: s.Auth, Path: s.Path, Key: s.Key,
		AllWorkspaces: s.AllWorkspaces, Workspaces: append([]string{}, s.Workspaces...), Tags: s.Tags,
		Providers: append([]string{}, s.Providers...), Hosts: append([]string{}, s.Hosts...),
		CreatedAt: route.Time(s.CreatedAt), UpdatedAt: route.Time(s.UpdatedAt), Object: "secret-reference",
	}
}

type listInput struct {
	Manager string `query:"manager_type" enum:"environment,file,hashicorp_vault,cloud_a_secrets,cloud_c_vault"`
	Tags    string `query:"tags" maxLength:"4096" doc:"JSON object; all must match"`
	Search  string `query:"search" maxLength:"255" doc:"Part of the name or the slug"`
	Name    string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	Page    int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Size    int    `query:"page_size" minimum:"1" maximum:"100" default:"20"`
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[item], error) {
	tags, err := credentials.ParseTags(in.Tags)
	if err != nil {
		return nil, err
	}
	f := store.SecretReferenceFilter{Organisation: c.Organisation, Manager: in.Manager, Search: in.Search, Tags: tags}
	found, total, err := c.DB().SecretReferences(ctx, f, store.Page{Number: in.Page, Size: in.Size, Name: in.Name})
	return route.Listing(found, total, err, toResponse)
}

type oneInput struct {
	Reference string `path:"reference" maxLength:"255" doc:"Id or slug"`
}

func get(ctx context.Context, c *route.Caller, in *oneInput) (*item, error) {
	s, err := find(ctx, c, in.Reference)
	return route.ItemOf(s, err, toResponse)
}

func find(ctx context.Context, c *route.Caller, ref string) (store.SecretReference, error) {
	s, err := c.DB().SecretReference(ctx, c.Organisation, ref)
	return s, c.CheckFound("", s.ID, err, route.NotFound("reference", "secret reference", ref))
}
