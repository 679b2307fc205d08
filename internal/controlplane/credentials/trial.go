package credentials

import (
	"cmp"
	"context"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Trial is an integration to try, as it would be after it was stored.
type Trial struct {
	Integration store.Integration
	Models      []store.IntegrationModel
	Identity    *access.Identity // of the caller, in the workspace whose limits apply
	Model       string           // gets a completion; empty sends none
}

// TestQuery asks for a test of credentials before they are stored.
type TestQuery struct {
	Test      bool   `query:"test" doc:"Tests the credentials first, as integrations/test does, and changes nothing if they fail"`
	TestModel string `query:"test_model" maxLength:"255" doc:"With test: model that gets a completion of a few tokens, which costs money"`
}

// Tester tries credentials at their providers. It is safe for concurrent use.
type Tester struct {
	try   func(context.Context, *Trial) (*dataplane.ProviderTrialResult, error)
	slots route.Slots
}

// NewTester returns a Tester that tries with a function.
func NewTester(try func(context.Context, *Trial) (*dataplane.ProviderTrialResult, error)) *Tester {
	return &Tester{try: try, slots: route.Slots{Tests: "tests of integrations"}}
}

// Try tries a trial step by step. A nil Tester reports that it cannot, and one with too many
// tests in progress reports that.
func (t *Tester) Try(ctx context.Context, c *route.Caller, trial *Trial) (*dataplane.ProviderTrialResult, error) {
	if t == nil {
		return nil, apierr.New(apierr.Unavailable, "this gateway cannot test integrations")
	}
	if err := t.slots.Take(c.Organisation); err != nil {
		return nil, err
	}
	defer t.slots.Leave(c.Organisation)
	return t.try(ctx, trial)
}

// Check tries an integration that is about to be stored, if q asks for it. Workspace is the
// one whose limits and egress policies apply; empty is that of the integration or of the
// caller, otherwise the default workspace if there is a completion to pay. The error names the
// step that failed; a credential that nothing could prove is an error too.
func (t *Tester) Check(ctx context.Context, c *route.Caller, q TestQuery, workspace string, row store.Integration) error {
	if !q.Test {
		if q.TestModel != "" {
			return route.Invalid("test_model", "is used by a test only; add test=true")
		}
		return nil
	}
	trial := &Trial{Integration: row, Model: q.TestModel}
	var err error
	if cmp.Or(workspace, row.Workspace, c.Workspace) == "" && q.TestModel != "" {
		if workspace, err = c.DB().DefaultWorkspaceID(ctx, c.Organisation); err != nil {
			return err
		}
	}
	if workspace, err = Payer(ctx, c, row.Workspace, workspace, q.TestModel); err != nil {
		return err
	}
	if trial.Identity, err = c.IdentityIn(ctx, workspace); err != nil {
		return err
	}
	if trial.Models, err = c.DB().IntegrationModels(ctx, row.ID); err != nil {
		return err
	}
	res, err := t.Try(ctx, c, trial)
	if err != nil {
		return err
	}
	return refuseFailed(res)
}

// Payer returns the workspace whose limits and egress policies apply to a test of an
// integration of owner: the named one, otherwise the owner. Empty is the organisation, which
// pays for no completion.
func Payer(ctx context.Context, c *route.Caller, owner, named, model string) (string, error) {
	if named == "" {
		named = owner
	}
	if named == "" && model == "" && (c.Allows(access.ScopeAll) || c.Workspace == "") {
		return "", nil
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// refuseFailed returns an error for a test that did not prove the credential.
func refuseFailed(res *dataplane.ProviderTrialResult) error {
	failed := slices.IndexFunc(res.Steps, func(s dataplane.TrialStep) bool { return s.State == dataplane.TrialFailed })
	if failed < 0 {
		failed = slices.IndexFunc(res.Steps, func(s dataplane.TrialStep) bool {
			return s.Name == dataplane.TrialCredential && s.State == dataplane.TrialSkipped
		})
	}
	if failed < 0 {
		return nil
	}
	s := &res.Steps[failed]
	verb, param := "failed", "test"
	if s.State == dataplane.TrialSkipped {
		verb, param = "was not possible", "test_model"
	}
	return apierr.New(apierr.Invalid, "nothing was changed, because the test of the credentials %s at the step %s: %s", verb, s.Name, s.Message).
		WithParam(param)
}
