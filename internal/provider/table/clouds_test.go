package table_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

var (
	vertexAt   = options{"cloud_b_region": "europe-west4", "cloud_b_project_id": "p"}
	foundryAt  = options{"resource_name": "contoso"}
	generates  = api.Generate.Streamed()
	converses  = api.Converse.Streamed()
	messages   = api.Messages.Streamed()
	chats      = api.Chat.Streamed()
	bedrockARN = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
)

func TestConversationsHaveTheirAddresses(t *testing.T) {
	const (
		bedrock = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/"
		vertex  = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4"
		gemini  = "https://generativelanguage.googleapis.com/v1beta/models/"
	)
	ireland := options{"cloud_a_region": "eu-west-1"}
	for _, tt := range []struct {
		id      string
		op      api.Operation
		model   string
		options options
		want    string
	}{
		{"anthropic", api.Messages, "claude-x", nil, "https://api.anthropic.com/v1/messages"},
		{"anthropic", api.CountTokens, "claude-x", nil, "https://api.anthropic.com/v1/messages/count_tokens"},
		{"claude-platform-aws", api.Messages, "claude-x", ireland, "https://aws-external-anthropic.eu-west-1.api.aws/v1/messages"},
		{"claude-platform-gcp", api.CountTokens, "claude-x", options{"project": "p", "workspace": "w"},
			"https://claude.googleapis.com/v1alpha/projects/p/locations/global/workspaces/w/invoke/v1/messages/count_tokens"},

		{"bedrock", api.Converse, "amazon.nova-pro-v1:0", ireland, bedrock + "amazon.nova-pro-v1%3A0/converse"},
		{"bedrock", converses, "eu.anthropic.claude-x-v1:0", ireland, bedrock + "eu.anthropic.claude-x-v1%3A0/converse-stream"},
		{"bedrock", api.Messages, "anthropic.claude-x-v1:0", ireland, bedrock + "anthropic.claude-x-v1%3A0/invoke"},
		{"bedrock", messages, "anthropic.claude-x-v1:0", ireland, bedrock + "anthropic.claude-x-v1%3A0/invoke-with-response-stream"},
		{"bedrock", api.Embeddings, "amazon.titan-embed-text-v2:0", ireland, bedrock + "amazon.titan-embed-text-v2%3A0/invoke"},
		{"bedrock", api.Converse, bedrockARN, ireland,
			bedrock + "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"},
		{"bedrock", api.Converse, "arn%3Aaws%3Abedrock%2Fx", ireland, bedrock + "arn%3Aaws%3Abedrock%2Fx/converse"},
		{"bedrock", api.Converse, "a/b?c#d%", ireland, bedrock + "a%2Fb%3Fc%23d%25/converse"},
		{"bedrock-mantle", api.Messages, "anthropic.claude-x", ireland, "https://bedrock-mantle.eu-west-1.api.aws/anthropic/v1/messages"},
		{"bedrock-mantle", api.Chat, "openai.gpt-oss-120b", ireland, "https://bedrock-mantle.eu-west-1.api.aws/v1/chat/completions"},

		{"google", api.Generate, "gemini-x", nil, gemini + "gemini-x:generateContent"},
		{"google", generates, "models/gemini-x", nil, gemini + "gemini-x:streamGenerateContent?alt=sse"},
		{"google", api.Embeddings, "gemini-embedding-001", nil, gemini + "gemini-embedding-001:batchEmbedContents"},
		{"google", api.Generate, "x:countTokens", nil, gemini + "x%3AcountTokens:generateContent"},

		{"vertex-ai", api.Generate, "gemini-x", vertexAt, vertex + "/publishers/google/models/gemini-x:generateContent"},
		{"vertex-ai", generates, "google.gemini-x", vertexAt, vertex + "/publishers/google/models/gemini-x:streamGenerateContent?alt=sse"},
		{"vertex-ai", generates, "google/gemini-x", vertexAt, vertex + "/publishers/google/models/gemini-x:streamGenerateContent?alt=sse"},
		{"vertex-ai", api.Messages, "claude-x@20250929", vertexAt, vertex + "/publishers/anthropic/models/claude-x@20250929:rawPredict"},
		{"vertex-ai", messages, "publishers/anthropic/models/claude-x", vertexAt, vertex + "/publishers/anthropic/models/claude-x:streamRawPredict"},
		{"vertex-ai", api.CountTokens, "anthropic.claude-x", vertexAt, vertex + "/publishers/anthropic/models/count-tokens:rawPredict"},
		{"vertex-ai", api.Chat, "qwen/qwen3", vertexAt, vertex + "/endpoints/openapi/chat/completions"},
		{"vertex-ai", chats, "meta.llama-x", vertexAt, strings.Replace(vertex, "/v1/", "/v1beta1/", 1) + "/endpoints/openapi/chat/completions"},
		{"vertex-ai", api.Chat, "mistralai.mistral-x", vertexAt, vertex + "/publishers/mistralai/models/mistral-x:rawPredict"},
		{"vertex-ai", chats, "codestral-x", vertexAt, vertex + "/publishers/mistralai/models/codestral-x:streamRawPredict"},
		{"vertex-ai", api.Chat, "endpoints.1/2", vertexAt, vertex + "/endpoints/1%2F2/chat/completions"},
		{"vertex-ai", api.Chat, "xai/grok-x", vertexAt, "https://aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/endpoints/openapi/chat/completions"},
		{"vertex-ai", api.Generate, "gemini-x", options{"region": "global", "project_id": "p"},
			"https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/gemini-x:generateContent"},
		{"vertex-ai", api.Embeddings, "text-embedding-x", options{"region": "eu", "project_id": "p"},
			"https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/publishers/google/models/text-embedding-x:predict"},

		{"vertex-ai", api.Embeddings, "gemini-embedding-2-preview", vertexAt, vertex + "/publishers/google/models/gemini-embedding-2-preview:embedContent"},
		{"vertex-ai", api.Images, "imagen-4", vertexAt, vertex + "/publishers/google/models/imagen-4:predict"},
		{"vertex-ai", api.Images, "gemini-image", vertexAt, vertex + "/publishers/google/models/gemini-image:generateContent"},
		{"google", api.Images, "models/imagen-4", nil, gemini + "imagen-4:predict"},
		{"google", api.Images, "gemini-image", nil, gemini + "gemini-image:generateContent"},

		{"azure-openai", api.Responses, "m", options{"resource_name": "r", "api_version": "2025-04-01-preview"}, "https://r.openai.azure.com/openai/responses?api-version=2025-04-01-preview"},
		{"azure-ai", api.Messages, "claude-x", foundryAt, "https://contoso.services.ai.azure.com/anthropic/v1/messages"},
		{"azure-ai", api.Chat, "m", options{"cloud_c_deployment_type": "serverless", "cloud_c_deployment_name": "d", "cloud_c_region": "eastus", "cloud_c_api_version": "2024-05-01"},
			"https://d.eastus.models.ai.azure.com/chat/completions?api-version=2024-05-01"},
		{"azure-ai", api.Chat, "m", options{"deployment_type": "managed", "endpoint_name": "e", "deployment_name": "d", "region": "eastus"},
			"https://e.eastus.inference.ml.azure.com/score/chat/completions"},
		{"azure-ai", api.Chat, "m", options{"endpoint_name": "e", "region": "eastus"}, "https://e.eastus.inference.ml.azure.com/score/chat/completions"},
		{"azure-ai", api.Chat, "m", options{"deployment_name": "d", "region": "eastus"}, "https://d.eastus.models.ai.azure.com/chat/completions"},
		{"azure-ai", api.Chat, "m", options{"foundry_url": "https://r.services.ai.azure.com/api/projects/p/openai/v1/"}, "https://r.services.ai.azure.com/api/projects/p/openai/v1/chat/completions"},
		{"azure-ai", api.Responses, "m", options{"foundry_url": "https://r.services.ai.azure.com/api/projects/p/openai/v1"}, "https://r.services.ai.azure.com/api/projects/p/openai/v1/responses"},
		{"azure-ai", api.Messages, "m", options{"foundry_url": "https://r.services.ai.azure.com/anthropic"}, "https://r.services.ai.azure.com/anthropic/v1/messages"},

		{"cohere", api.CohereChat, "command-a", nil, "https://api.cohere.com/v2/chat"},
		{"cohere", api.Embeddings, "embed-v4.0", nil, "https://api.cohere.com/v2/embed"},
		{"cohere", api.Rerank, "rerank-x", nil, "https://api.cohere.com/v2/rerank"},
		{"deepseek", api.Messages, "deepseek-chat", nil, "https://api.deepseek.com/anthropic/v1/messages"},
		{"moonshot", api.Messages, "kimi", nil, "https://api.moonshot.cn/anthropic/v1/messages"},
		{"z-ai", api.Messages, "glm", nil, "https://api.z.ai/api/anthropic/v1/messages"},
		{"minimax", api.Messages, "m2", nil, "https://api.minimax.io/anthropic/v1/messages"},
		{"openrouter", api.Messages, "a/b", nil, "https://openrouter.ai/api/v1/messages"},
		{"databricks", api.Messages, "databricks-claude-x", options{"workspace": "w"}, "https://w.cloud.databricks.com/serving-endpoints/anthropic/v1/messages"},
		{"huggingface", api.Responses, "a/b", nil, "https://router.huggingface.co/v1/responses"},
	} {
		t.Run(tt.id+" "+string(tt.op)+" "+tt.model, func(t *testing.T) {
			req := mustRequest(t, tt.id, provider.Settings{Key: secret.New("k"), Options: tt.options}, &provider.Call{Operation: tt.op, Model: tt.model})
			if got := address(req); got != tt.want {
				t.Errorf("address\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A client keeps its own dialect where the provider has it for the model, and
// is translated to the preferred one elsewhere.
func TestTheDialectDependsOnTheModel(t *testing.T) {
	const c, m, r, g, v, h = api.DialectChat, api.DialectMessages, api.DialectResponses, api.DialectGemini, api.DialectConverse, api.DialectCohere
	clients := []api.Dialect{c, m, r, g, v}
	for _, tt := range []struct {
		id, model string
		options   options
		custom    string
		want      []api.Dialect
	}{
		{"openai", "gpt-4o", nil, "", []api.Dialect{c, c, r, c, c}},
		{"openai", "gpt-5", nil, "", []api.Dialect{c, r, r, r, r}},
		{"openai", "o3", nil, "", []api.Dialect{c, r, r, r, r}},
		{"openai", "gpt-9.1", nil, "", []api.Dialect{c, r, r, r, r}},
		{"openai", "gpt-5.2-codex", nil, "", []api.Dialect{r, r, r, r, r}},
		{"openai", "gpt-5.4-pro-2026-03-05", nil, "", []api.Dialect{r, r, r, r, r}},
		{"openai", "gpt-4o-search-preview", nil, "", []api.Dialect{c, c, c, c, c}},
		{"openai", "llama-3", nil, "https://front.example.test/v1", []api.Dialect{c, c, r, c, c}},
		{"azure-openai", "gpt-5-codex", options{"resource_name": "r"}, "", []api.Dialect{c, c, c, c, c}},
		{"azure-openai", "gpt-5-codex", options{"resource_name": "r", "api_version": "v1"}, "", []api.Dialect{r, r, r, r, r}},
		{"azure-openai", "our-model", options{"resource_name": "r", "api_version": "2025-04-01-preview"}, "", []api.Dialect{c, c, r, c, c}},
		{"azure-openai", "our-model", options{"resource_name": "r", "api_version": "preview", "model_name": "gpt-5"}, "", []api.Dialect{c, r, r, r, r}},
		{"azure-ai", "gpt-5-codex", nil, "https://r.services.ai.azure.com/openai/v1", []api.Dialect{r, r, r, r, r}},
		{"github-copilot", "gpt-5.4", nil, "", []api.Dialect{r, r, r, r, r}},
		{"github-copilot", "gpt-5.1", nil, "", []api.Dialect{c, r, r, r, r}},
		{"github-copilot", "claude-sonnet-4.5", nil, "", []api.Dialect{c, c, c, c, c}},
		{"databricks", "databricks-gpt-5-1-codex-max", options{"workspace": "w"}, "", []api.Dialect{r, r, r, r, r}},
		{"anthropic", "claude-x", nil, "", []api.Dialect{m, m, m, m, m}},
		{"google", "gemini-x", nil, "", []api.Dialect{g, g, g, g, g}},
		{"cohere", "command-a", nil, "", []api.Dialect{h, h, h, h, h}},
		{"bedrock", "amazon.nova-pro-v1:0", nil, "", []api.Dialect{v, v, v, v, v}},
		{"bedrock", bedrockARN, nil, "", []api.Dialect{v, m, v, v, v}},
		{"bedrock-mantle", "anthropic.claude-x", nil, "", []api.Dialect{m, m, m, m, m}},
		{"bedrock-mantle", "openai.gpt-oss", nil, "", []api.Dialect{c, c, r, c, c}},
		{"bedrock-mantle", "anthropic.claude-x", nil, "https://front.example.test", []api.Dialect{c, c, c, c, c}},
		{"vertex-ai", "gemini-x", vertexAt, "", []api.Dialect{g, g, g, g, g}},
		{"vertex-ai", "claude-x", vertexAt, "", []api.Dialect{m, m, m, m, m}},
		{"vertex-ai", "meta/llama-x", vertexAt, "", []api.Dialect{c, c, c, c, c}},
		{"azure-ai", "gpt-5", foundryAt, "", []api.Dialect{c, c, c, c, c}},
		{"azure-ai", "claude-x", foundryAt, "", []api.Dialect{m, m, m, m, m}},
		{"azure-ai", "claude-x", nil, "https://r.services.ai.azure.com/openai/v1", []api.Dialect{c, c, r, c, c}},
		{"azure-ai", "any", nil, "https://r.services.ai.azure.com/anthropic/", []api.Dialect{m, m, m, m, m}},
		{"deepseek", "deepseek-chat", nil, "", []api.Dialect{c, m, c, c, c}},
		{"deepseek", "deepseek-chat", nil, "https://front.example.test/v1", []api.Dialect{c, c, c, c, c}},
		{"databricks", "databricks-claude-x", options{"workspace": "w"}, "", []api.Dialect{c, m, c, c, c}},
		{"databricks", "databricks-gpt", options{"workspace": "w"}, "", []api.Dialect{c, c, r, c, c}},
		{"ollama", "llama3", nil, "http://localhost:11434", []api.Dialect{c, c, c, c, c}},
	} {
		t.Run(tt.id+" "+tt.model+tt.custom, func(t *testing.T) {
			spec, _ := table.Lookup(tt.id)
			target, err := provider.NewTarget(spec, provider.Settings{CustomHost: tt.custom, Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			var got []api.Dialect
			for _, d := range clients {
				got = append(got, target.DialectFor(d, tt.model))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("speaks %v to clients of %v, want %v", got, clients, tt.want)
			}
		})
	}
}

func TestModelsAreSpelledAsTheHostDoes(t *testing.T) {
	for _, tt := range []struct{ id, model, want string }{
		{"openai", "a/b", "a/b"},
		{"google", "models/gemini-x", "gemini-x"},
		{"vertex-ai", "publishers/meta/models/llama-x", "meta/llama-x"},
		{"vertex-ai", "meta.llama-x", "meta/llama-x"},
		{"vertex-ai", "deepseek-ai/deepseek-x", "deepseek-ai/deepseek-x"},
		{"vertex-ai", "mistralai.mistral-x", "mistral-x"},
		{"vertex-ai", "anthropic/claude-x", "claude-x"},
		{"vertex-ai", "endpoints.123", "123"},
		{"vertex-ai", "publishers/odd", "publishers/odd"},
		{"bedrock", "arn%3Aaws", "arn:aws"},
		{"bedrock", "50%", "50%"},
	} {
		spec, _ := table.Lookup(tt.id)
		if got := spec.UpstreamModelName(tt.model); got != tt.want {
			t.Errorf("%s: %q is spelled %q, want %q", tt.id, tt.model, got, tt.want)
		}
	}
}

func TestAzureIsSentTheModelThatItsVersionReads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options options
		want    string
	}{
		{"a date", options{"deployment_id": "d"}, "m"},
		{"a date and a model behind", options{"deployment_id": "d", "cloud_c_model_name": "gpt-x"}, "gpt-x"},
		{"v1", options{"deployment_id": "d", "api_version": "v1", "cloud_c_model_name": "gpt-x"}, "d"},
		{"preview without a deployment", options{"api_version": "preview"}, "m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.options["resource_name"] = "r"
			spec, _ := table.Lookup("azure-openai")
			target, err := provider.NewTarget(spec, provider.Settings{Options: tt.options})
			if err != nil {
				t.Fatal(err)
			}
			if got := target.UpstreamModelName("m"); got != tt.want {
				t.Errorf("sends the model %q, want %q", got, tt.want)
			}
			if spec.UpstreamModelName("m") != "m" {
				t.Error("the row was changed for all")
			}
		})
	}
}

func TestTheVersionOfTheMessagesProtocolIsSentOnce(t *testing.T) {
	for _, tt := range []struct {
		id, model string
		op        api.Operation
		options   options
		header    []string
		shape     provider.BodyRule
	}{
		{"anthropic", "m", api.Messages, nil, []string{"2023-06-01"}, provider.BodyRule{}},
		{"deepseek", "m", api.Messages, nil, []string{"2023-06-01"}, provider.BodyRule{}},
		{"deepseek", "m", api.Chat, nil, nil, provider.BodyRule{}},
		{"bedrock-mantle", "anthropic.m", api.Messages, nil, []string{"2023-06-01"}, provider.BodyRule{}},
		{"bedrock", "anthropic.claude-m", messages, nil, nil, provider.BodyRule{
			Drop: []string{"model", "stream"}, Set: map[string]string{"anthropic_version": `"bedrock-2023-05-31"`}, Betas: "anthropic_beta",
			Refuse: map[string]string{"thread": "thread_unsupported_request"}}},
		{"vertex-ai", "claude-m", api.Messages, vertexAt, nil, provider.BodyRule{
			Drop: []string{"model"}, Set: map[string]string{"anthropic_version": `"vertex-2023-10-16"`}}},
		{"vertex-ai", "claude-m", api.CountTokens, vertexAt, nil, provider.BodyRule{Set: map[string]string{"anthropic_version": `"vertex-2023-10-16"`}}},
	} {
		t.Run(tt.id+" "+string(tt.op), func(t *testing.T) {
			req := mustRequest(t, tt.id, provider.Settings{Options: tt.options}, &provider.Call{Operation: tt.op, Model: tt.model})
			if diff := cmp.Diff(tt.header, req.Header["Anthropic-Version"]); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			spec, _ := table.Lookup(tt.id)
			if diff := cmp.Diff(tt.shape, spec.BodyRules[tt.op]); diff != "" {
				t.Errorf("shape (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloudsAreAskedInTheirOwnWay(t *testing.T) {
	for id, want := range map[string]provider.Auth{
		"bedrock":             {Method: provider.MethodAWS, Service: "bedrock"},
		"bedrock-mantle":      {Method: provider.MethodAWS, Service: "bedrock-mantle"},
		"claude-platform-aws": {Method: provider.MethodAWS, Service: "aws-external-anthropic"},
		"sagemaker":           {Method: provider.MethodAWS, Service: "sagemaker"},
		"vertex-ai":           {Method: provider.MethodGCP},
		"claude-platform-gcp": {Method: provider.MethodGCP},
		"azure-openai":        {Method: provider.MethodEntra},
		"azure-ai":            {Method: provider.MethodEntra},
		"oracle":              {Method: provider.MethodOCI},
		"google":              {},
	} {
		spec, _ := table.Lookup(id)
		if got := spec.Auth; got.Method != want.Method || got.Service != want.Service {
			t.Errorf("%s: by %q for %q, want %+v", id, got.Method, got.Service, want)
		}
	}
}

func TestAnOptionMayStandForTheKey(t *testing.T) {
	for _, tt := range []struct {
		id      string
		options options
		want    bool
	}{
		{"openai", options{"service_account_json": "{}"}, true},
		{"bedrock", nil, true},
		{"bedrock", options{"cloud_a_access_key_id": "a"}, false},
		{"sagemaker", nil, true},
		{"sagemaker", options{"cloud_a_access_key_id": "a"}, false},
		{"vertex-ai", options{"cloud_b_service_account_json": "{}"}, false},
		{"azure-openai", options{"cloud_c_auth_mode": "managed"}, false},
		{"oracle", options{"oracle_private_key": "k"}, false},
		{"triton", nil, false},
	} {
		spec, _ := table.Lookup(tt.id)
		if got := spec.NeedsKey(tt.options); got != tt.want {
			t.Errorf("%s with %v: needs a key = %t, want %t", tt.id, tt.options, got, tt.want)
		}
	}
}

// A service account is never sent: tokens are fetched with it.
func TestAServiceAccountAsTheKeyIsNotSent(t *testing.T) {
	for _, id := range []string{"vertex-ai", "claude-platform-gcp"} {
		o := options{"region": "r", "project": "p", "workspace": "w", "project_id": "p"}
		req := mustRequest(t, id, provider.Settings{Key: secret.New(` {"private_key":"x"}`), Options: o}, &provider.Call{Operation: api.Messages, Model: "claude-x"})
		if v, sent := req.Header["Authorization"]; sent {
			t.Errorf("%s: sent %q", id, v)
		}
	}
}

func TestTheProjectIsThatOfTheServiceAccount(t *testing.T) {
	const account = `{"type":"service_account","project_id":"theirs"}`
	for _, tt := range []struct {
		name, key string
		options   options
		want      string
	}{
		{"in an option", "", options{"cloud_b_region": "r", "cloud_b_service_account_json": account}, "theirs"},
		{"as the key", account, options{"cloud_b_region": "r"}, "theirs"},
		{"another one is named", account, options{"cloud_b_region": "r", "cloud_b_project_id": "mine"}, "mine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(tt.options)
			req := mustRequest(t, "vertex-ai", provider.Settings{Key: secret.New(tt.key), Options: tt.options}, &provider.Call{Operation: api.Generate, Model: "m"})
			if !strings.Contains(address(req), "/projects/"+tt.want+"/") {
				t.Errorf("address %s, want project %s", address(req), tt.want)
			}
			if len(tt.options) != before {
				t.Errorf("the caller's options were changed: %v", tt.options)
			}
		})
	}
}

func TestOptionsOfCloudsThatCannotBeAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, id string
		options  options
		param    string
	}{
		{"a service account that is text", "vertex-ai", options{"region": "r", "service_account_json": `"text"`}, "cloud_b_service_account_json"},
		{"a service account that is no JSON", "vertex-ai", options{"region": "r", "service_account_json": `{`}, "cloud_b_service_account_json"},
		{"a kind of deployment that is none", "azure-ai", options{"cloud_c_deployment_type": "magic"}, "deployment_type"},
		{"a serverless deployment without a region", "azure-ai", options{"cloud_c_deployment_type": "serverless", "deployment_name": "d"}, "region"},
		{"an endpoint that leaves its host", "azure-ai", options{"endpoint_name": "evil.net/", "region": "r"}, "endpoint_name"},
		{"a foundry that is not an address", "azure-ai", options{"foundry_url": "file:///etc"}, "custom_host"},
		{"no project", "vertex-ai", options{"region": "r"}, "project_id"},
		{"a region that leaves the host of a whole address", "vertex-ai", options{"region": "global", "project_id": ".."}, "project_id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, _ := table.Lookup(tt.id)
			target, err := provider.NewTarget(spec, provider.Settings{Key: secret.New("k"), Options: tt.options})
			if err == nil {
				_, err = provider.NewRequest(t.Context(), target, &provider.Call{Operation: api.Chat, Method: http.MethodPost, Model: "meta/x"})
			}
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Kind != apierr.Invalid || e.Param != tt.param {
				t.Errorf("got %v, want param %s", err, tt.param)
			}
		})
	}
}

// An address that an option names is checked like a custom host.
func TestAFoundryAddressIsGuarded(t *testing.T) {
	spec, _ := table.Lookup("azure-ai")
	target, err := provider.NewTarget(spec, provider.Settings{Options: options{"cloud_c_foundry_url": "https://169.254.169.254"}})
	if err != nil || !target.Guarded {
		t.Errorf("got %v, want a guarded target", err)
	}
}

func TestModelsOfOneHostStayBehindACustomHost(t *testing.T) {
	req := mustRequest(t, "vertex-ai", provider.Settings{CustomHost: "https://front.example.test/g", Options: vertexAt}, &provider.Call{Operation: api.Chat, Model: "xai/grok-x"})
	if got, want := address(req), "https://front.example.test/g/v1/projects/p/locations/europe-west4/endpoints/openapi/chat/completions"; got != want {
		t.Errorf("address\n got %s\nwant %s", got, want)
	}
}

func TestKeysOfFoundryGoWhereTheProtocolWantsThem(t *testing.T) {
	for _, tt := range []struct {
		name, key string
		options   options
		op        api.Operation
		want      http.Header
	}{
		{"chat", "k", foundryAt, api.Chat, http.Header{"Authorization": {"Bearer k"}}},
		{"messages", "k", foundryAt, api.Messages, http.Header{"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}}},
		{"messages with a token", token, foundryAt, api.Messages, http.Header{"Authorization": {"Bearer " + token}, "Anthropic-Version": {"2023-06-01"}}},
		{"messages with a ready token", "k", options{"resource_name": "r", "ad_token": "t"}, api.Messages, http.Header{"Authorization": {"Bearer t"}, "Anthropic-Version": {"2023-06-01"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := mustRequest(t, "azure-ai", provider.Settings{Key: secret.New(tt.key), Options: tt.options}, &provider.Call{Operation: tt.op, Model: "claude-x"})
			if diff := cmp.Diff(tt.want, req.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCapacityOfVertexIsChosenByAHeader(t *testing.T) {
	req := mustRequest(t, "vertex-ai", provider.Settings{Key: secret.New("k"), Options: options{"region": "r", "project_id": "p", "cloud_b_llm_request_type": "shared"}},
		&provider.Call{Operation: api.Generate, Model: "m"})
	if got := req.Header.Get("X-Vertex-Ai-Llm-Request-Type"); got != "shared" {
		t.Errorf("request type %q", got)
	}
}
