package conformance

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const geminiPath = "/v1/projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-flash:generateContent"

// token answers with an access token.
func token(text string) behaviour {
	return says(200, "application/json", `{"access_token":"`+text+`","expires_in":3600,"token_type":"Bearer"}`)
}

func TestCloudBTakesServiceAccounts(t *testing.T) {
	const host = "europe-west4-aiplatform.googleapis.com"
	n := newInternet(t, map[string]behaviour{host: speaks(true), "oauth2.googleapis.com": token("ya29.minted")})
	g := n.live(t, "")
	key, text := newKey(t)
	account, _ := json.Marshal(map[string]string{"type": "service_account", "project_id": "p-1", "client_email": "gate@p-1.iam.gserviceaccount.com", "private_key_id": "k-1", "private_key": text})
	chat := `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"x"}]}`
	check := func(t *testing.T, in received, authorization string) {
		t.Helper()
		if in.uri != geminiPath || in.header.Get("Authorization") != authorization {
			t.Errorf("the provider was asked for %s with %q, want %s with %q", in.uri, in.header.Get("Authorization"), geminiPath, authorization)
		}
	}
	prove(t, "S-112 S-111 S-425", "the account yields a token", func(t *testing.T) {
		config := node(`"provider":"cloud_b"`, `"cloud_b_project_id":"p-1"`, `"cloud_b_region":"europe-west4"`, `"cloud_b_service_account_json":`+string(account))
		for range 3 {
			g.ask(t, with(config, `"override_params":{"model":"gemini-2.5-flash"}`)).wantOK(t)
		}
		asked := n.one(t, "oauth2.googleapis.com") // one for all
		checkAssertion(t, asked, &key.PublicKey)
		calls := n.asked(t, host)
		if len(calls) != 3 {
			t.Fatalf("%d calls came to the provider, want 3", len(calls))
		}
		for _, in := range calls {
			check(t, in, "Bearer ya29.minted")
			if strings.Contains(in.head+string(in.body), "PRIVATE KEY") {
				t.Error("the account itself was sent")
			}
		}
	})
	prove(t, "S-453 S-111", "project, region and request type by headers", func(t *testing.T) {
		n.forget()
		g.do(t, "POST", chatStream.path, chat, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_b", "x-gateway-cloud-b-project-id", "p-1",
			"x-gateway-cloud-b-region", "europe-west4", "X-Cloud-B-LLM-Request-Type", "dedicated", "Authorization", "Bearer ya29.mine").wantOK(t)
		in := n.one(t, host)
		check(t, in, "Bearer ya29.mine")
		if got := in.header.Get("X-Vertex-Ai-Llm-Request-Type"); got != "dedicated" {
			t.Errorf("the request type at the provider = %q", got)
		}
	})
	for _, tt := range []struct{ region, host string }{{"global", "aiplatform.googleapis.com"}, {"eu", "aiplatform.eu.rep.googleapis.com"}} {
		prove(t, "S-111 S-453", "the region "+tt.region, func(t *testing.T) {
			n.forget()
			g.do(t, "POST", chatStream.path, chat, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_b", "x-gateway-cloud-b-project-id", "p-1",
				"x-gateway-cloud-b-region", tt.region, "Authorization", "Bearer ya29.mine")
			n.one(t, tt.host)
		})
	}
}

// checkAssertion verifies the claim to be the account, as the token endpoint does.
// https://developers.google.com/identity/protocols/oauth2/service-account
func checkAssertion(t *testing.T, in received, key *rsa.PublicKey) {
	t.Helper()
	form, err := url.ParseQuery(string(in.body))
	parts := strings.Split(form.Get("assertion"), ".")
	if err != nil || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || len(parts) != 3 {
		t.Fatalf("the token endpoint got %s", in.body)
	}
	seal, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err != nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], seal) != nil {
		t.Errorf("the assertion is not signed by the account: %v", err)
	}
	var claims struct {
		Iss, Aud, Scope string
		Exp             int64
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	if err := json.Unmarshal(text, &claims); err != nil || claims.Iss != "gate@p-1.iam.gserviceaccount.com" || claims.Aud != "https://oauth2.googleapis.com/token" ||
		claims.Scope != "https://www.googleapis.com/auth/cloud-platform" || claims.Exp < time.Now().Unix() {
		t.Errorf("claims = %s", text)
	}
}

