package auth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/provider"
)

const entraToken = "https://login.microsoftonline.com/contoso.example/oauth2/v2.0/token"

func entraOptions(more ...string) options {
	o := options{"cloud_c_auth_mode": "entra", "cloud_c_entra_tenant_id": "contoso.example", "cloud_c_entra_client_id": "app", "cloud_c_entra_client_secret": "pass&word"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

func TestAnApplicationsTokenHasTheScopeThatIsAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name, base string
		options    options
		want       string
	}{
		{"default", "", entraOptions(), "https://cognitiveservices.azure.com/.default"},
		{"its own", "", entraOptions("cloud_c_entra_scope", "api://gate/.default"), "api://gate/.default"},
		{"a secret alone names the way", "", entraOptions("cloud_c_auth_mode", ""), "https://cognitiveservices.azure.com/.default"},
		{"a project", "https://r.services.ai.azure.com/api/projects/p/openai/v1", entraOptions(), "https://ai.azure.com/.default"},
		{"a serverless deployment", "https://d.eastus.models.ai.azure.com", entraOptions(), "https://ml.azure.com/.default"},
		{"a managed endpoint", "https://e.eastus.inference.ml.azure.com/score", entraOptions(), "https://ml.azure.com/.default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.handle(entraToken, func(rw http.ResponseWriter, _ *http.Request, form url.Values) {
				if form.Get("scope") != tt.want || form.Get("client_id") != "app" || form.Get("client_secret") != "pass&word" || form.Get("grant_type") != "client_credentials" {
					t.Errorf("asked with %v, want scope %s", form, tt.want)
				}
				io.WriteString(rw, grant("entra", 3600))
			})
			target := mustTarget(t, row(provider.MethodEntra, "cloud_c_"), provider.Settings{Key: key("0123"), CustomHost: tt.base, Options: tt.options})
			s := w.signer()
			for range 2 {
				req := newRequest(t, target)
				req.Header["api-key"], req.Header["authorization"] = []string{"0123"}, []string{"Bearer theirs"}
				if err := s.Sign(t.Context(), target, req, nil); err != nil {
					t.Fatal(err)
				}
				if got := req.Header.Get("Authorization"); got != "Bearer entra" || len(req.Header) != 1 {
					t.Errorf("headers %v, want the token alone", req.Header)
				}
			}
			if len(w.asked) != 1 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
}

func TestReadyCredentialsOfAzureStayWhereTheyAre(t *testing.T) {
	w := newWorld()
	for _, set := range []provider.Settings{
		{Key: key("k")},
		{Key: key("k"), Options: options{"auth_mode": "apiKey"}},
		{Key: key("k"), Options: options{"ad_token": "ready", "auth_mode": "entra"}},
	} {
		if got := mustSign(t, w.signer(), row(provider.MethodEntra, ""), set); got != "Bearer k" || len(w.asked) != 0 {
			t.Errorf("sent %q, asked %v", got, w.asked)
		}
	}
}

func TestTheMachinesEntraIdentityIsFound(t *testing.T) {
	const vm = "http://169.254.169.254/metadata/identity/oauth2/token"
	expect := func(t *testing.T, header, value string, query map[string]string) func(http.ResponseWriter, *http.Request, url.Values) {
		return func(rw http.ResponseWriter, r *http.Request, _ url.Values) {
			if r.Header.Get(header) != value {
				t.Errorf("asked with %v", r.Header)
			}
			for name, want := range query {
				if got := r.URL.Query().Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			io.WriteString(rw, `{"access_token":"machine","expires_in":"86000","expires_on":"1795262400"}`)
		}
	}
	for name, prepare := range map[string]func(*testing.T, *world) options{
		"of a virtual machine": func(t *testing.T, w *world) options {
			w.handle(vm, expect(t, "Metadata", "true", map[string]string{"api-version": "2018-02-01", "resource": "https://cognitiveservices.azure.com/", "client_id": ""}))
			return options{"auth_mode": "managed"}
		},
		"chosen by its id": func(t *testing.T, w *world) options {
			w.handle(vm, expect(t, "Metadata", "true", map[string]string{"client_id": "id-1"}))
			return options{"auth_mode": "managed", "managed_client_id": "id-1"}
		},
		"of an App Service": func(t *testing.T, w *world) options {
			w.env["IDENTITY_ENDPOINT"], w.env["IDENTITY_HEADER"] = "http://127.0.0.1:41/msi", "pass"
			w.handle("http://127.0.0.1:41/msi", func(rw http.ResponseWriter, r *http.Request, form url.Values) {
				expect(t, "X-Identity-Header", "pass", map[string]string{"api-version": "2019-08-01"})(&recorder{header: http.Header{}}, r, form)
				io.WriteString(rw, fmt.Sprintf(`{"access_token":"machine","expires_on":"%d"}`, noon.Add(time.Hour).Unix()))
			})
			return options{"auth_mode": "managed"}
		},
		"of a workload": func(t *testing.T, w *world) options {
			w.env["AZURE_AUTHORITY_HOST"], w.env["AZURE_TENANT_ID"] = "https://login.microsoftonline.us/", "tenant"
			w.env["AZURE_CLIENT_ID"], w.env["AZURE_FEDERATED_TOKEN_FILE"], w.files["/t"] = "app", "/t", "assertion\n"
			w.handle("https://login.microsoftonline.us/tenant/oauth2/v2.0/token", func(rw http.ResponseWriter, _ *http.Request, form url.Values) {
				if form.Get("client_assertion") != "assertion" || form.Get("client_id") != "app" || form.Get("scope") != "https://cognitiveservices.azure.com/.default" ||
					form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
					t.Errorf("asked with %v", form)
				}
				io.WriteString(rw, grant("machine", 3600))
			})
			return options{"auth_mode": "workload"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			set := provider.Settings{Slug: "entry", Options: prepare(t, w)}
			s := w.signer()
			for range 2 {
				if got := mustSign(t, s, row(provider.MethodEntra, ""), set); got != "Bearer machine" {
					t.Errorf("sent %q", got)
				}
			}
			if len(w.asked) != 1 {
				t.Errorf("asked %v", w.asked)
			}
			set.Slug = ""
			_, err := sign(t, s, row(provider.MethodEntra, ""), set)
			mustRefuse(t, err, apierr.Forbidden, "machine_identity_refused")
		})
	}
}

