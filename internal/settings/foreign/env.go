package foreign

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/provider/table"
)

// otherVariables are variables of official clients in addition to those of the table, with the
// provider and what they set: its key, its address or an option.
var otherVariables = []struct{ name, provider, sets string }{
	{"AZURE_API_KEY", "azure-openai", "key"},
	{"AZURE_OPENAI_ENDPOINT", "azure-openai", "address"},
	{"AZURE_API_BASE", "azure-openai", "address"},
	{"OPENAI_API_VERSION", "azure-openai", "api_version"},
	{"AZURE_OPENAI_API_VERSION", "azure-openai", "api_version"},
	{"AZURE_API_VERSION", "azure-openai", "api_version"},
	{"GOOGLE_API_KEY", "google", "key"},
	{"OPENAI_BASE_URL", "openai", "address"},
	{"OPENAI_API_BASE", "openai", "address"},
	{"ANTHROPIC_BASE_URL", "anthropic", "address"},
	{"AWS_ACCESS_KEY_ID", "bedrock", "access_key_id"},
	{"AWS_SECRET_ACCESS_KEY", "bedrock", "secret_access_key"},
	{"AWS_SESSION_TOKEN", "bedrock", "session_token"},
	{"AWS_REGION", "bedrock", "region"},
	{"AWS_DEFAULT_REGION", "bedrock", "region"},
	{"HUGGINGFACE_API_KEY", "huggingface", "key"},
	{"TOGETHERAI_API_KEY", "together-ai", "key"},
	{"OLLAMA_HOST", "ollama", "address"},
}

// notKeys are variables of the table that usually are not for a provider of models.
var notKeys = []string{"GITHUB_TOKEN"}

// readEnv reads variables of the environment, or of a .env file.
func (b *builder) readEnv(file []byte) error {
	vars, err := b.variablesOf(file)
	if err != nil {
		return err
	}
	for _, spec := range table.All() {
		a := account{spec: spec, options: map[string]entry{}}
		found := false
		if v, ok := vars[spec.Env]; ok && spec.Env != "" && !slices.Contains(notKeys, spec.Env) && b.firstOf(spec.ID, spec.Env) {
			a.key, found = entry{v, spec.Env, readPaths{}}, true
		}
		for _, o := range otherVariables {
			v, ok := vars[o.name]
			if !ok || o.provider != spec.ID {
				continue
			}
			e := entry{v, o.name, readPaths{}}
			switch {
			case o.sets == "key" && !a.key.exists():
				a.key, found = e, true
			case o.sets == "address" && !a.base.exists():
				a.base = e
				found = found || spec.BaseURL == ""
			case o.sets == "access_key_id":
				a.options[o.sets], found = e, true
			default:
				if _, twice := a.options[o.sets]; !twice {
					a.options[o.sets] = e
				}
			}
		}
		if !found || spec.BaseURL == "" && !a.base.exists() {
			continue
		}
		if err := b.addVariables(a); err != nil {
			return err
		}
	}
	return nil
}

// firstOf reports whether a provider is the first of the table with a variable.
func (b *builder) firstOf(id, env string) bool {
	for _, s := range table.All() {
		if s.Env == env {
			return s.ID == id
		}
	}
	return false
}

// addVariables adds the provider of variables, and routes the models that only it has.
func (b *builder) addVariables(a account) error {
	if v := a.base.text(); v != "" && a.spec.ID == "ollama" && !strings.Contains(v, "://") {
		a.base.value = "http://" + v
	}
	if a.spec.ID == "bedrock" && a.key.exists() {
		delete(a.options, "access_key_id")
		delete(a.options, "secret_access_key")
		delete(a.options, "session_token")
	}
	if b.options.Box == nil { // the variables themselves
		if a.key.exists() {
			a.key.value = "os.environ/" + a.key.path
		}
		for name, e := range a.options {
			if slices.Contains(secretOptions, name) {
				e.value = "os.environ/" + e.path
				a.options[name] = e
			}
		}
	}
	slug, err := b.open(a)
	if err != nil || slug == "" {
		return err
	}
	b.lists(slug, "")
	var text strings.Builder
	text.WriteString("provider @" + slug + "; clients name its models @" + slug + "/model")
	for _, f := range families {
		if f.provider == a.spec.ID {
			b.rules = append(b.rules, condition{map[string]any{"params.model": map[string]any{"$regex": f.pattern}}, slug})
			text.WriteString(", or by their own names if they match " + f.pattern)
		}
	}
	b.note(cutNote(a), Taken, text.String())
	return nil
}

func cutNote(a account) string {
	if a.key.exists() {
		return a.key.path
	}
	if e, ok := a.options["access_key_id"]; ok {
		return e.path
	}
	return a.base.path
}

// variablesOf returns the variables of a .env file, or those of the environment without one.
func (b *builder) variablesOf(file []byte) (map[string]string, error) {
	out := map[string]string{}
	if file == nil {
		for _, word := range b.options.Environ {
			if name, v, ok := strings.Cut(word, "="); ok && v != "" {
				out[name] = v
			}
		}
		return out, nil
	}
	if len(file) > maxYAML {
		return nil, tooLarge(maxYAML)
	}
	lines := bufio.NewScanner(bytes.NewReader(file))
	lines.Buffer(nil, maxYAML)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, v, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if name = strings.TrimSpace(name); !ok || !variableForm.MatchString(name) {
			return nil, fmt.Errorf("line %d is not of the form NAME=value", n)
		}
		v = strings.TrimSpace(v)
		if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		} else if i := strings.Index(v, " #"); i >= 0 {
			v = strings.TrimSpace(v[:i])
		}
		if v != "" {
			out[name] = v
		}
	}
	return out, lines.Err()
}
