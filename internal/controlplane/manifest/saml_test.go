package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/samltest"
	"modelgate/internal/testing/storetest"
)

func TestProvidersWithSAMLAreAppliedFromAFile(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	metadata, err := json.Marshal("<!-- of the provider -->" + samltest.New(t, "https://login.example.com").Metadata())
	if err != nil {
		t.Fatal(err)
	}
	inline := "identity_providers: [{slug: a, type: saml, domains: [example.com], attributes: {email: E}, allow_idp_initiated: true, metadata: " + string(metadata) + "}]\n"
	w.mustApply(t, inline, manifest.Apply{})
	p, err := w.DB.IdentityProvider(t.Context(), store.DefaultOrganisation, "a")
	if err != nil || p.Type != store.SAML || p.Sealed == "" || p.Settings.Issuer != "https://login.example.com" || p.Settings.Attributes.Email != "E" || !p.Settings.AllowIDPInitiated {
		t.Fatalf("stored %+v, %v", p, err)
	}
	if got := w.mustApply(t, inline, manifest.Apply{}); len(got) != 0 {
		t.Errorf("the same file again changes %q", got)
	}
	const address = "identity_providers: [{slug: b, type: saml, metadata_url: \"https://login.example.com/metadata\"}]\n"
	if _, err := w.apply(t, address, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "identity_providers[0].issuer: must be the entity id") {
		t.Errorf("an address without an issuer: %v", err)
	}
	named := strings.Replace(address, "type: saml", "type: saml, issuer: \"https://login.example.com\"", 1)
	w.mustApply(t, named, manifest.Apply{})
	if got := w.mustApply(t, named, manifest.Apply{}); len(got) != 0 {
		t.Errorf("the same file again changes %q", got)
	}
	private := strings.Replace(named, "https://login.example.com/metadata", "https://127.0.0.1/metadata", 1)
	if _, err := w.apply(t, private, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "identity_providers[0].metadata_url: is not allowed") {
		t.Errorf("an address in a private network: %v", err)
	}
	exported, _ := w.mustExport(t, manifest.References)
	if strings.Contains(exported, "client_secret") || strings.Contains(exported, "PRIVATE") {
		t.Errorf("the export has a key:\n%s", exported)
	}
	if got := w.mustApply(t, exported, manifest.Apply{}); len(got) != 0 {
		t.Errorf("the export changes %q", got)
	}
}
