package credentials_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/store"
)

// plain is a sealer that a test can read.
type plain struct{}

func (plain) Seal(_ context.Context, organisation string, s secret.String) (string, error) {
	return organisation + "|" + s.Reveal(), nil
}

func (plain) Open(_ context.Context, organisation, sealed string) (secret.String, error) {
	text, ok := strings.CutPrefix(sealed, organisation+"|")
	if !ok {
		return secret.String{}, errors.New("of another organisation")
	}
	return secret.New(text), nil
}

func newManager() *credentials.Manager { return credentials.New(route.Deps{Secrets: plain{}}) }

func parseInput(t *testing.T, fields string) credentials.CredentialInput {
	t.Helper()
	g := credentials.CredentialInput{Path: "c."}
	g.Fields.Set = true
	if err := json.Unmarshal([]byte(fields), &g.Fields.Value); err != nil {
		t.Fatal(err)
	}
	return g
}

func integration(provider string) store.Integration {
	return store.Integration{Organisation: "org", Provider: provider}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSettingsAreTakenByAnyOfTheirNamesAndShownByOne(t *testing.T) {
	for _, tt := range []struct{ provider, fields, shown, sealed string }{
		{"openai", `{"vendora_organization":"o","project":"p","vendoraBeta":"b"}`, `{"vendora_beta":"b","vendora_organization":"o","vendora_project":"p"}`, ""},
		{"bedrock", `{"cloud_a_auth_type":"assumedRole","roleArn":"arn:aws:iam::1:role/r","region":"eu-west-1","cloudAExternalId":"e"}`,
			`{"cloud_a_auth_type":"assumedRole","cloud_a_external_id":"e","cloud_a_region":"eu-west-1","cloud_a_role_arn":"arn:aws:iam::1:role/r"}`, ""},
		{"bedrock", `{"cloud_a_access_key_id":"AKIA-and-some-more-text","secretAccessKey":"short"}`,
			`{"cloud_a_access_key_id":"AK***xt","cloud_a_secret_access_key":"***"}`, `org|{"options":{"access_key_id":"AKIA-and-some-more-text","secret_access_key":"short"}}`},
		{"vertex-ai", `{"cloud_b_auth_type":"basic","cloud_b_region":"global","cloud_b_project_id":"p","skipPtuCostAttribution":true}`,
			`{"cloud_b_auth_type":"basic","cloud_b_project_id":"p","cloud_b_region":"global","skipPtuCostAttribution":true}`, ""},
		{"vertex-ai", `{"region":"global","cloud_b_service_account_json":{"project_id":"p"}}`,
			`{"cloud_b_region":"global","cloud_b_service_account_json":"{\"***\"}"}`, `org|{"options":{"service_account_json":"{\"project_id\":\"p\"}"}}`},
		{"azure-openai", `{"cloud_c_auth_mode":"default","resourceName":"r","deploymentName":"d","cloud_c_api_version":"v1"}`,
			`{"cloud_c_api_version":"v1","cloud_c_auth_mode":"default","cloud_c_deployment_id":"d","cloud_c_resource_name":"r"}`, ""},
		{"azure-openai", `{"cloud_c_resource_name":"r","cloud_c_deployment_config":[{"alias":"a","cloud_c_deployment_name":"d","cloud_c_api_version":"v1","cloud_c_model_slug":"m","is_default":true},{"deploymentName":"e"}]}`,
			`{"cloud_c_deployment_config":[{"alias":"a","cloud_c_api_version":"v1","cloud_c_deployment_name":"d","cloud_c_model_slug":"m","is_default":true},{"cloud_c_deployment_name":"e","is_default":false}],"cloud_c_resource_name":"r"}`, ""},
		{"azure-ai", `{"cloud_c_foundry_url":"https://r.services.ai.azure.com/models"}`, `{"cloud_c_foundry_url":"https://r.services.ai.azure.com/models"}`, ""},
		{"sagemaker", `{"amzn_sagemaker_target_model":"m"}`, `{"amzn_sagemaker_target_model":"m"}`, ""},
		{"openai-compatible", `{"customHost":" https://Models.example.com/v1 ","custom_headers":{"X-A":"b"}}`,
			`{"custom_headers":{"X-A":"***"},"custom_host":"https://models.example.com/v1"}`, `org|{"headers":{"X-A":"b"}}`},
		{"openai", `{"organization":null,"project":""}`, `{}`, ""},
	} {
		i := integration(tt.provider)
		if err := newManager().Apply(t.Context(), &i, parseInput(t, tt.fields)); err != nil {
			t.Errorf("%s %s: %v", tt.provider, tt.fields, err)
			continue
		}
		shown := text(t, credentials.ResponseFields(tt.provider, i.Configuration, credentials.Wire))
		if shown != tt.shown || i.Sealed != tt.sealed {
			t.Errorf("%s %s:\nshown %s\nwant  %s\nsealed %s\nwant   %s", tt.provider, tt.fields, shown, tt.shown, i.Sealed, tt.sealed)
		}
		again := i
		if err := newManager().Apply(t.Context(), &again, parseInput(t, shown)); err != nil || text(t, again) != text(t, i) {
			t.Errorf("%s: what was shown is not what there is when it is sent back: %v\n%s\n%s", tt.provider, err, text(t, again), text(t, i))
		}
	}
}

func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 2049)
	headers := make(map[string]string)
	for i := range 33 {
		headers[fmt.Sprintf("X-%d", i)] = "v"
	}
	many := make(map[string]int)
	for i := range 65 {
		many[fmt.Sprint(i)] = i
	}
	for _, tt := range [][2]string{
		{"openai", `{"organization":"` + long + `"}`}, {"openai", `{"organization":"a\nb"}`}, {"openai", `{"organization":7}`}, {"openai", `{"organization":{}}`},
		{"openai", `{"organization":"a","vendora_organization":"b"}`}, {"openai", `{"deployment_config":[]}`}, {"openai", `{"skipPtuCostAttribution":true}`},
		{"openai", `{"custom_headers":[]}`}, {"openai", `{"custom_headers":{"X":7}}`}, {"openai", text(t, map[string]any{"custom_headers": headers})}, {"openai", text(t, many)},
		{"openai", `{"custom_headers":{"X":"` + strings.Repeat("x", 4097) + `"}}`}, {"openai", `{"custom_headers":{"` + strings.Repeat("x", 129) + `":"v"}}`},
		{"openai", `{"custom_headers":{"Connection":"v"}}`}, {"openai", `{"custom_headers":{"X-Gateway-Api-Key":"v"}}`}, {"openai", `{"custom_headers":{" X":"v"}}`},
		{"openai", `{"custom_host":"https://u:p@example.com"}`}, {"openai", `{"custom_host":"https://example.com?x=1"}`}, {"openai", `{"custom_host":"ftp://example.com"}`},
		{"vertex-ai", `{"region":"global","project_id":"p","skipPtuCostAttribution":"yes"}`}, {"vertex-ai", `{"region":"global","project_id":"p","auth_type":"magic"}`},
		{"vertex-ai", `{"region":"global","service_account_json":"not JSON"}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":{}}`}, {"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":7}]}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d","extra":1}]}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d","api_version":"` + strings.Repeat("1", 31) + `"}]}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d","is_default":true},{"deployment_name":"e","is_default":true}]}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d","alias":"a"},{"deployment_name":"e","alias":"a"}]}`},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d","is_default":"yes"}]}`},
		{"azure-ai", `{"deployment_type":"magic","region":"r"}`}, {"azure-ai", `{"foundry_url":"http://169.254.169.254"}`},
	} {
		i := integration(tt[0])
		err := newManager().Apply(t.Context(), &i, parseInput(t, tt[1]))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.Invalid || !strings.HasPrefix(e.Param, "c") {
			t.Errorf("%.100s: %v", tt, err)
		}
		if i.Sealed != "" || len(i.Configuration.Options) != 0 {
			t.Errorf("%.100s: something was kept", tt)
		}
	}
}

