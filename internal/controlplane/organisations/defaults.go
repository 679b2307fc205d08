package organisations

import (
	"context"

	"modelgate/internal/apierr"
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

// references returns the guardrails with the given ids. Archived ones are left out.
func references(ctx context.Context, c *route.Caller, ids []string) ([]Reference, error) {
	list := []Reference{}
	for _, id := range ids {
		g, err := c.DB().Guardrail(ctx, c.Organisation, "", id)
		if apierr.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Reference{g.ID, g.Slug})
	}
	return list, nil
}

type defaultsInput struct {
	Body struct {
		Input  route.Optional[[]string] `json:"input_guardrails,omitempty" maxItems:"100" maxLength:"255" doc:"Empty or null. Guardrails cannot be enforced yet: any other list is refused with 501"`
		Output route.Optional[[]string] `json:"output_guardrails,omitempty" maxItems:"100" maxLength:"255" doc:"The same as input_guardrails"`
	}
}

func updateDefaults(ctx context.Context, c *route.Caller, in *defaultsInput) (*route.Empty, error) {
	return change(ctx, c, func(tx *store.Tx, o *store.Organisation) error {
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
			if len(list.given.Value) > 0 {
				return route.NotEnforced(list.field)
			}
			*list.to = nil
		}
		return nil
	})
}
