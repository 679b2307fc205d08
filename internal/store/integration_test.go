package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

var day = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// newIntegration returns an integration of the first organisation with
// everything that a row may hold.
func newIntegration(id, workspace string) store.Integration {
	return store.Integration{
		ID: id, Organisation: store.DefaultOrganisation, Workspace: workspace, Slug: "slug-" + id, Name: `n'"\x`, Description: "d",
		Provider: "openai", Sealed: "sealed-" + id,
		Configuration: store.IntegrationSettings{
			CustomHost: "https://models.example.com", Options: map[string]string{"organization": "o"},
			Deployments: []store.Deployment{{Alias: "a", Name: "d", APIVersion: "v1", Model: "m", Default: true}},
			Reserved:    true, Masks: store.Masks{Key: "sk***yz", Headers: map[string]string{"X": "***"}},
		},
		SecretMappings: raw(`[{"target_field":"key"}]`), Pricing: raw(`{"multiplier":{"default":2}}`), Tags: map[string]string{"team": "a"},
		AllowAllModels: true, GlobalUsageLimits: raw(`[1]`), GlobalRateLimits: raw(`[2]`), Status: store.Active, CreatedAt: day, UpdatedAt: day,
	}
}

func newProvider(id, integration, slug string) store.Provider {
	return store.Provider{
		ID: id, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Integration: integration, Slug: slug, Name: "n", Note: "n",
		UsageLimits: raw(`{"credit_limit":1}`), RateLimits: raw(`[1]`), Tags: map[string]string{"a": "b"}, MadeByGrant: true,
		Status: store.Active, CreatedAt: day, UpdatedAt: day, ExpiresAt: day.Add(time.Hour),
	}
}

// mustChange makes a change that has to be kept.
func mustChange(t *testing.T, db *store.DB, f func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), nil, f); err != nil {
		t.Fatal(err)
	}
}

