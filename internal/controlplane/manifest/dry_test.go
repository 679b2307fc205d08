package manifest_test

import (
	"slices"
	"testing"
	"time"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestDryRunReturnsTheErrorsOfTheRealRun(t *testing.T) {
	const (
		owner      = "members: [{email: owner@example.com, role: owner}, {email: ann@example.com}]\n"
		workspaces = "workspaces: [{slug: default}, {slug: ws-team}]\n"
		folders    = "prompt_collections: [{slug: co-top}]\n"
		prompts    = "prompts: [{slug: pp-a, collection: co-top, versions: [{string: hi}]}]\n"
		reference  = "secret_references: [{slug: sr-a, manager_type: environment, secret_path: APP}]\n"
	)
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, owner+workspaces+folders+prompts+reference+
			"integrations: [{slug: a, provider: openai, secret_mappings: [{target_field: key, secret_reference: sr-a}]}]\n", manifest.Apply{})
		w.mustBeOwnedBy(t, "owner@example.com")
		taken := access.HashKey("of another organisation")
		if err := w.DB.CreateKey(t.Context(), store.Key{ID: "k", Name: "theirs", Organisation: "another", Hash: taken, CreatedAt: time.Now()}); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct{ name, text, want string }{
			{"the owner", "members: [{email: ann@example.com}]\n",
				"member owner@example.com: the owner of the organisation cannot be removed; keep them in the file"},
			{"a secret reference in use", "secret_references: []\n", "nothing was applied: secret_reference sr-a: it is used by 1 integrations or credentials of partners; remove those first"},
			{"a key of another organisation", "keys: [{name: ours, sha256: " + taken.String() + "}]\n",
				"nothing was applied: the object already exists, or another object refers to it"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				before := w.revision(t)
				for _, dry := range []bool{true, false} {
					changes, err := w.apply(t, tt.text, manifest.Apply{Prune: true, DryRun: dry})
					if err == nil || err.Error() != tt.want {
						t.Errorf("with DryRun %t: %q, %v, want the error %q", dry, changes, err, tt.want)
					}
				}
				if after := w.revision(t); after != before {
					t.Errorf("the revision went from %d to %d", before, after)
				}
			})
		}
	})
}

func TestDryRunListsTheChangesOfTheRealRunAndKeepsNone(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		before, _ := w.mustExport(t, manifest.None)
		revision := w.revision(t)
		dry := w.mustApply(t, completeManifest(t), manifest.Apply{DryRun: true})
		if after, _ := w.mustExport(t, manifest.None); after != before || w.revision(t) != revision {
			t.Errorf("the dry run left revision %d, want %d, and\n%s", w.revision(t), revision, after)
		}
		o, err := w.DB.Organisation(t.Context(), "default")
		if err != nil || o.DataKey != "" {
			t.Errorf("the dry run made the data key %q, %v", o.DataKey, err)
		}
		if done := w.mustApply(t, completeManifest(t), manifest.Apply{}); !slices.Equal(dry, done) {
			t.Errorf("the dry run listed %q, and applying %q", dry, done)
		}
	})
}

// mustBeOwnedBy makes the person with an address the owner of the organisation.
func (p place) mustBeOwnedBy(t *testing.T, email string) {
	t.Helper()
	err := p.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		o, err := tx.Organisation(t.Context(), "default")
		if err != nil {
			return err
		}
		ids, err := tx.UserIDs(t.Context())
		if err != nil {
			return err
		}
		o.OwnerID = ids[email]
		return tx.UpdateOrganisation(t.Context(), o)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPruneKeepsTheDefaultWorkspace(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, "workspaces: [{slug: default}, {slug: ws-team}, {slug: ws-old}]\n", manifest.Apply{})
		for _, dry := range []bool{true, false} {
			changes, err := w.apply(t, "workspaces: [{slug: ws-team}]\n", manifest.Apply{Prune: true, DryRun: dry})
			if err != nil || len(changes) != 1 || changes[0] != "- workspace ws-old" {
				t.Errorf("with DryRun %t: %q, %v; want only the workspace ws-old removed", dry, changes, err)
			}
		}
	})
}
