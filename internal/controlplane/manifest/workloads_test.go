package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const workloadFile = `keys:
  - {name: one, sha256: 0a5b1f4d6c2e8f7091a3b5c7d9e1f2a4b6c8d0e2f4a6b8c0d2e4f6a8b0c2d4e6, scopes: [models.list], without_secret: true}
  - {name: two, sha256: 1a5b1f4d6c2e8f7091a3b5c7d9e1f2a4b6c8d0e2f4a6b8c0d2e4f6a8b0c2d4e6, scopes: [models.list]}
workload_identities:
  - {slug: shop, type: github-actions, key_sha256: 0a5b1f4d6c2e8f7091a3b5c7d9e1f2a4b6c8d0e2f4a6b8c0d2e4f6a8b0c2d4e6,
     audience: "https://gate.example.com", claims: {repository: [acme/shop]}}
`

func TestWorkloadIdentitiesAreAppliedChangedAndPruned(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		stored := func() store.WorkloadIdentity {
			t.Helper()
			row, err := w.DB.WorkloadIdentity(t.Context(), store.DefaultOrganisation, "shop")
			if err != nil {
				t.Fatal(err)
			}
			return row
		}
		w.mustApply(t, workloadFile, manifest.Apply{})
		first := stored()
		k, err := w.DB.Key(t.Context(), store.DefaultOrganisation, first.Key)
		if err != nil || k.Name != "one" || k.Mask != "" || first.Sealed == "" || first.TTL != 900 || first.CreatedBy != "file" {
			t.Fatalf("stored %+v of %+v, %v", first, k, err)
		}
		if got := w.mustApply(t, workloadFile, manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("the same file again changes %q", got)
		}
		for _, tt := range []struct{ was, is, change string }{
			{"slug: shop,", "slug: shop, name: Shop,", "~ workload_identity shop [name]"},
			{"key_sha256: 0a", "key_sha256: 1a", "~ workload_identity shop [key_sha256]"},
			{"[acme/shop]", "[acme/other]", "~ workload_identity shop [claims]"},
		} {
			before := stored()
			got := w.mustApply(t, strings.Replace(workloadFile, tt.was, tt.is, 1), manifest.Apply{})
			if !slices.Equal(got, []string{tt.change}) {
				t.Errorf("%s changes %q", tt.is, got)
			}
			if ended, want := stored().Sealed != before.Sealed, !strings.Contains(tt.is, "name"); ended != want {
				t.Errorf("%s ends the keys: %v", tt.is, ended)
			}
			w.mustApply(t, workloadFile, manifest.Apply{})
		}
		got := w.mustApply(t, "workload_identities: []\n", manifest.Apply{Prune: true})
		if !slices.Equal(got, []string{"- workload_identity shop"}) {
			t.Errorf("pruned %q", got)
		}
	})
}

func TestWrongWorkloadIdentitiesAreRefusedByTheirField(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	w.mustApply(t, workloadFile, manifest.Apply{})
	const at = "workload_identities[0]."
	for _, tt := range []struct{ was, is, want string }{
		{"{repository: [acme/shop]}", "{}", "claims"},
		{"[acme/shop]", "[\"*/shop\"]", "claims.repository"},
		{`audience: "https://gate.example.com", `, "", "audience"},
		{"type: github-actions", "type: spiffe", at + "type"},
		{"slug: shop, type: github-actions", "slug: other, type: nonsense", at + "type"},
		{"slug: shop,", "slug: shop, jwks_url: \"http://127.0.0.1/keys\",", at + "jwks_url"},
		{"slug: shop,", "slug: shop, ttl: 7200,", at + "ttl"},
		{"slug: shop,", "slug: shop, status: paused,", at + "status"},
		{"key_sha256: 0a", "key_sha256: 2a", at + "key_sha256: no key has this sha256"},
	} {
		text := strings.Replace(workloadFile, tt.was, tt.is, 1)
		if text == workloadFile {
			t.Fatalf("%q is not in the file", tt.was)
		}
		if _, err := w.apply(t, text, manifest.Apply{DryRun: true}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.is, err, tt.want)
		}
	}
}