// mustMake stores integrations, and a provider of each with its slug.
func mustMake(t *testing.T, db *store.DB, list ...store.Integration) {
	t.Helper()
	mustChange(t, db, func(tx *store.Tx) error {
		for _, i := range list {
			err := errors.Join(tx.CreateIntegration(t.Context(), i), tx.CreateProvider(t.Context(), newProvider("p-"+i.ID, i.ID, i.Slug)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func integrationIDs(list []store.Integration) (ids []string) {
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	return ids
}

func providerIDs(list []store.Provider) (ids []string) {
	for _, p := range list {
		ids = append(ids, p.ID)
	}
	return ids
}

func kind(err error) apierr.Kind {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e.Kind
	}
	return apierr.Internal
}

func TestIntegrationsAndProvidersAreKeptWhole(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		want := newIntegration("1", "")
		mustMake(t, db, want)
		for _, ref := range []string{want.ID, want.Slug} {
			got, err := db.Integration(ctx, store.DefaultOrganisation, ref)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		}
		p, err := db.Provider(ctx, store.DefaultOrganisation, store.DefaultWorkspace, want.Slug)
		if diff := cmp.Diff(newProvider("p-1", "1", want.Slug), p); err != nil || diff != "" {
			t.Error(err, diff)
		}
		want.Name, want.Sealed, want.GlobalEnabled, want.Tags = "other", "", true, map[string]string{}
		p.Name, p.ExpiresAt, p.UsageLimits = "other", time.Time{}, raw("null")
		mustChange(t, db, func(tx *store.Tx) error {
			return errors.Join(tx.UpdateIntegration(ctx, want), tx.UpdateProvider(ctx, p))
		})
		got, err := db.Integration(ctx, store.DefaultOrganisation, "1")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
		again, err := db.Provider(ctx, store.DefaultOrganisation, "", "p-1")
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}

func TestSlugsOfIntegrationsAndProvidersAreTheirsWhileTheyAreActive(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		mustMake(t, db, newIntegration("1", ""))
		twin := newIntegration("2", "")
		twin.Slug = "slug-1"
		create := func() error {
			return db.Update(ctx, nil, func(tx *store.Tx) error { return tx.CreateIntegration(ctx, twin) })
		}
		provide := func(id string) error {
			return db.Update(ctx, nil, func(tx *store.Tx) error { return tx.CreateProvider(ctx, newProvider(id, "1", "slug-1")) })
		}
		if err := create(); kind(err) != apierr.Conflict {
			t.Errorf("a second integration: %v", err)
		}
		if err := provide("p-2"); kind(err) != apierr.Conflict {
			t.Errorf("a second provider: %v", err)
		}
		mustChange(t, db, func(tx *store.Tx) error { return tx.ArchiveIntegration(ctx, "1", day) })
		if err := create(); err != nil {
			t.Errorf("after the first was archived: %v", err)
		}
		if err := provide("p-3"); err != nil {
			t.Errorf("a provider, after the first was archived: %v", err)
		}
		if err := db.Update(ctx, nil, func(tx *store.Tx) error { return tx.ArchiveIntegration(ctx, "1", day) }); kind(err) != apierr.NotFound {
			t.Errorf("archiving twice: %v", err)
		}
		for _, q := range []func() error{
			func() error { _, err := db.Provider(ctx, store.DefaultOrganisation, "", "p-1"); return err },
			func() error { _, err := db.Integration(ctx, "other", "2"); return err },
			func() error { _, err := db.Provider(ctx, "other", "", "p-3"); return err },
			func() error { _, err := db.Provider(ctx, store.DefaultOrganisation, "other", "p-3"); return err },
			func() error { _, err := db.Provider(ctx, store.DefaultOrganisation, "", "slug-1"); return err },
		} {
			if err := q(); kind(err) != apierr.NotFound {
				t.Errorf("got %v, want not found", err)
			}
		}
	})
}

func TestAWorkspaceHasWhatItWasGivenOrWhatAllGet(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		list := []store.Integration{newIntegration("1", ""), newIntegration("2", ""), newIntegration("3", ""), newIntegration("4", store.DefaultWorkspace), newIntegration("5", "")}
		list[1].GlobalEnabled, list[2].GlobalEnabled = true, true
		mustMake(t, db, list...)
		grant := func(integration string, enabled bool) {
			mustChange(t, db, func(tx *store.Tx) error {
				return tx.PutIntegrationWorkspace(ctx, store.IntegrationWorkspace{Integration: integration, Workspace: store.DefaultWorkspace, Enabled: enabled, Status: store.Active})
			})
		}
		grant("1", false)
		grant("1", true)
		grant("3", false)
		grant("4", true)
		for i, want := range []bool{true, true, false, true, false} {
			if got, err := db.HasIntegration(ctx, list[i], store.DefaultWorkspace); got != want || err != nil {
				t.Errorf("integration %d: has = %t, %v", i+1, got, err)
			}
			if n, err := db.IntegrationReach(ctx, list[i]); (n == 1) != want || err != nil {
				t.Errorf("integration %d: reach = %d, %v", i+1, n, err)
			}
		}
		all, total, err := db.Integrations(ctx, store.IntegrationFilter{Organisation: store.DefaultOrganisation, Shared: true, Own: true, Workspace: store.DefaultWorkspace}, store.Page{})
		if ids := fmt.Sprint(integrationIDs(all)); ids != "[4 2 1]" || total != 3 || err != nil {
			t.Errorf("listed %s of %d, %v", ids, total, err)
		}
		global, err := db.GlobalIntegrations(ctx, store.DefaultOrganisation)
		if ids := fmt.Sprint(integrationIDs(global)); ids != "[2 3]" || err != nil {
			t.Errorf("what all get: %s, %v", ids, err)
		}
	})
}

func TestAWorkspaceThatGoesTakesItsIntegrationsAndProvidersAlong(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		mustMake(t, db, newIntegration("1", ""), newIntegration("2", store.DefaultWorkspace))
		mustChange(t, db, func(tx *store.Tx) error {
			model := store.IntegrationModel{Integration: "2", Slug: "m", Enabled: true, Sealed: "sealed"}
			return errors.Join(tx.PutIntegrationModel(ctx, model), tx.ArchiveWorkspaceIntegrations(ctx, store.DefaultWorkspace, day))
		})
		if models, err := db.IntegrationModels(ctx, "2"); err != nil || len(models) != 1 || models[0].Sealed != "" {
			t.Errorf("a model keeps its secrets: %v, %v", models, err)
		}
		list, total, err := db.Integrations(ctx, store.IntegrationFilter{Organisation: store.DefaultOrganisation, Shared: true, Own: true}, store.Page{})
		if total != 1 || list[0].ID != "1" || err != nil {
			t.Errorf("%d integrations are left, %v", total, err)
		}
		if _, n, err := db.Providers(ctx, store.DefaultOrganisation, "", nil, store.Page{}); n != 0 || err != nil {
			t.Errorf("%d providers are left, %v", n, err)
		}
	})
}

func TestModelsOfAnIntegrationArePutAndOnlyCustomOnesDeleted(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		mustMake(t, db, newIntegration("1", ""))
		custom := store.IntegrationModel{
			Integration: "1", Slug: "b", Name: "B", Enabled: true, IsCustom: true, IsFinetune: true, BaseModel: "a", Pricing: raw(`{"type":"static"}`),
			Configuration: store.IntegrationSettings{CustomHost: "https://b.example.com"}, Sealed: "s",
		}
		known := store.IntegrationModel{Integration: "1", Slug: "a", Name: "a", Enabled: true, Pricing: raw("null")}
		put := func(m store.IntegrationModel) {
			mustChange(t, db, func(tx *store.Tx) error { return tx.PutIntegrationModel(ctx, m) })
		}
		put(known)
		put(custom)
		known.Enabled = false
		put(known)
		got, err := db.IntegrationModels(ctx, "1")
		if diff := cmp.Diff([]store.IntegrationModel{known, custom}, got); err != nil || diff != "" {
			t.Error(err, diff)
		}
		mustChange(t, db, func(tx *store.Tx) error {
			return errors.Join(tx.DeleteCustomModel(ctx, "1", "a"), tx.DeleteCustomModel(ctx, "1", "b"), tx.DeleteCustomModel(ctx, "1", "c"))
		})
		if got, err = db.IntegrationModels(ctx, "1"); len(got) != 1 || got[0].Slug != "a" || err != nil {
			t.Errorf("left: %v, %v", got, err)
		}
	})
}