// The options of the table that are secret are pinned: a new one that is not
// among them is a decision.
func TestOptionsThatAreCredentialsAreSealed(t *testing.T) {
	sealed := make(map[string]bool)
	for _, spec := range table.All() {
		for _, o := range spec.Options {
			fields := map[string]string{}
			for _, needed := range spec.Options {
				if needed.Host != provider.HostNone {
					fields[needed.Name] = "name"
				}
			}
			if spec.BaseURL == "" {
				fields["custom_host"] = "https://models.example.com/v1"
			}
			if fields[o.Name] = "some-text-of-length"; o.Name == "service_account_json" {
				fields[o.Name] = `{"project_id":"p"}`
			}
			g := parseInput(t, text(t, fields))
			i := integration(spec.ID)
			if err := newManager().Apply(t.Context(), &i, g); err == nil && i.Sealed != "" {
				sealed[o.Name] = true
			}
		}
	}
	got := strings.Join(slices.Sorted(maps.Keys(sealed)), " ")
	if want := "access_key_id ad_token entra_client_secret private_key secret_access_key service_account_json session_token"; got != want {
		t.Errorf("sealed are %s, want %s", got, want)
	}
}

func TestAProviderIsKnownByItsIDsAndWhatADeploymentHas(t *testing.T) {
	for id, want := range map[string]string{"openai": "openai", "vendora": "openai", "OpenAI": "openai", "cloud_c": "azure-openai", "cloud_b": "vertex-ai", "nobody": ""} {
		spec, err := credentials.Row("f", id, nil)
		if want == "" {
			if err == nil {
				t.Errorf("Row(%q) is known", id)
			}
			continue
		}
		if err != nil || spec.ID != want {
			t.Errorf("Row(%q) = %v, %v", id, spec, err)
		}
	}
	for _, fields := range []string{`{"cloud_c_foundry_url":"x"}`, `{"deployment_type":"x"}`} {
		if spec, err := credentials.Row("f", "cloud_c", parseInput(t, fields).Fields.Value); err != nil || spec.ID != "azure-ai" {
			t.Errorf("%s: %v, %v", fields, spec, err)
		}
	}
}

