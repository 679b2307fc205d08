package integrations

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type model struct {
	Slug           string     `json:"slug"`
	Name           string     `json:"name"`
	Enabled        bool       `json:"enabled"`
	IsCustom       bool       `json:"is_custom"`
	IsFinetune     bool       `json:"is_finetune"`
	BaseModel      *string    `json:"base_model_slug"`
	Pricing        route.JSON `json:"pricing_config"`
	Configurations route.JSON `json:"configurations"`
}

type modelList struct {
	Total          int     `json:"total"`
	AllowAllModels bool    `json:"allow_all_models" doc:"Whether models that are not listed may be used too"`
	Models         []model `json:"models"`
}

func (f *family) models(ctx context.Context, c *route.Caller, in *Named) (*modelList, error) {
	row, err := f.find(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	found, err := c.DB().IntegrationModels(ctx, row.ID)
	if err != nil {
		return nil, err
	}
	out := &modelList{Total: len(found), AllowAllModels: row.AllowAllModels, Models: []model{}}
	for _, m := range found {
		settings, err := encode(credentials.ResponseFields(row.Provider, m.Configuration, credentials.Wire))
		if err != nil {
			return nil, err
		}
		one := model{m.Slug, m.Name, m.Enabled, m.IsCustom, m.IsFinetune, nil, route.JSON(m.Pricing), settings}
		if m.BaseModel != "" {
			one.BaseModel = &m.BaseModel
		}
		out.Models = append(out.Models, one)
	}
	return out, nil
}

type modelInput struct {
	Slug           string                     `json:"slug" minLength:"1" maxLength:"255"`
	Name           route.Optional[string]     `json:"name,omitempty" maxLength:"255"`
	Enabled        bool                       `json:"enabled"`
	IsCustom       route.Optional[bool]       `json:"is_custom,omitempty"`
	IsFinetune     route.Optional[bool]       `json:"is_finetune,omitempty"`
	BaseModel      route.Optional[string]     `json:"base_model_slug,omitempty" maxLength:"255"`
	Pricing        route.Optional[route.JSON] `json:"pricing_config,omitempty"`
	Configurations route.Optional[route.JSON] `json:"configurations,omitempty" doc:"custom_host and custom_headers of this model"`
}

type modelsInput struct {
	Named
	Body struct {
		Models         []modelInput `json:"models" maxItems:"1000" nullable:"false" doc:"Models that are not listed stay unchanged"`
		AllowAllModels *bool        `json:"allow_all_models,omitempty"`
	}
}

// changedModels is the response to changing models.
type changedModels struct {
	Warnings []string `json:"warnings,omitempty" doc:"What was left out of addresses in the request"`
}

func (f *family) updateModels(ctx context.Context, c *route.Caller, in *modelsInput) (*changedModels, error) {
	row, err := f.find(ctx, c, in.Named, "update")
	if err != nil {
		return nil, err
	}
	before, err := modelsOf(ctx, c.DB(), row.ID)
	if err != nil {
		return nil, err
	}
	next, err := f.newModels(ctx, row, in.Body.Models, before)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		fresh, err := tx.Integration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(fresh.UpdatedAt, fresh.UpdatedAt, err); err != nil {
			return err
		}
		now, err := modelsOf(ctx, tx.Queries, row.ID)
		if err != nil {
			return err
		}
		priced := slices.ContainsFunc(next, func(m store.IntegrationModel) bool { return !credentials.SamePrice(m, now[m.Slug]) })
		for i, m := range next {
			if o := now[m.Slug]; o.Sealed != before[m.Slug].Sealed {
				return apierr.New(apierr.Conflict, "the model %q was changed by another request; read it again and retry",
					m.Slug).WithParam(fmt.Sprintf("models[%d]", i))
			}
		}
		was := fresh
		if in.Body.AllowAllModels != nil {
			fresh.AllowAllModels = *in.Body.AllowAllModels
		}
		change := modelChange{before: was, after: fresh, put: next}
		if err := change.store(ctx, c, tx); err != nil {
			return err
		}
		if priced {
			if err := credentials.CheckPrices(ctx, c, tx, fresh, "models"); err != nil {
				return err
			}
		}
		fresh.UpdatedAt = c.NextUpdateTime(fresh.UpdatedAt)
		return tx.UpdateIntegration(ctx, fresh)
	})
	return &changedModels{in.warnings(row)}, err
}

// warnings says what is left out of the addresses of models that the request sets.
func (in *modelsInput) warnings(row store.Integration) (list []string) {
	for i, m := range in.Body.Models {
		var fields credentials.Fields
		var host string
		if !m.Configurations.Set || json.Unmarshal(m.Configurations.Value, &fields) != nil ||
			json.Unmarshal(fields["custom_host"], &host) != nil {
			continue
		}
		row.Configuration.CustomHost = host
		list = append(list, credentials.AddressWarnings(credentials.CredentialInput{
			Path: fmt.Sprintf("models[%d].configurations.", i), Fields: route.Optional[credentials.Fields]{Set: true},
		}, &row)...)
	}
	return list
}

