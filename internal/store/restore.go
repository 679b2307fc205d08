package store

import (
	"cmp"
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Restorable is a kind of object that can be archived and restored.
type Restorable struct {
	Name  string // for messages
	table string
	rows  journal.Rows

	workspace string // SQL expression of the workspace's id; empty for the organisation
	slug      string // SQL expression of another name than the id
	where     string // SQL condition of the rows of the kind; empty for all of the table

	// within are conditions that what contains the object is active.
	within []container
}

type container struct{ name, active string }

var (
	inWorkspace = container{"workspace",
		`workspace_id = '' OR EXISTS (SELECT 1 FROM workspaces w WHERE w.id = workspace_id AND w.status = 'active')`}
	inGrant  = container{"integration", `EXISTS (SELECT 1 FROM integrations i WHERE i.id = integration_id AND i.status = 'active')`}
	inParent = container{"parent_collection",
		`parent_id = '' OR EXISTS (SELECT 1 FROM prompt_collections c WHERE c.id = prompt_collections.parent_id AND c.status = 'active')`}
	inFolder = container{"collection",
		`collection_id = '' OR EXISTS (SELECT 1 FROM prompt_collections c WHERE c.id = collection_id AND c.status = 'active')`}
)

// Kinds of objects that can be restored. An integration is restored without its
// credential, which archiving removes.
var (
	RestoreWorkspace = Restorable{Name: "workspace", table: "workspaces", rows: journal.Workspaces, workspace: "id", slug: "slug"}
	RestoreConfig    = Restorable{Name: "config", table: "configs", rows: journal.Configs,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace}}
	RestoreGuardrail = Restorable{Name: "guardrail", table: "guardrails", rows: journal.Guardrails,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace}}
	RestoreIntegration = Restorable{Name: "integration", table: "integrations", rows: journal.Integrations,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace}}
	RestoreProvider = Restorable{Name: "provider", table: "providers", rows: journal.Providers,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace, inGrant}}
	RestorePrompt = Restorable{Name: "prompt", table: "prompts", rows: journal.Prompts,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace, inFolder}, where: "kind = 'prompt'"}
	RestorePartial = Restorable{Name: "partial", table: "prompts", rows: journal.Prompts,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace, inFolder}, where: "kind = 'partial'"}
	RestoreCollection = Restorable{Name: "collection", table: "prompt_collections", rows: journal.Unpublished,
		workspace: "workspace_id", slug: "slug", within: []container{inWorkspace, inParent}}
	RestorePolicy = Restorable{Name: "policy", table: "policies", rows: journal.Policies,
		workspace: "workspace_id", slug: "id", within: []container{inWorkspace}}
)

// Archived returns the id and the workspace of an archived object with this id or slug, of
// one workspace unless within is empty.
func (q Queries) Archived(ctx context.Context, kind Restorable, organisation, within, ref string) (id, workspace string, err error) {
	where := cmp.Or(kind.where, "1 = 1")
	found, err := sqlrow.List(ctx, q.Reader, "archived objects", `
		SELECT id, `+kind.workspace+`
		FROM `+kind.table+`
		WHERE organisation_id = $1 AND (id = $2 OR `+kind.slug+` = $2) AND status = 'archived'
			AND ($3 = '' OR `+kind.workspace+` = $3) AND `+where+`
		LIMIT 2`, func(r sqlrow.Scanner) (pair [2]string, err error) {
		err = r.Scan(&pair[0], &pair[1])
		return pair, err
	}, organisation, ref, within)
	switch {
	case err != nil:
		return "", "", err
	case len(found) == 0:
		return "", "", apierr.New(apierr.NotFound, "archived %s %.60q not found", kind.Name, ref).WithParam(kind.Name)
	case len(found) > 1:
		return "", "", apierr.New(apierr.Conflict, "several archived objects have the slug %.60q; send the id of one", ref).WithParam(kind.Name)
	}
	return found[0][0], found[0][1], nil
}

// Restore makes an archived object active again. A slug that another object has taken, or
// an archived object around it, is a conflict.
func (tx *Tx) Restore(ctx context.Context, kind Restorable, id string, now time.Time) error {
	for _, around := range kind.within {
		n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM `+kind.table+` WHERE id = $1 AND (`+around.active+`)`, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return apierr.New(apierr.Conflict, "the %s of this %s is archived; restore it first", around.name, kind.Name).WithParam(around.name)
		}
	}
	return tx.write(ctx, kind.rows, kind.Name, `
		UPDATE `+kind.table+`
		SET status = 'active', updated_at = $2
		WHERE id = $1 AND status = 'archived'`, id, millis(now))
}