func TestWithoutAMasterKeyOnlySecretsAreRefused(t *testing.T) {
	k, i := credentials.New(route.Deps{}), integration("openai")
	if err := k.Apply(t.Context(), &i, parseInput(t, `{"organization":"o"}`)); err != nil {
		t.Error(err)
	}
	g := credentials.CredentialInput{}
	g.Key.Set, g.Key.Value = true, "k"
	if err := k.Apply(t.Context(), &i, g); apierr.From(err).Kind != apierr.Unavailable || i.Sealed != "" {
		t.Errorf("a key: %v, %q", err, i.Sealed)
	}
}

func TestTheOperatorsRuleForAddressesApplies(t *testing.T) {
	asked := ""
	k := credentials.New(route.Deps{CheckHost: func(raw string) (*url.URL, error) { asked = raw; return url.Parse(raw) }})
	i := integration("openai-compatible")
	if err := k.Apply(t.Context(), &i, parseInput(t, `{"custom_host":"http://10.0.0.1/v1"}`)); err != nil || asked != "http://10.0.0.1/v1" {
		t.Errorf("asked of %q, %v", asked, err)
	}
}

func TestFieldsThatAreMergedLeaveTheOthers(t *testing.T) {
	for _, tt := range []struct{ provider, before, change, want, sealed string }{
		{"openai", `{"project":"p","custom_host":"https://models.example.com","custom_headers":{"X":"value"}}`, `{"organization":"o"}`,
			`{"custom_headers":{"X":"***"},"custom_host":"https://models.example.com","vendora_organization":"o","vendora_project":"p"}`, `org|{"headers":{"X":"value"}}`},
		{"openai", `{"project":"p","custom_host":"https://models.example.com","custom_headers":{"X":"value"}}`, `{"project":null,"customHost":null,"customHeaders":null}`, `{}`, ""},
		{"azure-openai", `{"resource_name":"r","deployment_config":[{"deployment_name":"d"}]}`, `{"api_version":"v1"}`,
			`{"cloud_c_api_version":"v1","cloud_c_deployment_config":[{"cloud_c_deployment_name":"d","is_default":false}],"cloud_c_resource_name":"r"}`, ""},
		{"vertex-ai", `{"region":"global","project_id":"p","skipPtuCostAttribution":true}`, `{"project_id":"q"}`,
			`{"cloud_b_project_id":"q","cloud_b_region":"global","skipPtuCostAttribution":true}`, ""},
		{"bedrock", `{"secret_access_key":"s","access_key_id":"a"}`, `{"access_key_id":null}`, `{"cloud_a_secret_access_key":"***"}`, `org|{"options":{"secret_access_key":"s"}}`},
	} {
		i := integration(tt.provider)
		g := parseInput(t, tt.change)
		g.Merge = true
		if err := errors.Join(newManager().Apply(t.Context(), &i, parseInput(t, tt.before)), newManager().Apply(t.Context(), &i, g)); err != nil {
			t.Errorf("%s: %v", tt.change, err)
		}
		if shown := text(t, credentials.ResponseFields(tt.provider, i.Configuration, credentials.Wire)); shown != tt.want || i.Sealed != tt.sealed {
			t.Errorf("%s: %s, sealed %s\nwant %s, sealed %s", tt.change, shown, i.Sealed, tt.want, tt.sealed)
		}
	}
	for _, before := range []string{`{"secret_access_key":"s"}`, `{"custom_headers":{"X":"value"}}`} {
		i := integration("bedrock")
		g := parseInput(t, `{"custom_host":"https://evil.example.com"}`)
		g.Merge = true
		if err := newManager().Apply(t.Context(), &i, parseInput(t, before)); err != nil {
			t.Fatal(err)
		}
		if err := newManager().Apply(t.Context(), &i, g); apierr.From(err).Kind != apierr.Invalid {
			t.Errorf("%s goes to another address: %v", before, err)
		}
	}
}

