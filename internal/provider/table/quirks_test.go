package table_test

import (
	"errors"
	"maps"
	"net/http"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

const token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ0ZXN0In0.c2ln" // a JWT, signed by nobody

type options = map[string]string

// request builds c for a target of the row named id.
func request(t *testing.T, id string, s provider.Settings, c *provider.Call) (*http.Request, error) {
	t.Helper()
	spec, ok := table.Lookup(id)
	if !ok {
		t.Fatalf("no row %q", id)
	}
	target, err := provider.NewTarget(spec, s)
	if err != nil {
		t.Fatalf("NewTarget(%s): %v", id, err)
	}
	if c.Method == "" {
		c.Method = http.MethodPost
	}
	return provider.NewRequest(t.Context(), target, c)
}

func mustRequest(t *testing.T, id string, s provider.Settings, c *provider.Call) *http.Request {
	t.Helper()
	req, err := request(t, id, s, c)
	if err != nil {
		t.Fatalf("NewRequest for %s: %v", id, err)
	}
	return req
}

// address is the whole address of req as it goes over the wire.
func address(req *http.Request) string {
	return req.URL.Scheme + "://" + req.URL.Host + req.URL.RequestURI()
}

func TestAzurePutsVersionAndDeploymentWhereTheFormWantsThem(t *testing.T) {
	const host = "https://contoso.openai.azure.com/openai"
	for _, tt := range []struct {
		name    string
		custom  string
		options options
		call    provider.Call
		want    string
	}{
		{"date", "", options{"deployment_id": "d", "api_version": "2025-01-01"},
			provider.Call{Operation: api.Chat, Model: "m"}, host + "/deployments/d/chat/completions?api-version=2025-01-01"},
		{"default date", "", options{"deployment_id": "d"},
			provider.Call{Operation: api.Embeddings}, host + "/deployments/d/embeddings?api-version=2024-10-21"},
		{"model names the deployment", "", nil,
			provider.Call{Operation: api.Chat, Model: "a/b c"}, host + "/deployments/a%2Fb%20c/chat/completions?api-version=2024-10-21"},
		{"operation of the resource", "", options{"deployment_id": "d"},
			provider.Call{Operation: api.Files}, host + "/files?api-version=2024-10-21"},
		{"v1", "", options{"deployment_id": "d", "api_version": "v1"},
			provider.Call{Operation: api.Chat, Model: "m"}, host + "/v1/chat/completions"},
		{"preview", "", options{"api_version": "preview"},
			provider.Call{Operation: api.Responses, Model: "m"}, host + "/v1/responses?api-version=preview"},
		{"pass-through", "", options{"api_version": "2025-01-01"},
			provider.Call{Operation: api.Proxy, Path: "/deployments/x%2Fy/chat", Query: "b=2&a=1&b=1"},
			host + "/deployments/x%2Fy/chat?b=2&a=1&b=1&api-version=2025-01-01"},
		{"pass-through with a version of its own", "", options{"api_version": "2025-01-01"},
			provider.Call{Operation: api.Proxy, Path: "/models", Query: "api-version=2023-05-15"}, host + "/models?api-version=2023-05-15"},
		{"pass-through in v1", "", options{"api_version": "v1"},
			provider.Call{Operation: api.Proxy, Path: "/files/a%20b"}, host + "/v1/files/a%20b"},
		{"custom host without a path", "https://front.example.test", options{"deployment_id": "d"},
			provider.Call{Operation: api.Chat}, "https://front.example.test/deployments/d/chat/completions?api-version=2024-10-21"},
		{"custom host, doubled slash", "https://front.example.test", options{"api_version": "v1"},
			provider.Call{Operation: api.Proxy, Path: "//files"}, "https://front.example.test/v1//files"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := options{"resource_name": "contoso"}
			maps.Copy(opts, tt.options)
			req := mustRequest(t, "azure-openai", provider.Settings{Options: opts, CustomHost: tt.custom}, &tt.call)
			if got := address(req); got != tt.want {
				t.Errorf("address\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAzureNeedsADeploymentOrAModel(t *testing.T) {
	for _, model := range []string{"", ".", ".."} {
		_, err := request(t, "azure-openai", provider.Settings{Options: options{"resource_name": "contoso"}},
			&provider.Call{Operation: api.Chat, Model: model})
		e, ok := errors.AsType[*apierr.Error](err)
		if !ok || e.Kind != apierr.Invalid || e.Param != "deployment_id" {
			t.Errorf("NewRequest with model %q and no deployment = %v, want an invalid deployment_id", model, err)
		}
	}
}

func TestAzureModelsVersionFollowsTheAddress(t *testing.T) {
	for _, tt := range []struct {
		name    string
		custom  string
		options options
		want    string
	}{
		{"own address", "", options{"resource_name": "contoso"},
			"https://contoso.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview"},
		{"chosen version", "", options{"resource_name": "contoso", "api_version": "2025-04-01"},
			"https://contoso.services.ai.azure.com/models/chat/completions?api-version=2025-04-01"},
		{"serverless", "https://d.eastus.models.ai.azure.com/v1", nil, "https://d.eastus.models.ai.azure.com/v1/chat/completions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := mustRequest(t, "azure-ai", provider.Settings{Options: tt.options, CustomHost: tt.custom}, &provider.Call{Operation: api.Chat})
			if got := address(req); got != tt.want {
				t.Errorf("address\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestVertexRegionChoosesTheHost(t *testing.T) {
	for region, want := range map[string]string{
		"europe-west4": "https://europe-west4-aiplatform.googleapis.com",
		"global":       "https://aiplatform.googleapis.com",
		"us":           "https://aiplatform.us.rep.googleapis.com",
		"eu":           "https://aiplatform.eu.rep.googleapis.com",
	} {
		for _, path := range []string{"/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "//v1"} {
			req := mustRequest(t, "vertex-ai", provider.Settings{Key: secret.New("ya29.x"), Options: options{"region": region}},
				&provider.Call{Operation: api.Proxy, Path: path})
			// A target with two leading slashes is written with its host.
			got := address(req)
			if path == "//v1" {
				got = req.URL.RequestURI()
			}
			if got != want+path || req.Host != req.URL.Host {
				t.Errorf("region %s: address %s of host %s, want %s", region, got, req.Host, want+path)
			}
		}
	}
	req := mustRequest(t, "vertex-ai", provider.Settings{CustomHost: "https://front.example.test", Options: options{"region": "global"}},
		&provider.Call{Operation: api.Proxy, Path: "/v1/x"})
	if got, want := address(req), "https://front.example.test/v1/x"; got != want {
		t.Errorf("custom host: address %s, want %s", got, want)
	}
}

func TestCredentialsGoWhereTheirKindBelongs(t *testing.T) {
	azure := options{"resource_name": "r", "deployment_id": "d"}
	for _, tt := range []struct {
		name, id, key string
		options       options
		header, want  string
		absent        string
	}{
		{"anthropic key", "anthropic", "sk-ant-api03-x", nil, "X-Api-Key", "sk-ant-api03-x", "Authorization"},
		{"anthropic subscription token", "anthropic", "sk-ant-oat01-x", nil, "Authorization", "Bearer sk-ant-oat01-x", "X-Api-Key"},
		{"azure key", "azure-openai", "0123abcd", azure, "Api-Key", "0123abcd", "Authorization"},
		{"azure key with two dots", "azure-openai", "a.b.c", azure, "Api-Key", "a.b.c", "Authorization"},
		{"azure token", "azure-openai", token, azure, "Authorization", "Bearer " + token, "Api-Key"},
		{"azure ad_token", "azure-openai", "0123abcd", options{"resource_name": "r", "ad_token": "Bearer t"}, "Authorization", "Bearer t", "Api-Key"},
		{"azure-ai key", "azure-ai", "0123abcd", azure, "Authorization", "Bearer 0123abcd", "Api-Key"},
		{"bedrock key", "bedrock", "ABSK-x", nil, "Authorization", "Bearer ABSK-x", "X-Api-Key"},
		{"vertex token", "vertex-ai", "ya29.x", options{"region": "global"}, "Authorization", "Bearer ya29.x", "X-Goog-Api-Key"},
		{"google key", "google", "AIza-x", nil, "X-Goog-Api-Key", "AIza-x", "Authorization"},
		{"claude on aws", "claude-platform-aws", "k", options{"workspace_id": "w"}, "Anthropic-Workspace-Id", "w", "Authorization"},
		{"basic pair", "scenario-ai", "key:secret", nil, "Authorization", "Basic a2V5OnNlY3JldA==", "X-Api-Key"},
		{"basic, encoded already", "scenario-ai", "a2V5OnNlY3JldA==", nil, "Authorization", "Basic a2V5OnNlY3JldA==", "X-Api-Key"},
		{"token scheme", "deepgram", "k", nil, "Authorization", "Token k", "X-Api-Key"},
		{"key scheme", "fal-ai", "k", nil, "Authorization", "Key k", "X-Api-Key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := mustRequest(t, tt.id, provider.Settings{Key: secret.New(tt.key), Options: tt.options},
				&provider.Call{Operation: api.Proxy, Path: "/x"})
			if got := req.Header.Get(tt.header); got != tt.want {
				t.Errorf("%s = %q, want %q", tt.header, got, tt.want)
			}
			if got, there := req.Header[tt.absent]; there {
				t.Errorf("%s = %q, want none", tt.absent, got)
			}
		})
	}
}

func TestAnthropicVersionYieldsToTheClient(t *testing.T) {
	for _, tt := range []struct {
		name    string
		header  http.Header
		options options
		want    string
	}{
		{"row", nil, nil, "2023-06-01"},
		{"client", http.Header{"Anthropic-Version": {"2099-01-01"}}, nil, "2099-01-01"},
		{"option", nil, options{"version": "2088-01-01"}, "2088-01-01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := mustRequest(t, "anthropic", provider.Settings{Options: tt.options},
				&provider.Call{Operation: api.Proxy, Path: "/messages", Header: tt.header})
			if got := req.Header.Get("Anthropic-Version"); got != tt.want {
				t.Errorf("Anthropic-Version = %q, want %q", got, tt.want)
			}
		})
	}
}
