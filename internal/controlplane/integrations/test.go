package integrations

import (
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// maxListed is how many models the response to a test lists.
const maxListed = 1000

func (f *family) addTest(a *route.API) {
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/integrations/test", Name: "test-integration", Tag: "Integrations",
		Summary: "Try credentials step by step, without storing them; a completion, sent if model is given, costs money and is logged",
		Scopes: []access.Scope{organisationWide + "create", ofWorkspace + "create", organisationWide + "update",
			ofWorkspace + "update"},
	}, f.test)
}

type testInput struct {
	Body struct {
		Integration    string                             `json:"integration,omitempty" maxLength:"255" doc:"Id or slug of a stored integration, whose settings the other fields replace"`
		Managed        string                             `json:"provider,omitempty" maxLength:"255" doc:"Id or slug of a provider of the workspace, instead of integration"`
		Workspace      string                             `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug of the workspace whose limits apply; required for organisation keys with model"`
		Provider       string                             `json:"ai_provider_id,omitempty" maxLength:"128" doc:"Id or alias of a provider; required without integration and provider"`
		Key            route.Optional[string]             `json:"key,omitempty" maxLength:"16384"`
		Configurations route.Optional[credentials.Fields] `json:"configurations,omitempty" doc:"As for a new integration"`
		Mappings       []credentials.Mapping              `json:"secret_mappings,omitempty" maxItems:"64"`
		Model          string                             `json:"model,omitempty" maxLength:"255" doc:"Model that gets a completion of a few tokens, which costs money"`
	}
}

// testedStep is a step of a test.
type testedStep struct {
	Step    string  `json:"step" enum:"address,resolve,connect,tls,credential,models,completion"`
	State   string  `json:"state" enum:"ok,failed,skipped"`
	Took    float64 `json:"ms"`
	Status  *int    `json:"status" doc:"Of the provider's response, null without one"`
	Paid    bool    `json:"paid" doc:"Whether the step sends what costs money"`
	Message string  `json:"message" doc:"What went wrong, or what was found; may be empty"`
}

// testedLimit is a rate limit that the provider announced.
type testedLimit = credentials.RateLimit

type tested struct {
	OK         bool          `json:"ok" doc:"Whether no step failed"`
	Steps      []testedStep  `json:"steps"`
	Models     []string      `json:"models" doc:"Names of models that the provider lists, 1000 at most"`
	Total      int           `json:"total_models"`
	RateLimits []testedLimit `json:"rate_limits" doc:"In the headers of responses"`
	LogID      *string       `json:"log_id" doc:"Log entry of the completion; null if none was sent"`
	Object     string        `json:"object"`
}

func (f *family) test(ctx context.Context, c *route.Caller, in *testInput) (*tested, error) {
	t, err := f.trial(ctx, c, in)
	if err != nil {
		return nil, err
	}
	res, err := f.tests.Try(ctx, c, t)
	if err != nil {
		return nil, err
	}
	return toTested(res), nil
}

// trial returns what a request asks to try.
func (f *family) trial(ctx context.Context, c *route.Caller, in *testInput) (t *credentials.Trial, err error) {
	b := &in.Body
	if b.Managed != "" {
		if b.Integration, err = managed(ctx, c, in); err != nil {
			return nil, err
		}
	}
	t = &credentials.Trial{Model: b.Model}
	if b.Integration != "" {
		t.Integration, t.Models, err = f.storedTrial(ctx, c, in)
	} else {
		t.Integration, err = f.newTrial(ctx, c, in)
	}
	if err != nil {
		return nil, err
	}
	if b.Mappings != nil {
		if err := credentials.SetMappings(ctx, c.DB(), &t.Integration, b.Mappings); err != nil {
			return nil, err
		}
	}
	given := credentials.CredentialInput{Path: "configurations.", Key: b.Key, Fields: b.Configurations}
	if b.Integration == "" { // the address is checked even without a credential
		given.Key.Set, given.Fields.Set = true, true
	}
	if err := f.keeper.Apply(ctx, &t.Integration, given); err != nil {
		return nil, err
	}
	if err := credentials.CheckMappings(ctx, c.DB(), &t.Integration); err != nil {
		return nil, err
	}
	workspace, err := credentials.Payer(ctx, c, t.Integration.Workspace, b.Workspace, b.Model)
	if err != nil {
		return nil, err
	}
	t.Identity, err = c.IdentityIn(ctx, workspace)
	return t, err
}

// managed returns the id of the integration of the provider that a request names.
func managed(ctx context.Context, c *route.Caller, in *testInput) (string, error) {
	b := &in.Body
	if b.Integration != "" {
		return "", route.Invalid("provider", "cannot be given with integration; leave one of them out")
	}
	limit, err := c.VisibleWorkspace(ctx, b.Workspace)
	if err != nil {
		return "", err
	}
	if limit == "" {
		w, err := c.InWorkspace(ctx, b.Workspace)
		if err != nil {
			return "", err
		}
		limit = w.ID
	}
	row, err := c.DB().Provider(ctx, c.Organisation, limit, b.Managed)
	if apierr.IsNotFound(err) {
		return "", route.NotFound("provider", "provider", b.Managed)
	}
	return row.Integration, err
}

// newTrial returns an integration that is not stored.
func (f *family) newTrial(ctx context.Context, c *route.Caller, in *testInput) (row store.Integration, err error) {
	b := &in.Body
	if b.Provider == "" {
		return row, route.Invalid("ai_provider_id", "is required, or else integration or provider")
	}
	spec, err := credentials.Row("ai_provider_id", b.Provider, b.Configurations.Value)
	if err != nil {
		return row, err
	}
	row = store.Integration{ID: c.NewID(), Organisation: c.Organisation, Slug: "test", Provider: spec.ID, AllowAllModels: true,
		Status: store.Active}
	row.Workspace, err = owner(ctx, c, b.Workspace)
	return row, err
}

// storedTrial returns a stored integration that the caller may change, with its models.
func (f *family) storedTrial(ctx context.Context, c *route.Caller, in *testInput) (row store.Integration,
	models []store.IntegrationModel, err error) {
	b := &in.Body
	if row, err = f.find(ctx, c, Named{Integration: b.Integration, Workspace: b.Workspace}, "update"); err != nil {
		return row, nil, err
	}
	if b.Provider != "" {
		spec, err := credentials.Row("ai_provider_id", b.Provider, b.Configurations.Value)
		if err == nil && spec.ID != row.Provider {
			err = route.Invalid("ai_provider_id", "is not that of the integration, %s; leave it out", row.Provider)
		}
		if err != nil {
			return row, nil, err
		}
	}
	models, err = c.DB().IntegrationModels(ctx, row.ID)
	return row, models, err
}

func toTested(res *dataplane.ProviderTrialResult) *tested {
	out := &tested{OK: true, Total: len(res.Models), Models: append([]string{}, res.Models[:min(len(res.Models), maxListed)]...),
		RateLimits: credentials.RateLimits(res.RateLimits), LogID: route.OrNull(res.LogID), Object: "integration_test"}
	for _, s := range res.Steps {
		one := testedStep{Step: s.Name, State: string(s.State), Took: float64(s.Took.Round(time.Microsecond)) / 1e6, Message: s.Message,
			Paid: s.Name == "completion"}
		if s.Status != 0 {
			one.Status = &s.Status
		}
		out.Steps = append(out.Steps, one)
	}
	out.OK = !slices.ContainsFunc(res.Steps, func(s dataplane.TrialStep) bool { return s.State == dataplane.TrialFailed })
	return out
}
