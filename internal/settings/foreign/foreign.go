// Package foreign converts the configuration of other gateways, and the environment
// variables of providers, to a file of this one.
//
// It guarantees that a credential is never written in plain text, that every setting of
// the source is used or reported, and that the time and memory a file takes are bounded.
// It reads no file and sends nothing.
package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"modelgate/internal/base/secret"
)

// Limits of a source.
const (
	maxYAML  = 1 << 20  // in bytes
	maxOther = 16 << 20 // in bytes
	maxDepth = 64
	maxNodes = 200_000 // values, with those that aliases repeat
	maxNotes = 1000
)

// Options says how sources are converted.
type Options struct {
	// Environ returns the variables of the environment as NAME=value. It is the source of
	// the format env, and has the values of settings that must be in the file, such as
	// addresses.
	Environ []string
	// Box seals the credentials of the source. Nil replaces them by environment variables.
	Box *secret.Box
}

// Outcomes of settings of a source.
const (
	Taken   = "taken over"
	Changed = "taken over differently"
	Missing = "without equivalent"
)

// Note is the outcome for a setting of the source.
type Note struct {
	Setting string `json:"setting"` // its path in the source
	Outcome string `json:"outcome"`
	Text    string `json:"text"` // how, or why not and what to do
}

// Variable is an environment variable that the file refers to.
type Variable struct {
	Name string `json:"name"`
	From string `json:"from,omitempty"` // where the source has its value; empty if the source refers to it too
}

// Report lists the outcomes for a source, and what its file needs.
type Report struct {
	Source    string     `json:"source"`
	Apply     bool       `json:"apply"` // the file is for modelgate apply, and no gateway starts with it
	Models    []string   `json:"models"`
	Notes     []Note     `json:"notes"`
	Variables []Variable `json:"variables"`
}

// Formats returns the formats of sources.
func Formats() []string { return []string{"litellm", "portkey", "bifrost", "one-api", "env"} }

// Import converts a source. It returns a file that is accepted if the variables of the
// report are set.
func Import(format string, text []byte, o Options) (file []byte, report *Report, err error) {
	b := newBuilder(format, o)
	switch format {
	case "env":
		err = b.readEnv(text)
	case "one-api":
		err = b.readOneAPI(text)
	case "litellm":
		err = b.readTree(text, parseYAML, b.readLiteLLM)
	case "portkey":
		err = b.readTree(text, parseJSON, b.readPortkey)
	case "bifrost":
		err = b.readTree(text, parseJSON, b.readBifrost)
	default:
		err = fmt.Errorf("%q is not a format; use %s", format, strings.Join(Formats(), ", "))
	}
	if err != nil {
		return nil, nil, err
	}
	file, err = b.finish()
	if err != nil {
		return nil, nil, err
	}
	return file, &b.report, nil
}

// readTree parses a source, reads it, and reports what was not read.
func (b *builder) readTree(text []byte, parse func([]byte) (any, error), read func(entry) error) error {
	doc, err := parse(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	if err != nil {
		return err
	}
	root := entry{doc, "", readPaths{}}
	if root.fields() == nil && root.items() == nil {
		return errors.New("the file has neither an object nor a list")
	}
	if err := read(root); err != nil {
		return err
	}
	root.walkUnread(b.noteUnread)
	return nil
}

// unreadAdvice says what to do about settings that were not read, by a part of their path.
// The first match counts.
var unreadAdvice = []struct{ part, text string }{
	{"guardrail", "create guardrails (docs/guardrails.md) and name them in the config"},
	{"hooks", "create guardrails (docs/guardrails.md) and name them in the config"},
	{"callback", "send traces and metrics over OTLP (docs/telemetry.md), or use webhooks (docs/webhooks.md)"},
	{"langfuse", "send traces and metrics over OTLP (docs/telemetry.md)"},
	{"plugins", "plugins of other gateways do not run here; see docs/README.md for what is built in"},
	{"redis", "set cache.store and limits.counters in the settings of the gateway (docs/settings.md)"},
	{"cache", "set cache in the config and in the settings of the gateway (docs/cache.md)"},
	{"alert", "name the destinations in alerts of the settings (docs/alerts.md)"},
	{"database", "the gateway has a database of its own (docs/operations.md)"},
	{"store", "the gateway has a database of its own (docs/operations.md)"},
	{"mcp", "create MCP integrations and servers (docs/tools.md)"},
	{"rate_limit", "set rate limits of keys, workspaces or providers (docs/limits.md)"},
	{"rpm", "set rate limits of providers (docs/limits.md)"},
	{"tpm", "set rate limits of providers (docs/limits.md)"},
	{"budget", "set budgets of keys, workspaces or providers (docs/limits.md)"},
	{"team", "create a workspace for each team (docs/administration.md)"},
	{"customers", "create a workspace for each customer (docs/administration.md)"},
	{"cost_per", "write prices into the settings of the gateway (docs/prices.md)"},
	{"headers", "set custom_headers of an integration (docs/declarative.md)"},
	{"fallbacks", "add a target to the config (docs/routing.md)"},
	{"model_info", "the gateway knows models by its price book (docs/prices.md)"},
	{"litellm_params", "if it is a parameter of requests, add it to default_params of the target (docs/routing.md)"},
}

func (b *builder) noteUnread(path string) {
	for _, a := range unreadAdvice {
		if strings.Contains(strings.ToLower(path), a.part) {
			b.note(path, Missing, a.text)
			return
		}
	}
	b.note(path, Missing, "the import does not know this setting; docs/settings.md lists those of the gateway")
}

// note adds a note. Settings of other files may have any name, and notes never quote values.
func (b *builder) note(setting, outcome, text string) {
	switch n := len(b.report.Notes); {
	case n < maxNotes:
		b.report.Notes = append(b.report.Notes, Note{cut(setting, 200), outcome, text})
	case n == maxNotes:
		b.report.Notes = append(b.report.Notes, Note{"", Missing, fmt.Sprintf("more than %d notes; further ones are left out", maxNotes)})
	}
}

// cut shortens a text from a source to about n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// environment returns a variable of the environment.
func (b *builder) environment(name string) (string, bool) {
	i := slices.IndexFunc(b.options.Environ, func(word string) bool { return strings.HasPrefix(word, name+"=") })
	if i < 0 {
		return "", false
	}
	v := b.options.Environ[i][len(name)+1:]
	return v, v != ""
}