func TestMachinesEntraTokenIsForModelsAndKnownReceiversOnly(t *testing.T) {
	const vm = "http://169.254.169.254/metadata/identity/oauth2/token"
	azure := func(t *testing.T, more ...string) options {
		o := options{"auth_mode": "managed", "resource_name": "r"}
		for i := 0; i < len(more); i += 2 {
			o[more[i]] = more[i+1]
		}
		return o
	}
	spec := row(provider.MethodEntra, "")
	spec.BaseURL, spec.Options = "https://{resource_name}.openai.azure.com", append(spec.Options, provider.Option{Name: "resource_name", Host: provider.HostAccount})
	for _, tt := range []struct {
		name    string
		lending provider.MachineIdentity
		host    string
		o       options
		lent    bool
	}{
		{"of the operator, with a scope", provider.MachineIdentityAll, "", azure(t, "entra_scope", "https://management.azure.com/.default"), true},
		{"of an organisation", provider.MachineIdentityCloudHosts, "", azure(t), true},
		{"of an organisation, with a scope", provider.MachineIdentityCloudHosts, "", azure(t, "entra_scope", "https://management.azure.com/.default"), false},
		{"of an organisation, at a custom host", provider.MachineIdentityCloudHosts, "https://theirs.example.com", azure(t), false},
		{"of a workspace, at a resource that it names", provider.LendOwn, "", azure(t), false},
		{"of a workspace, at a custom host", provider.LendOwn, "https://theirs.example.com", azure(t), false},
		{"not lent", provider.MachineIdentityNone, "", azure(t), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.handleText(vm, grant("machine", 3600))
			_, err := sign(t, w.signer(), spec, provider.Settings{Slug: "entry", CustomHost: tt.host, Options: tt.o, Lending: tt.lending})
			if (err == nil) != tt.lent || (len(w.asked) > 0) != tt.lent {
				t.Errorf("%v, asked %v, want it lent: %t", err, w.asked, tt.lent)
			}
		})
	}
}

func TestEntraCredentialsThatCannotBeUsedAreRefused(t *testing.T) {
	for name, set := range map[string]provider.Settings{
		"none":                      {},
		"an unknown way":            {Key: key("k"), Options: options{"cloud_c_auth_mode": "magic"}},
		"no tenant":                 {Options: entraOptions("cloud_c_entra_tenant_id", "")},
		"a tenant that is a path":   {Options: entraOptions("cloud_c_entra_tenant_id", "a/../b")},
		"a tenant that is a parent": {Options: entraOptions("cloud_c_entra_tenant_id", "..")},
		"no application":            {Options: entraOptions("cloud_c_entra_client_id", "")},
		"no secret":                 {Options: entraOptions("cloud_c_entra_client_secret", "")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			_, err := sign(t, w.signer(), row(provider.MethodEntra, "cloud_c_"), set)
			mustRefuse(t, err, apierr.Invalid, "")
			if len(w.asked) != 0 {
				t.Errorf("asked %v", w.asked)
			}
		})
	}
	w := newWorld()
	_, err := sign(t, w.signer(), row(provider.MethodEntra, ""), provider.Settings{Slug: "entry", Options: options{"auth_mode": "workload"}})
	mustRefuse(t, err, apierr.Unauthenticated, "credential_refused")
}

func TestTheErrorOfEntraIsNamedByItsNumber(t *testing.T) {
	w := newWorld()
	w.handle(entraToken, func(rw http.ResponseWriter, _ *http.Request, _ url.Values) {
		rw.WriteHeader(http.StatusUnauthorized)
		io.WriteString(rw, `{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret pass&word"}`)
	})
	_, err := sign(t, w.signer(), row(provider.MethodEntra, "cloud_c_"), provider.Settings{Options: entraOptions()})
	mustRefuse(t, err, apierr.Unauthenticated, "credential_refused")
	if text := err.Error(); !strings.Contains(text, "AADSTS7000215") || strings.Contains(text, "pass") {
		t.Errorf("says %q", text)
	}
}
