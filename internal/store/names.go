package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"modelgate/internal/storage/sqlrow"
)

// nameQueries are the beginnings of statements that read ids and names of an organisation's objects,
// by the type of the object in the audit log. A user is named by the e-mail address.
var nameQueries = map[string]string{
	"user": `
		SELECT u.id, u.email
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		WHERE o.organisation_id = $1 AND u.id IN `,
	"organisation": `
		SELECT id, name
		FROM organisations
		WHERE id = $1 AND id IN `,
	"agent_integration": namesFrom("mcp_integrations"), "agent_server": namesFrom("mcp_servers"), "api_key": namesFrom("gateway_keys"),
	"config": namesFrom("configs"), "deployment": namesFrom("deployments"), "directory_token": namesFrom("directory_tokens"),
	"domain": namesFrom("domains"), "guardrail": namesFrom("guardrails"), "guardrail_module": namesFrom("guardrail_modules"),
	"identity_provider": namesFrom("identity_providers"), "integration": namesFrom("integrations"), "mcp_bundle": namesFrom("mcp_bundles"),
	"mcp_integration": namesFrom("mcp_integrations"), "mcp_server": namesFrom("mcp_servers"), "oauth_client": namesFrom("oauth_clients"),
	"policy": namesFrom("policies"), "prompt": namesFrom("prompts"), "prompt_collection": namesFrom("prompt_collections"),
	"prompt_label": namesFrom("prompt_labels"), "prompt_partial": namesFrom("prompts"), "provider": namesFrom("providers"),
	"secret_reference": namesFrom("secret_references"), "virtual_key": namesFrom("providers"),
	"webhook_endpoint":  namesFrom("webhook_endpoints"),
	"workload_identity": namesFrom("workload_identities"), "workspace": namesFrom("workspaces"),
}

func namesFrom(table string) string {
	return `
		SELECT id, name
		FROM ` + table + `
		WHERE organisation_id = $1 AND id IN `
}

// names returns names of an organisation's objects of a type by their ids. Objects that the database
// no longer has, or whose type has no names, are left out.
func (q Queries) names(ctx context.Context, organisation, kind string, ids []string) (map[string]string, error) {
	query, ok := nameQueries[kind]
	if !ok {
		return nil, nil
	}
	args := append([]any{organisation}, toArgs(ids)...)
	list, err := sqlrow.List(ctx, q.Reader, "names", query+placeholders(1, len(ids)), func(r sqlrow.Scanner) (row [2]string, err error) {
		return row, r.Scan(&row[0], &row[1])
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the names of objects of the type %s: %w", kind, err)
	}
	names := make(map[string]string, len(list))
	for _, row := range list {
		names[row[0]] = row[1]
	}
	return names, nil
}

// AuditNames are the present names of what an [Audit] has ids of. A name is empty if the object was
// deleted or has none.
type AuditNames struct{ Organisation, Workspace, User, Resource string }

// AuditNames returns the names for events of an organisation, in their order.
func (q Queries) AuditNames(ctx context.Context, organisation string, list []Audit) ([]AuditNames, error) {
	out := make([]AuditNames, len(list))
	wanted := make(map[string]map[string][]*string) // by type and id
	want := func(kind, id string, to *string) {
		if id == "" {
			return
		}
		if wanted[kind] == nil {
			wanted[kind] = make(map[string][]*string)
		}
		wanted[kind][id] = append(wanted[kind][id], to)
	}
	for i := range list {
		a, n := &list[i], &out[i]
		want("organisation", organisation, &n.Organisation)
		want("workspace", a.Workspace, &n.Workspace)
		want(a.UserType, a.UserID, &n.User)
		want(a.ResourceType, a.ResourceID, &n.Resource)
	}
	for kind, byID := range wanted {
		names, err := q.names(ctx, organisation, kind, slices.Collect(maps.Keys(byID)))
		if err != nil {
			return nil, err
		}
		for id, name := range names {
			for _, to := range byID[id] {
				*to = name
			}
		}
	}
	return out, nil
}
