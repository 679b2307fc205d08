package guardrails

import (
	"context"
	"fmt"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Version is a version of a guardrail.
type Version struct {
	ID        string     `json:"id"`
	Guardrail string     `json:"guardrail_id"`
	Number    int64      `json:"version"`
	Checks    route.JSON `json:"checks"`
	Actions   route.JSON `json:"actions"`
	CreatedBy string     `json:"created_by"`
	CreatedAt route.Time `json:"created_at"`
	Object    string     `json:"object"`
}

type versionsInput struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
	route.LongPaging
}

func versions(ctx context.Context, c *route.Caller, in *versionsInput) (*route.List[Version], error) {
	g, err := find(ctx, c, in.Guardrail)
	if err != nil {
		return nil, err
	}
	found, err := c.DB().GuardrailVersions(ctx, g.ID)
	return route.PageOf(found, in.LongPaging, err, func(v store.GuardrailVersion) Version {
		return Version{v.ID, v.Guardrail, v.Number, route.JSON(config.MaskExposed(v.Checks)),
			route.JSON(config.MaskExposed(v.Actions)), v.CreatedBy, route.Time(v.CreatedAt), "guardrail_version"}
	})
}

// setVersion replaces the checks and actions of g with those of a version.
func setVersion(ctx context.Context, c *route.Caller, g *store.Guardrail, number int64) error {
	v, err := c.DB().GuardrailVersion(ctx, g.ID, number)
	if apierr.IsNotFound(err) {
		list, err := c.DB().GuardrailVersions(ctx, g.ID)
		if err != nil || len(list) == 0 {
			return err
		}
		return route.MissingVersion("guardrail", fmt.Sprintf("guardrail %q", g.Slug), number, list[0].Number)
	}
	g.VersionID, g.Checks, g.Actions = v.ID, v.Checks, v.Actions
	return err
}

type rollbackInput struct {
	Guardrail string `path:"guardrail" maxLength:"255" doc:"Id or slug"`
	Body      struct {
		Version int64 `json:"version" minimum:"1" doc:"Number of the version whose checks and actions become current"`
	}
}

func rollback(ctx context.Context, c *route.Caller, in *rollbackInput) (*created, error) {
	g, err := changeable(ctx, c, in.Guardrail, "update")
	if err != nil {
		return nil, err
	}
	if err := setVersion(ctx, c, &g, in.Body.Version); err != nil {
		return nil, err
	}
	g.VersionID = c.NewID()
	if err := checkRunnable(ctx, c.DB(), c.Guardrails(), &g); err != nil {
		return nil, err
	}
	if err := change(ctx, c, g); err != nil {
		return nil, err
	}
	return &created{g.ID, g.Slug, g.VersionID}, nil
}

// checkRestored checks the modules and checks of a guardrail that was restored.
func checkRestored(ctx context.Context, c *route.Caller, tx *store.Tx, id string) error {
	g, err := tx.Guardrail(ctx, c.Organisation, "", id)
	if err != nil {
		return err
	}
	if err := checkRunnable(ctx, tx.Queries, c.Guardrails(), &g); err != nil {
		return err
	}
	return route.CheckModules(ctx, tx.Queries, &g)
}