func TestHeadersOfTheCredentialAreRefused(t *testing.T) {
	k := credentials.New(route.Deps{})
	for _, tt := range []struct {
		provider, header string
		ok               bool
	}{
		{"openai", "X-Tenant", true},
		{"openai", "Content-Type", false},
		{"openai", "accept-encoding", false},
		{"openai", "Transfer-Encoding", false},
		{"openai", "Connection", false},
		{"openai", "Host", false},
		{"openai", "x-gateway-config", false},
		{"openai", "a b", false},
		{"openai", `a\r\nb`, false},
		{"bedrock", "authorization", false},
		{"bedrock", "x-amz-date", false},
		{"bedrock", "X-Tenant", true},
	} {
		i := integration(tt.provider)
		settings := `{"custom_headers":{"` + tt.header + `":"v"}}`
		if tt.provider == "bedrock" {
			settings = `{"cloud_a_region":"eu-west-1","custom_headers":{"` + tt.header + `":"v"}}`
		}
		g := parseInput(t, settings)
		err := k.Apply(t.Context(), &i, g)
		if refused := err != nil && strings.Contains(err.Error(), "header"); refused == tt.ok {
			t.Errorf("%s with %q: %v", tt.provider, tt.header, err)
		}
	}
	g := parseInput(t, `{"custom_headers":{"authorization":"Basic mine"}}`)
	g.Key.Set, g.Key.Value = true, "sk-of-some-length"
	i := integration("openai")
	if err := k.Apply(t.Context(), &i, g); err == nil || !strings.Contains(err.Error(), "which carries the provider's credential") {
		t.Errorf("next to a key: %v", err)
	}
	v := parseInput(t, `{"custom_headers":{"X":"a\r\nb"}}`)
	if err := k.Apply(t.Context(), &i, v); err == nil || !strings.Contains(err.Error(), "control") {
		t.Errorf("a value of two lines: %v", err)
	}
}
