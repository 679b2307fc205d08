package table

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// ownFormatRows returns the providers with a format of their own. Most are reached by
// pass-through.
func ownFormatRows() []*provider.Spec {
	return []*provider.Spec{
		{
			ID:           "anthropic",
			OptionPrefix: "vendorb_",
			Name:         "Anthropic",
			Aliases:      []string{"vendorb"},
			BaseURL:      "https://api.anthropic.com/v1",
			Dialect:      api.DialectMessages, Auth: anthropicAuth(), Env: "ANTHROPIC_API_KEY",
			Paths:  join(claudePaths(""), paths(api.Files)),
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Models: modeldata.Anthropic,
			Options: []provider.Option{
				{Name: "beta", Header: "Anthropic-Beta", Doc: "beta features, separated by commas"},
				{Name: "version", Header: "Anthropic-Version", Doc: "API version instead of 2023-06-01"},
			},
			Docs:  "https://docs.anthropic.com/en/api",
			Notes: []string{"Subscription tokens (sk-ant-oat…) are sent as Bearer, keys in x-api-key."},
		},
		{
			PathModels: true, ID: "black-forest-labs", Name: "Black Forest Labs",
			BaseURL: "https://api.bfl.ai/v1",
			Dialect: api.DialectNative, Auth: provider.Header("x-key"), Env: "BFL_API_KEY",
			Notes: []string{"Responses name a polling_url."},
		},
		{
			PathModels: true, ID: "bytez", Name: "Bytez",
			BaseURL: "https://api.bytez.com",
			Dialect: api.DialectNative, Env: "BYTEZ_API_KEY",
			Auth:  provider.Auth{Header: "Authorization", Scheme: "Key"},
			Notes: []string{"Streams are raw text."},
		},
		{
			ID: "cartesia", Name: "Cartesia",
			BaseURL: "https://api.cartesia.ai",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "CARTESIA_API_KEY",
			Options: []provider.Option{
				{Name: "version", Header: "Cartesia-Version", Doc: "API version, a date; required unless the client sends the header"},
			},
		},
		{
			ID: "cohere", Name: "Cohere",
			BaseURL: "https://api.cohere.com",
			Dialect: api.DialectCohere, Auth: provider.Bearer(), Env: "COHERE_API_KEY",
			Paths: nativePaths{api.CohereChat: "/v2/chat", api.Embeddings: "/v2/embed", api.Rerank: "/v2/rerank", api.Models: "/v1/models"},
			URL:   cohereURL,
			Docs:  "https://docs.cohere.com/reference",
			Notes: []string{
				"The same models are available in the chat protocol at /compatibility/v1, by pass-through.",
				"Pass-through to paths without a version goes to version 1: /v1/tokenize is /v1/tokenize of Cohere, /v1/v2/datasets its /v2/datasets.",
			},
		},
		{
			ID: "deepgram", Name: "Deepgram",
			BaseURL: "https://api.deepgram.com/v1",
			Dialect: api.DialectNative, Env: "DEEPGRAM_API_KEY",
			Auth:  provider.Auth{Header: "Authorization", Scheme: "Token"},
			Notes: []string{"Options of a transcription are in the query."},
		},
		{
			ID: "elevenlabs", Name: "ElevenLabs",
			BaseURL: "https://api.elevenlabs.io/v1",
			Dialect: api.DialectNative, Auth: provider.Header("xi-api-key"), Env: "ELEVENLABS_API_KEY",
			Notes: []string{"The voice is in the path."},
		},
		{
			PathModels: true, ID: "fal-ai", Name: "fal.ai",
			BaseURL: "https://fal.run",
			Dialect: api.DialectChat, Env: "FAL_KEY",
			Auth:  provider.Auth{Header: "Authorization", Scheme: "Key"},
			Paths: under("/openrouter/router/openai/v1", api.Chat),
			Notes: []string{"Chat uses the OpenAI-compatible host; use pass-through at /{model} for image, video and audio models."},
		},
		{
			ID: "fish-audio", Name: "Fish Audio",
			BaseURL: "https://api.fish.audio",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "FISH_AUDIO_API_KEY",
			Notes: []string{"The model is named in a header."},
		},
		{
			ID: "gladia", Name: "Gladia",
			BaseURL: "https://api.gladia.io",
			Dialect: api.DialectNative, Auth: provider.Header("x-gladia-key"), Env: "GLADIA_API_KEY",
			Notes: []string{"Transcriptions are polled."},
		},
		{
			ID: "hume", Name: "Hume AI",
			BaseURL: "https://api.hume.ai",
			Dialect: api.DialectNative, Auth: provider.Header("X-Hume-Api-Key"), Env: "HUME_API_KEY",
		},
		{
			ID: "klingai", Name: "Kling AI",
			BaseURL: "https://api-singapore.klingai.com",
			Dialect: api.DialectNative, Auth: provider.Bearer(),
			Notes: []string{"The key is an HS256 token; the gateway does not create one from an access key."},
		},
		{
			ID: "lmnt", Name: "LMNT",
			BaseURL: "https://api.lmnt.com",
			Dialect: api.DialectNative, Auth: provider.Header("x-api-key"), Env: "LMNT_API_KEY",
		},
		{
			ID: "luma", Name: "Luma AI",
			BaseURL: "https://api.lumalabs.ai",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "LUMA_API_KEY",
			Notes: []string{"Generations are polled."},
		},
		{
			ID: "meshy", Name: "Meshy",
			BaseURL: "https://api.meshy.ai/openapi",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "MESHY_API_KEY",
			Notes: []string{"Reached by pass-through; /v2 for text to 3D, /v1 otherwise."},
		},
		{
			ID: "milvus", Name: "Milvus / Zilliz",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "MILVUS_TOKEN",
			Notes: []string{"A vector store, reached by pass-through."},
		},
		{
			ID: "nomic", Name: "Nomic",
			BaseURL: "https://api-atlas.nomic.ai/v1",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "NOMIC_API_KEY",
			Notes: []string{"Embeddings have their own format."},
		},
		{
			ID: "prodia", Name: "Prodia",
			BaseURL: "https://inference.prodia.com/v2",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "PRODIA_TOKEN",
		},
		{
			ID: "qdrant", Name: "Qdrant",
			Dialect: api.DialectNative, Auth: provider.Header("api-key"), Env: "QDRANT_API_KEY",
			Notes: []string{"A vector store, reached by pass-through."},
		},
		{
			PathModels: true, ID: "replicate", Name: "Replicate",
			BaseURL: "https://api.replicate.com/v1",
			Dialect: api.DialectReplicate, Auth: provider.Bearer(), Env: "REPLICATE_API_TOKEN",
			Paths: nativePaths{
				api.Prediction:            "/predictions",
				api.Prediction.Streamed(): "/predictions",
				api.Images:                "/predictions",
			},
			PathOf: replicatePath,
			Docs:   "https://replicate.com/docs/reference/http",
			Notes: []string{
				"A model is owner/name, owner/name:version, a version, or deployments/owner/name.",
				"A response is a prediction that the gateway follows: by its events if the client streams and the model has them, otherwise by polling. It is cancelled when the client disconnects.",
				"Models differ in their inputs. Turns become one prompt; tools are not supported.",
			},
		},
		{
			ID: "rev-ai", Name: "Rev AI",
			BaseURL: "https://api.rev.ai",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "REVAI_API_KEY",
			Notes: []string{"Transcriptions are jobs that are polled."},
		},
		{
			ID: "runway", Name: "Runway",
			BaseURL: "https://api.dev.runwayml.com/v1",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "RUNWAYML_API_SECRET",
			Header: map[string]string{"X-Runway-Version": "2024-11-06"},
			Notes:  []string{"Tasks are polled."},
		},
		{
			ID: "scenario-ai", Name: "Scenario",
			BaseURL: "https://api.cloud.scenario.com/v1",
			Dialect: api.DialectNative, Env: "SCENARIO_API_KEY",
			Auth:  provider.Auth{Header: "Authorization", Scheme: "Basic", Sign: basicPair},
			Notes: []string{"The credential is key:secret, sent as Basic."},
		},
		{
			ID: "segmind", Name: "Segmind",
			BaseURL: "https://api.segmind.com/v1",
			Dialect: api.DialectNative, Auth: provider.Header("x-api-key"), Env: "SEGMIND_API_KEY",
		},
		{
			PathModels: true, ID: "stability-ai",
			OptionPrefix: "stability_",
			Name:         "Stability AI",
			BaseURL:      "https://api.stability.ai",
			Dialect:      api.DialectNative, Auth: provider.Bearer(), Env: "STABILITY_API_KEY",
			Options: []provider.Option{
				{Name: "client_id", Header: "Stability-Client-Id", Doc: "name of the application"},
				{Name: "client_user_id", Header: "Stability-Client-User-Id", Doc: "user of the application"},
				{Name: "client_version", Header: "Stability-Client-Version", Doc: "version of the application"},
			},
			Notes: []string{"Image generation is multipart."},
		},
		{
			ID: "tripo3d", Name: "Tripo3D",
			BaseURL: "https://api.tripo3d.ai/v2/openapi",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "TRIPO_API_KEY",
			Notes: []string{"Reached by pass-through."},
		},
		{
			ID: "triton", Name: "NVIDIA Triton",
			Dialect: api.DialectNative, Auth: provider.Auth{},
			Notes: []string{"No credential is sent."},
		},
	}
}