func TestCloudBTakesIdentitiesOfElsewhere(t *testing.T) {
	const host = "europe-west4-aiplatform.googleapis.com"
	subject := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(subject, []byte("token-of-elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	n := newInternet(t, map[string]behaviour{host: speaks(true), "sts.googleapis.com": token("ya29.federated"),
		"iamcredentials.googleapis.com": says(200, "application/json", `{"accessToken":"ya29.impersonated","expireTime":"`+end+`"}`)})
	federation := func(more string) string {
		return `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/pools/p","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"` + subject + `"}` + more + `}`
	}
	const impersonation = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/gate@p-1.iam.gserviceaccount.com:generateAccessToken"
	entry := func(slug, account string) string {
		return "  - {slug: " + slug + ", provider: vertex-ai, options: {region: europe-west4, project_id: p-1, auth_type: workloadIdentityFederation, service_account_json: " + jsonString(account) + "}}\n"
	}
	g := n.live(t, "version: 1\nproviders:\n"+entry("pool", federation(""))+entry("robot", federation(`,"service_account_impersonation_url":"`+impersonation+`"`)))
	ask := func(t *testing.T, slug string) received {
		t.Helper()
		n.forget()
		g.do(t, "POST", chatStream.path, `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"x"}]}`, managed(slug)...).wantOK(t)
		form, _ := url.ParseQuery(string(n.one(t, "sts.googleapis.com").body))
		if form.Get("subject_token") != "token-of-elsewhere" || form.Get("audience") != "//iam.googleapis.com/projects/1/pools/p" ||
			form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
			t.Errorf("STS was asked for %v", form)
		}
		return n.one(t, host)
	}
	prove(t, "S-535 S-425", "the token of elsewhere is exchanged", func(t *testing.T) {
		if got := ask(t, "@pool").header.Get("Authorization"); got != "Bearer ya29.federated" {
			t.Errorf("Authorization at the provider = %q", got)
		}
	})
	prove(t, "S-535 S-425", "and exchanged again for a token of a service account", func(t *testing.T) {
		got := ask(t, "@robot").header.Get("Authorization")
		if in := n.one(t, "iamcredentials.googleapis.com"); got != "Bearer ya29.impersonated" || in.header.Get("Authorization") != "Bearer ya29.federated" {
			t.Errorf("Authorization at the provider = %q", got)
		}
	})
	prove(t, "S-535", "a client can't use files of the machine", func(t *testing.T) {
		n.forget()
		config := node(`"provider":"cloud_b"`, `"cloud_b_project_id":"p-1"`, `"cloud_b_region":"europe-west4"`, `"cloud_b_service_account_json":`+federation(""))
		g.ask(t, config).refused(t, http.StatusForbidden)
		n.wantNoRequests(t)
	})
}