// modelChange is a change of the models of an integration.
type modelChange struct {
	before, after store.Integration
	put           []store.IntegrationModel
	removed       []string // slugs
	remove        func(ctx context.Context, integration, slug string) error
}

// store makes the change. The allowed models are a limit: it returns an error if the caller may
// not change it, and otherwise records who did.
func (m *modelChange) store(ctx context.Context, c *route.Caller, tx *store.Tx) error {
	i := &m.after
	models, err := modelsOf(ctx, tx.Queries, i.ID)
	if err != nil {
		return err
	}
	of := limits.Object{BudgetRef: store.BudgetRef{Kind: "integration", ID: i.ID}, Workspace: i.Workspace,
		Before: allowed(m.before.AllowAllModels, models)}
	for _, model := range m.put {
		if err := tx.PutIntegrationModel(ctx, model); err != nil {
			return err
		}
		models[model.Slug] = model
	}
	for _, slug := range m.removed {
		if err := m.remove(ctx, i.ID, slug); err != nil {
			return err
		}
		delete(models, slug)
	}
	of.After = allowed(i.AllowAllModels, models)
	return limits.Change(ctx, c, tx, of)
}

// allowed returns the allowed models as a limit, nil if all are allowed.
func allowed(all bool, models map[string]store.IntegrationModel) limits.Fields {
	list := []string{"only"}
	if all {
		list[0] = "except"
	}
	for _, slug := range slices.Sorted(maps.Keys(models)) {
		if models[slug].Enabled != all {
			list = append(list, slug)
		}
	}
	if all && len(list) == 1 {
		return nil
	}
	return limits.Fields{"models": strings.Join(list, " ")}
}

// modelsOf returns the models of an integration by slug.
func modelsOf(ctx context.Context, q store.Queries, integration string) (map[string]store.IntegrationModel, error) {
	list, err := q.IntegrationModels(ctx, integration)
	out := make(map[string]store.IntegrationModel, len(list))
	for _, m := range list {
		out[m.Slug] = m
	}
	return out, err
}

// newModels returns the models of a request merged over before.
func (f *family) newModels(ctx context.Context, row store.Integration, list []modelInput,
	before map[string]store.IntegrationModel) ([]store.IntegrationModel, error) {
	seen := make(map[string]bool)
	var out []store.IntegrationModel
	for i, in := range list {
		path := fmt.Sprintf("models[%d]", i)
		if seen[in.Slug] {
			return nil, route.Invalid(path+".slug", "is already used by another entry")
		}
		seen[in.Slug] = true
		m, known := before[in.Slug]
		if !known {
			m = store.IntegrationModel{Integration: row.ID, Slug: in.Slug, Name: in.Slug}
		}
		if err := in.apply(path, &m); err != nil {
			return nil, err
		}
		if in.Configurations.Set {
			if err := f.keeper.ApplyModel(ctx, row.Organisation, path+".configurations", &m, []byte(in.Configurations.Value)); err != nil {
				return nil, err
			}
		}
		out = append(out, m)
	}
	return out, nil
}

func (in *modelInput) apply(path string, m *store.IntegrationModel) (err error) {
	m.Enabled, m.IsCustom, m.IsFinetune = in.Enabled, in.IsCustom.Or(m.IsCustom), in.IsFinetune.Or(m.IsFinetune)
	m.Name, m.BaseModel = in.Name.Or(m.Name), in.BaseModel.Or(m.BaseModel)
	if err := cmp.Or(route.CheckLength(path+".name", m.Name, 0, 255),
		route.CheckLength(path+".base_model_slug", m.BaseModel, 0, 255)); err != nil {
		return err
	}
	if in.Pricing.Set {
		m.Pricing, err = pricing(path+".pricing_config", in.Pricing.Value)
	}
	return err
}

type deleteModelsInput struct {
	Named
	Slugs string `query:"slugs" required:"true" minLength:"1" maxLength:"8192" doc:"Separated by commas"`
}

func (f *family) deleteModels(ctx context.Context, c *route.Caller, in *deleteModelsInput) (*route.Empty, error) {
	row, err := f.find(ctx, c, in.Named, "update")
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		fresh, err := tx.Integration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(fresh.UpdatedAt, fresh.UpdatedAt, err); err != nil {
			return err
		}
		models, err := modelsOf(ctx, tx.Queries, row.ID)
		if err != nil {
			return err
		}
		change := modelChange{before: fresh, after: fresh, remove: tx.DeleteCustomModel}
		for slug := range strings.SplitSeq(in.Slugs, ",") {
			slug = strings.TrimSpace(slug)
			if !credentials.SamePrice(models[slug], store.IntegrationModel{}) {
				if err := credentials.CheckPrices(ctx, c, tx, fresh, "models"); err != nil {
					return err
				}
			}
			if models[slug].IsCustom && !slices.Contains(change.removed, slug) {
				change.removed = append(change.removed, slug)
			}
		}
		if err := change.store(ctx, c, tx); err != nil {
			return err
		}
		fresh.UpdatedAt = c.NextUpdateTime(fresh.UpdatedAt)
		return tx.UpdateIntegration(ctx, fresh)
	})
	return &route.Empty{}, err
}