// anthropicAuth sends keys in x-api-key and subscription tokens as Bearer.
func anthropicAuth() provider.Auth {
	return provider.Auth{Header: "X-Api-Key", Sign: func(_ context.Context, t *provider.Target, req *http.Request) error {
		if key := t.Key.Reveal(); strings.HasPrefix(key, "sk-ant-oat") {
			setBearer(req, key, "X-Api-Key")
		}
		return nil
	}}
}

// basicPair encodes a credential of the form key:secret. Any other is sent as
// already encoded.
func basicPair(_ context.Context, t *provider.Target, req *http.Request) error {
	if pair := t.Key.Reveal(); strings.Contains(pair, ":") {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return nil
}

// cohereURL adds the version to the paths of pass-through requests that name none,
// since Cohere has no API without one, and asks for all models instead of 20.
// https://docs.cohere.com/reference/list-models
func cohereURL(t *provider.Target, c *provider.Call, u *url.URL) error {
	if c.Operation == api.Models {
		addQuery(u, "page_size", "1000")
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	if c.Operation == api.Proxy && first != "v1" && first != "v2" && first != "compatibility" {
		insert(t, u, "/v1")
	}
	return nil
}

// replicatePath returns the path that creates a prediction of a model. A
// version is named in the body instead.
// https://replicate.com/docs/topics/predictions/create-a-prediction
func replicatePath(_ api.Operation, model string) string {
	if replicate.Version(model) != "" {
		return ""
	}
	kind, rest := "/models/", model
	if deployment, ok := strings.CutPrefix(model, "deployments/"); ok {
		kind, rest = "/deployments/", deployment
	}
	owner, name, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return kind + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/predictions"
}