func TestCloudCTakesApplications(t *testing.T) {
	const authority = "login.microsoftonline.com"
	n := newInternet(t, map[string]behaviour{authority: token("eyJ.minted.token"), "*.models.ai.azure.com": speaks(false), "*.inference.ml.azure.com": speaks(false), "*.openai.azure.com": speaks(false)})
	g := n.live(t, "")
	application := `"cloud_c_entra_tenant_id":"tenant-1","cloud_c_entra_client_id":"client-1","cloud_c_entra_client_secret":"secret-1"`
	serverless := node(`"provider":"cloud_c"`, `"cloud_c_deployment_name":"d-1"`, `"cloud_c_deployment_type":"serverless"`, `"cloud_c_region":"swedencentral"`, `"cloud_c_api_version":"2024-05-01-preview"`)
	managedOne := node(`"provider":"cloud_c"`, `"cloud_c_endpoint_name":"e-1"`, `"cloud_c_deployment_type":"managed"`, `"cloud_c_region":"swedencentral"`)
	const serverlessHost, managedHost = "d-1.swedencentral.models.ai.azure.com", "e-1.swedencentral.inference.ml.azure.com"
	for _, tt := range []struct{ of, name, config, host, scope string }{
		{"S-114 S-525 S-425", "the scope of the config", with(serverless, application, `"cloud_c_entra_scope":"api://models/.default"`), serverlessHost, "api://models/.default"},
		{"S-114 S-525", "another scope is another token", with(serverless, application, `"cloud_c_entra_scope":"api://other/.default"`), serverlessHost, "api://other/.default"},
		{"S-114 S-113", "the scope of the service without one", with(managedOne, application), managedHost, "https://ml.azure.com/.default"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			n.forget()
			g.ask(t, tt.config).wantOK(t)
			asked := n.one(t, authority)
			form, _ := url.ParseQuery(string(asked.body))
			if asked.uri != "/tenant-1/oauth2/v2.0/token" || form.Get("scope") != tt.scope || form.Get("client_id") != "client-1" ||
				form.Get("client_secret") != "secret-1" || form.Get("grant_type") != "client_credentials" {
				t.Errorf("%s was asked for with %v", asked.uri, form)
			}
			if got := n.one(t, tt.host).header.Get("Authorization"); got != "Bearer eyJ.minted.token" {
				t.Errorf("Authorization at the provider = %q", got)
			}
		})
	}
	for _, tt := range []struct{ of, name, config, host, uri string }{
		{"S-115 S-113", "serverless", with(serverless, `"api_key":"k-1"`), serverlessHost, "/chat/completions?api-version=2024-05-01-preview"},
		{"S-115", "serverless with the name of an endpoint, too", with(serverless, `"api_key":"k-1"`, `"cloud_c_endpoint_name":"e-1"`), serverlessHost, "/chat/completions?api-version=2024-05-01-preview"},
		{"S-115", "managed with the name of a deployment, too", with(managedOne, `"api_key":"k-1"`, `"cloud_c_deployment_name":"d-1"`), managedHost, "/score/chat/completions"},
		{"S-115 S-113", "managed", with(managedOne, `"api_key":"k-1"`), managedHost, "/score/chat/completions"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			n.forget()
			g.ask(t, tt.config).wantOK(t)
			if in := n.one(t, tt.host); in.uri != tt.uri || in.header.Get("Authorization") != "Bearer k-1" {
				t.Errorf("%s was asked for with %q, want %s", in.uri, in.header.Get("Authorization"), tt.uri)
			}
		})
	}
	prove(t, "S-115", "another kind of deployment is refused", func(t *testing.T) {
		n.forget()
		g.ask(t, with(node(`"provider":"cloud_c"`, `"api_key":"k"`, `"cloud_c_endpoint_name":"e"`), `"cloud_c_deployment_type":"dedicated"`)).refused(t, http.StatusBadRequest)
		n.wantNoRequests(t)
		g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_c", "Authorization", "Bearer k", "x-gateway-cloud-c-endpoint-name", "e",
			"x-gateway-cloud-c-region", "swedencentral", "x-gateway-cloud-c-deployment-type", "dedicated").refused(t, http.StatusBadRequest)
		n.wantNoRequests(t)
	})
	prove(t, "S-452", "resource, deployment, version and model by headers", func(t *testing.T) {
		n.forget()
		g.do(t, "POST", chatStream.path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "cloud_c", "Authorization", "Bearer k-1",
			"x-gateway-cloud-c-resource-name", "contoso", "x-gateway-cloud-c-deployment-id", "d-9", "x-gateway-cloud-c-api-version", "2024-06-01", "x-gateway-cloud-c-model-name", "gpt-behind").wantOK(t)
		in := n.one(t, "contoso.openai.azure.com")
		if want := "/openai/deployments/d-9/chat/completions?api-version=2024-06-01"; in.uri != want || in.header.Get("Api-Key") != "k-1" || in.field(t, "model") != `"gpt-behind"` {
			t.Errorf("%s was asked for with %q and %s, want %s", in.uri, in.header.Get("Api-Key"), in.body, want)
		}
	})
}
