package organisations

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Reference identifies a guardrail in a response.
type Reference struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
}

type defaultsResponse struct {
	Input  []Reference `json:"input_guardrails"`
	Output []Reference `json:"output_guardrails"`
}

func defaults(ctx context.Context, c *route.Caller, _ *struct{}) (*defaultsResponse, error) {
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	out := new(defaultsResponse)
	if out.Input, err = references(ctx, c, o.Settings.InputGuardrails); err != nil {
		return nil, err
	}
	out.Output, err = references(ctx, c, o.Settings.OutputGuardrails)
	return out, err
}

// references returns the guardrails with the given ids.
func references(ctx context.Context, c *route.Caller, ids []string) ([]Reference, error) {
	list := []Reference{}
	for _, id := range ids {
		g, err := c.DB().Guardrail(ctx, c.Organisation, "", id)
		if err != nil {
			return nil, err
		}
		list = append(list, Reference{g.ID, g.Slug})
	}
	return list, nil
}

type defaultsInput struct {
	Body struct {
		Input  route.Optional[[]string] `json:"input_guardrails,omitempty" maxItems:"100" maxLength:"255" doc:"Ids or slugs of guardrails of the organisation, for every request of all workspaces; null or empty for none"`
		Output route.Optional[[]string] `json:"output_guardrails,omitempty" maxItems:"100" maxLength:"255" doc:"The same for responses"`
	}
}

func updateDefaults(ctx context.Context, c *route.Caller, in *defaultsInput) (*route.Empty, error) {
	return change(ctx, c, func(tx *store.Tx, o *store.Organisation) (err error) {
		for _, list := range []struct {
			field string
			given route.Optional[[]string]
			to    *[]string
		}{
			{"input_guardrails", in.Body.Input, &o.Settings.InputGuardrails},
			{"output_guardrails", in.Body.Output, &o.Settings.OutputGuardrails},
		} {
			if !list.given.Set {
				continue
			}
			if *list.to, err = route.ResolveGuardrails(ctx, tx.Queries, store.Workspace{Organisation: o.ID},
				list.field, list.given.Value); err != nil {
				return err
			}
		}
		return nil
	})
}