func TestProvidersAreListedByPageAndTags(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, ctx := open(), t.Context()
		mustMake(t, db, newIntegration("1", ""), newIntegration("2", ""), newIntegration("3", ""))
		for _, tt := range []struct {
			tags  map[string]string
			page  store.Page
			want  string
			total int
		}{
			{nil, store.Page{}, "[p-3 p-2 p-1]", 3},
			{nil, store.Page{Size: 2}, "[p-3 p-2]", 3},
			{nil, store.Page{Size: 2, Number: 1}, "[p-1]", 3},
			{map[string]string{"a": "b"}, store.Page{Size: 2, Number: 1}, "[p-1]", 3},
			{map[string]string{"a": "b"}, store.Page{}, "[p-3 p-2 p-1]", 3},
			{map[string]string{"a": "c"}, store.Page{}, "[]", 0},
			{map[string]string{"a": ""}, store.Page{}, "[]", 0},
			{map[string]string{"c": ""}, store.Page{}, "[]", 0},
		} {
			list, total, err := db.Providers(ctx, store.DefaultOrganisation, store.DefaultWorkspace, tt.tags, tt.page)
			if ids := fmt.Sprint(providerIDs(list)); ids != tt.want || total != tt.total || err != nil {
				t.Errorf("%v: %s of %d, %v", tt, ids, total, err)
			}
		}
	})
}

func TestSecretsComeBackAsTheyWereWritten(t *testing.T) {
	s := store.Secrets{Key: secret.New(`k"`), Options: map[string]secret.String{"o": secret.New("v")}, Headers: map[string]secret.String{"H": secret.New("w")}}
	got, err := store.ParseSecrets(s.Text())
	if err != nil || got.Key.Reveal() != `k"` || got.Options["o"].Reveal() != "v" || got.Headers["H"].Reveal() != "w" || got.Empty() {
		t.Errorf("ParseSecrets = %v, %v", got, err)
	}
	if got, err := store.ParseSecrets(secret.New("")); err != nil || !got.Empty() {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	if _, err := store.ParseSecrets(secret.New("canary")); err == nil || err.Error() != "reading opened secrets: not JSON" {
		t.Errorf("of what is none: %v", err)
	}
}

func TestADeploymentIsMeantByItsNamesOrElseByDefault(t *testing.T) {
	c := store.IntegrationSettings{
		Options:     map[string]string{"resource_name": "r"},
		Deployments: []store.Deployment{{Alias: "x", Name: "1"}, {Alias: "y", Name: "2", Model: "x", APIVersion: "v", Default: true}, {Name: "3", Model: "z"}},
	}
	for model, want := range map[string]string{"x": "1", "y": "2", "z": "3", "other": "2", "": "2"} {
		if d, ok := c.Deployment(model); d.Name != want || !ok {
			t.Errorf("Deployment(%q) = %v, want %s", model, d, want)
		}
	}
	s := store.Secrets{Options: map[string]secret.String{"ad_token": secret.New("t")}}
	want := map[string]string{"resource_name": "r", "ad_token": "t", "deployment_id": "2", "api_version": "v", "model_name": "x"}
	if diff := cmp.Diff(want, c.TargetOptions(s, "")); diff != "" || len(c.Options) != 1 {
		t.Error(diff)
	}
	if _, ok := (store.IntegrationSettings{}).Deployment("x"); ok || len((store.IntegrationSettings{}).TargetOptions(store.Secrets{}, "")) != 0 {
		t.Error("there is a deployment where there are none")
	}
}

func TestAProviderHasExpiredWhenItsTimeHasCome(t *testing.T) {
	p := newProvider("1", "1", "s")
	for _, tt := range []struct {
		status string
		at     time.Time
		want   string
	}{
		{store.Active, p.ExpiresAt.Add(-1), store.Active}, {store.Active, p.ExpiresAt, store.Expired},
		{store.Exhausted, p.ExpiresAt, store.Expired}, {store.Archived, p.ExpiresAt, store.Archived},
	} {
		p.Status = tt.status
		if got := p.StatusAt(tt.at); got != tt.want {
			t.Errorf("%s at %s: %s, want %s", tt.status, tt.at, got, tt.want)
		}
	}
}
