package publication_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

// historyStep is one step of a history, and how many identities, configs and provider
// entries are published then.
type historyStep struct {
	name                           string
	do                             func() error
	identities, configs, providers int
}

// What was read in parts has to be what reading all of it gives.
func TestPublishedStateFollowsEveryChange(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		var before *publication.State
		for _, step := range history(t, db, func(text string) error { storetest.Exec(t, dsn, text); return nil }) {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			got, err := publication.Load(t.Context(), db, before)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			whole, err := publication.Load(t.Context(), db, nil)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			byHash := cmpopts.SortSlices(func(a, b *access.Identity) bool { return a.Hash.String() < b.Hash.String() })
			if diff := cmp.Diff(whole, got, byHash, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: (-whole +in parts)\n%s", step.name, diff)
			}
			if len(got.Identities) != step.identities || len(got.Configs) != step.configs || len(got.Providers) != step.providers {
				t.Errorf("%s: %d identities, %d configs, %d providers; want %d, %d, %d", step.name,
					len(got.Identities), len(got.Configs), len(got.Providers), step.identities, step.configs, step.providers)
			}
			before = got
		}
	})
}

func history(t *testing.T, db *store.DB, raw func(string) error) []historyStep {
	ctx := t.Context()
	change := func(f func(*store.Tx) error) func() error {
		return func() error { return db.Update(ctx, nil, f) }
	}
	one, two := inDefault("one"), inDefault("two")
	previous := access.HashKey("before one")
	return []historyStep{
		{"nothing", func() error { return nil }, 0, 0, 0},
		{"a key", func() error { return db.CreateKey(ctx, one) }, 1, 0, 0},
		{"another", func() error { return db.CreateKey(ctx, two) }, 2, 0, 0},
		{"a config", func() error { mustSaveConfig(t, db); return nil }, 2, 1, 0},
		{"a key that is rotated", change(func(tx *store.Tx) error {
			one.PreviousHash, one.TransitionEndsAt = &previous, one.CreatedAt.Add(time.Hour)
			return tx.UpdateKey(ctx, one)
		}), 3, 1, 0},
		{"a new version of the config", change(func(tx *store.Tx) error {
			c, err := tx.Config(ctx, store.DefaultOrganisation, "", "pc")
			if err != nil {
				return err
			}
			c.VersionID = "v2"
			return tx.UpdateConfig(ctx, c, &store.ConfigVersion{ID: "v2", Config: c.ID, Text: `{"a":1}`, CreatedAt: c.CreatedAt})
		}), 3, 1, 0},
		{"an integration and its entry", change(func(tx *store.Tx) error { return addEntry(t, tx) }), 3, 1, 1},
		{"a secret reference", change(func(tx *store.Tx) error {
			return tx.CreateSecretReference(ctx, store.SecretReference{ID: "ref", Organisation: store.DefaultOrganisation, Slug: "ref", Manager: "file", Path: "/a", CreatedAt: one.CreatedAt, UpdatedAt: one.CreatedAt})
		}), 3, 1, 1},
		{"another path of it", change(func(tx *store.Tx) error {
			s, err := tx.SecretReference(ctx, store.DefaultOrganisation, "ref")
			if err != nil {
				return err
			}
			s.Path = "/b"
			return tx.UpdateSecretReference(ctx, s)
		}), 3, 1, 1},
		{"a key that is revoked", func() error { return db.RevokeKey(ctx, two.ID) }, 2, 1, 1},
		{"how much an organisation keeps", change(func(tx *store.Tx) error {
			o, err := tx.Organisation(ctx, store.DefaultOrganisation)
			if err != nil {
				return err
			}
			o.Settings.Logging, o.Settings.LoggingOverridable = store.LoggingFull, true
			return tx.UpdateOrganisation(ctx, o)
		}), 2, 1, 1},
		{"how much a workspace keeps", change(func(tx *store.Tx) error {
			w, err := tx.Workspace(ctx, store.DefaultOrganisation, store.DefaultWorkspace)
			if err != nil {
				return err
			}
			w.Settings = json.RawMessage(`{"request_logging":"none"}`)
			return tx.UpdateWorkspace(ctx, w)
		}), 2, 1, 1},
		{"defaults of a workspace, written past the journal", func() error {
			if err := raw(`UPDATE workspaces SET defaults = '{"metadata":{"team":"a"}}'`); err != nil {
				return err
			}
			return raw(`UPDATE revision SET value = value + 1`)
		}, 2, 1, 1},
		{"many keys at once", change(func(tx *store.Tx) error {
			for i := range 60 {
				if err := tx.CreateKey(ctx, inDefault(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			return nil
		}), 62, 1, 1},
		{"a workspace that is archived", change(func(tx *store.Tx) error { return archive(t, tx, store.Archived) }), 0, 0, 0},
		{"and taken back", change(func(tx *store.Tx) error { return archive(t, tx, store.Active) }), 62, 1, 1},
		{"a workspace that is archived past the journal", func() error {
			if err := raw(`UPDATE workspaces SET status = 'archived'`); err != nil {
				return err
			}
			return raw(`UPDATE revision SET value = value + 1`)
		}, 0, 0, 0},
		{"a backup that is put back", func() error {
			for _, text := range []string{`UPDATE workspaces SET status = 'active'`, `DELETE FROM changes WHERE revision > 3`, `UPDATE revision SET value = 3`} {
				if err := raw(text); err != nil {
					return err
				}
			}
			for i := range 12 {
				if err := db.CreateKey(ctx, inDefault(fmt.Sprint("again ", i))); err != nil {
					return err
				}
			}
			return nil
		}, 74, 1, 1},
	}
}

func archive(t *testing.T, tx *store.Tx, status string) error {
	w, err := tx.Workspace(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace)
	if err != nil {
		return err
	}
	w.Status = status
	return tx.UpdateWorkspace(t.Context(), w)
}

func inDefault(name string) store.Key {
	k := sampleKey(name)
	k.Organisation, k.Workspace = store.DefaultOrganisation, store.DefaultWorkspace
	return k
}

func addEntry(t *testing.T, tx *store.Tx) error {
	now := time.Now()
	err := tx.CreateIntegration(t.Context(), store.Integration{ID: "i1", Organisation: store.DefaultOrganisation, Slug: "sim", Name: "Sim",
		Provider: "openai", GlobalEnabled: true, Status: store.Active, CreatedAt: now, UpdatedAt: now})
	if err != nil {
		return err
	}
	err = tx.PutIntegrationModel(t.Context(), store.IntegrationModel{Integration: "i1", Slug: "m", Name: "m", Enabled: true})
	if err != nil {
		return err
	}
	return tx.CreateProvider(t.Context(), store.Provider{ID: "p1", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
		Integration: "i1", Slug: "stored", Name: "Stored", Status: store.Active, CreatedAt: now, UpdatedAt: now})
}

func TestAKeyBringsTheMetadataOfItsWorkspace(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		storetest.Exec(t, dsn, `UPDATE workspaces SET defaults = '{"metadata":{"team":"a","env":"w"},"other":[1]}'`)
		k := inDefault("ci")
		k.Defaults = []byte(`{"metadata":{"env":"k","app":"x"},"config_id":"pc"}`)
		mustCreate(t, db, k)
		p, err := publication.Load(t.Context(), db, nil)
		if err != nil || len(p.Identities) != 1 {
			t.Fatal(p, err)
		}
		id := p.Identities[0]
		want := map[string]string{"team": "a", "env": "w", "app": "x"}
		if diff := cmp.Diff(want, id.Metadata); diff != "" || id.Config != "pc" {
			t.Errorf("config %q, metadata (-want +got):\n%s", id.Config, diff)
		}
	})
}

func TestKeysThatChangeBetweenTwoLooksAreAllPublished(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		for _, order := range [][2]string{{"revoked", "renamed"}, {"renamed", "revoked"}} {
			revoked, renamed := inDefault("first "+order[0]), inDefault("second "+order[0])
			for _, k := range []*store.Key{&revoked, &renamed} {
				k.ID, k.Hash = k.Name, access.HashKey(k.Name)
				if err := db.CreateKey(t.Context(), *k); err != nil {
					t.Fatal(err)
				}
			}
			before, err := publication.Load(t.Context(), db, nil)
			if err != nil {
				t.Fatal(err)
			}
			if namesOf(before)[revoked.ID] == "" {
				t.Fatalf("the key %q is not published: %v", revoked.ID, namesOf(before))
			}
			revoked.Status, renamed.Name = store.KeyRevoked, "another name"
			changes := map[string]store.Key{"revoked": revoked, "renamed": renamed}
			for _, name := range order { // each a change with a revision of its own
				if err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateKey(t.Context(), changes[name]) }); err != nil {
					t.Fatal(err)
				}
			}
			historyStep, err := publication.Load(t.Context(), db, before)
			if err != nil {
				t.Fatal(err)
			}
			if got := namesOf(historyStep); got[revoked.ID] != "" || got[renamed.ID] != renamed.Name {
				t.Errorf("after %v: %v, want %q gone and %q renamed", order, got, revoked.ID, renamed.ID)
			}
		}
	})
}

// namesOf returns the names of the keys that are published, by id.
func namesOf(p *publication.State) map[string]string {
	names := make(map[string]string)
	for _, id := range p.Identities {
		names[id.KeyID] = id.Name
	}
	return names
}
