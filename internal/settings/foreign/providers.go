package foreign

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/settings"
)

// otherIDs are names of providers elsewhere that differ from the ids and aliases here by more
// than their spelling.
var otherIDs = map[string]string{
	"ai21-chat": "ai21", "aws": "bedrock", "azure-text": "azure-openai", "bedrock-converse": "bedrock", "cohere-chat": "cohere",
	"custom-openai": "openai-compatible", "friendliai": "friendli", "hosted-vllm": "vllm", "lambda-ai": "lambda",
	"ollama-chat": "ollama", "openai-like": "openai-compatible", "sagemaker-chat": "sagemaker", "sgl": "sglang",
	"text-completion-openai": "openai", "vertex-ai-beta": "vertex-ai", "zai": "z-ai",
}

// providerOf returns the definition of a provider by its name elsewhere.
func providerOf(name string) (*provider.Spec, bool) {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, id := range []string{otherIDs[name], name, name + "-ai", strings.TrimSuffix(name, "-ai")} {
		if spec, ok := table.Lookup(id); ok && id != "" {
			return spec, true
		}
	}
	return nil, false
}

// families are beginnings of names of models that one provider alone has, as patterns.
var families = []struct{ provider, pattern string }{
	{"openai", `^(gpt-|o[1-9]|chatgpt-|codex-|text-embedding-|text-moderation-|omni-moderation-|dall-e-|whisper-|tts-|sora-)`},
	{"anthropic", `^claude-`},
	{"google", `^(gemini-|gemma-)`},
	{"mistral-ai", `^(mistral-|codestral-|ministral-|magistral-|pixtral-)`},
	{"cohere", `^(command-|embed-|rerank-)`},
	{"deepseek", `^deepseek-`},
	{"x-ai", `^grok-`},
	{"perplexity-ai", `^sonar`},
}

// account is what a source says about an account at a provider.
type account struct {
	name    string // of its slug; empty for the id of the provider
	spec    *provider.Spec
	key     entry
	base    entry
	options map[string]entry // by the names of this gateway
}

// secretOptions are options that are credentials.
var secretOptions = []string{"access_key_id", "secret_access_key", "session_token", "entra_client_secret", "ad_token"}

// open adds the provider of an account. It returns an empty slug, with a note, if there can be
// none.
func (b *builder) open(a account) (string, error) {
	p := settings.Provider{Provider: a.spec.ID}
	secrets := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(a.options)) {
		e := a.options[name]
		if _, takes := a.spec.FindOption(name); !takes || !e.exists() || e.text() == "" {
			continue
		}
		if slices.Contains(secretOptions, name) {
			secrets[name] = b.credential(e, a.spec.ID+"_"+name)
			continue
		}
		if v := b.plain(e); v != "" {
			if p.Options == nil {
				p.Options = map[string]string{}
			}
			p.Options[name] = v
		}
	}
	base := b.plain(a.base)
	if resource, ok := azureResource(base); ok && a.spec.ID == "azure-openai" {
		if p.Options == nil {
			p.Options = map[string]string{}
		}
		p.Options["resource_name"], base = resource, ""
	}
	host, ok := b.address(a.base.path, base, a.spec.ID)
	if !ok {
		return "", nil
	}
	if a.spec.BaseURL == "" && host == "" {
		b.note(cmp.Or(a.base.path, a.key.path), Missing,
			"provider "+a.spec.ID+" needs an address, and the file has none; provider left out")
		return "", nil
	}
	if p.CustomHost = host; a.key.exists() {
		p.APIKey = b.credential(a.key, cmp.Or(a.name, a.spec.ID)+"_API_KEY")
	}
	return b.addProvider(cmp.Or(a.name, a.spec.ID), p, secrets)
}

// azureResource returns the resource of an address of Azure OpenAI.
func azureResource(base string) (string, bool) {
	u, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	resource, ok := strings.CutSuffix(u.Hostname(), ".openai.azure.com")
	return resource, ok && resource != "" && !strings.Contains(resource, ".")
}
