package catalogue_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/catalogue"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/table"
	"modelgate/internal/testing/routetest"
)

// newBench serves the catalogue, and integrations whose test always succeeds.
func newBench(t *testing.T) *routetest.Bench {
	try := func(context.Context, *credentials.Trial) (*dataplane.ProviderTrialResult, error) {
		return new(dataplane.ProviderTrialResult), nil
	}
	return routetest.New(t, catalogue.Routes{}.Add, integrations.Routes{Tests: credentials.NewTester(try)}.Add)
}

type listed struct {
	Total int
	Data  []catalogue.Provider
}

// accepts reports whether settings with these fields are accepted, and the response.
func accepts(b *routetest.Bench, p catalogue.Provider, without string) (bool, string) {
	fields := make(map[string]any)
	body := map[string]any{"ai_provider_id": p.ID, "configurations": fields}
	for _, f := range p.Credential {
		var v any
		switch {
		case !f.Required:
		case f.Name == without:
		case f.Kind == "url":
			v = "https://host.example.com"
		case len(f.Values) > 0:
			v = f.Values[0]
		default:
			v = "value"
		}
		if f.Name == "key" {
			if v != nil {
				body["key"] = v
			}
			continue
		}
		fields[f.Name] = v
	}
	text, _ := json.Marshal(body)
	a := b.Root().Call("POST", "/integrations/test", string(text))
	return a.Status == 200, string(a.Body)
}

// late are required fields that are part of paths, so that only requests miss them.
var late = map[string]bool{"predibase tenant": true, "predibase base_model": true, "vertex-ai cloud_b_project_id": true}

// Every field is one that integrations accept, those that are required are enough, and none
// of them can be left out.
func TestFieldsOfTheCatalogueAreThoseOfIntegrations(t *testing.T) {
	b := newBench(t)
	var all listed
	b.Root().Must("GET", "/catalogue/providers", "", &all)
	if all.Total != len(table.All()) || len(all.Data) != all.Total {
		t.Fatalf("%d of %d providers, want %d", len(all.Data), all.Total, len(table.All()))
	}
	required := 0
	for _, p := range all.Data {
		if ok, body := accepts(b, p, ""); !ok {
			t.Errorf("%s: the fields are refused: %s", p.ID, body)
		}
		for _, f := range p.Credential {
			if f.Label == "" || f.Name == "" || f.Kind == "" {
				t.Errorf("%s: a field without a name, label or kind: %+v", p.ID, f)
			}
			if !f.Required || f.Name == "key" {
				continue
			}
			required++
			ok, _ := accepts(b, p, f.Name)
			if ok != late[p.ID+" "+f.Name] {
				t.Errorf("%s: settings without the required %s are accepted: %t", p.ID, f.Name, ok)
			}
		}
	}
	if required < 20 {
		t.Errorf("%d required fields, want at least 20", required)
	}
}

func TestProvidersHaveTheirWaysToAuthenticate(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		search, id string
		kinds      string
		secrets    string
		required   string
	}{
		{"groq", "groq", "key", "key custom_headers", "key"},
		{"bedrock", "bedrock", "key aws_signature", "key cloud_a_access_key_id cloud_a_secret_access_key cloud_a_session_token custom_headers", ""},
		{"openai-compatible", "openai-compatible", "key", "key custom_headers", "custom_host"},
		{"AZURE openai", "azure-openai", "key entra_token", "key cloud_c_ad_token cloud_c_entra_client_secret custom_headers", "cloud_c_resource_name"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			var found listed
			b.Root().Must("GET", "/catalogue/providers?search="+strings.ReplaceAll(tt.search, " ", "%20"), "", &found)
			i := slices.IndexFunc(found.Data, func(p catalogue.Provider) bool { return p.ID == tt.id })
			if i < 0 || found.Total > 10 {
				t.Fatalf("%d found by %q: %+v", found.Total, tt.search, found.Data)
			}
			var kinds, secrets, required []string
			for _, a := range found.Data[i].Authentication {
				kinds = append(kinds, a.Kind)
			}
			for _, f := range found.Data[i].Credential {
				if f.Secret {
					secrets = append(secrets, f.Name)
				}
				if f.Required {
					required = append(required, f.Name)
				}
			}
			for _, pair := range [][2]string{{strings.Join(kinds, " "), tt.kinds}, {strings.Join(secrets, " "), tt.secrets}, {strings.Join(required, " "), tt.required}} {
				if pair[0] != pair[1] {
					t.Errorf("got %q, want %q", pair[0], pair[1])
				}
			}
		})
	}
}

func TestProvidersAreFilteredByOperation(t *testing.T) {
	b := newBench(t)
	var found listed
	b.Root().Must("GET", "/catalogue/providers?operation=rerank", "", &found)
	if found.Total == 0 || found.Total > 60 {
		t.Errorf("%d providers rerank", found.Total)
	}
	for _, p := range found.Data {
		if !slices.Contains(p.Operations, "rerank") {
			t.Errorf("%s does not rerank", p.ID)
		}
	}
	if a := b.Root().Call("GET", "/catalogue/providers?operation=dance", ""); a.Status != 400 {
		t.Errorf("an unknown operation: %d %s", a.Status, a.Body)
	}
}

// A key without any scope may read the table, which is not a secret, but no models.
func TestTableIsForEveryCaller(t *testing.T) {
	b := newBench(t)
	c := b.As(access.Identity{Type: access.OrganisationService, KeyID: "bare"})
	if a := c.Call("GET", "/catalogue/providers", ""); a.Status != 200 {
		t.Errorf("providers: %d %s", a.Status, a.Body)
	}
	if a := c.Call("GET", "/catalogue/models?from=book", ""); a.Status != 403 {
		t.Errorf("models: %d %s", a.Status, a.Body)
	}
}
