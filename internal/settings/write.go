package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// document is the complete state of the control plane as it is written: every section,
// even if empty, in the order of their dependencies.
type document struct {
	Version              int                   `json:"version"`
	Organisation         *Organisation         `json:"organisation"`
	Workspaces           []Workspace           `json:"workspaces"`
	Members              []Member              `json:"members"`
	Guardrails           []Guardrail           `json:"guardrails"`
	SecretReferences     []SecretReference     `json:"secret_references"`
	GuardrailCredentials []GuardrailCredential `json:"guardrail_credentials"`
	Integrations         []Integration         `json:"integrations"`
	Providers            []Provider            `json:"providers"`
	PromptLabels         []PromptLabel         `json:"prompt_labels"`
	PromptCollections    []PromptCollection    `json:"prompt_collections"`
	PromptPartials       []Partial             `json:"prompt_partials"`
	Prompts              []Prompt              `json:"prompts"`
	Configs              []Config              `json:"configs"`
	Deployments          []Deployment          `json:"deployments"`
	Keys                 []Key                 `json:"keys"`
	Policies             []LimitPolicy         `json:"policies"`
	IdentityProviders    []IdentityProvider    `json:"identity_providers"`
	Domains              []Domain              `json:"domains"`
	DirectoryMappings    []DirectoryMapping    `json:"directory_mappings"`
	WorkloadIdentities   []WorkloadIdentity    `json:"workload_identities"`
	MCPIntegrations      []MCPIntegration      `json:"mcp_integrations"`
	MCPServers           []MCPServer           `json:"mcp_servers"`
	MCPBundles           []MCPBundle           `json:"mcp_bundles"`
	AgentIntegrations    []AgentIntegration    `json:"agent_integrations"`
	AgentServers         []AgentServer         `json:"agent_servers"`
}

// WriteState writes the state of s as a file for ParseState. Equal states are written
// as equal bytes.
func (s *Settings) WriteState(w io.Writer) error {
	text, err := json.Marshal(s.document())
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return writeYAML(w, text)
}

func (s *Settings) document() document {
	return document{
		1, s.Organisation, s.Workspaces, s.Members, s.Guardrails, s.SecretReferences, s.GuardrailCredentials, s.Integrations,
		s.Providers, s.PromptLabels, s.PromptCollections, s.PromptPartials, s.Prompts, s.Configs, s.Deployments, s.Keys, s.Policies,
		s.IdentityProviders, s.Domains, s.DirectoryMappings, s.WorkloadIdentities,
		s.MCPIntegrations, s.MCPServers, s.MCPBundles, s.AgentIntegrations, s.AgentServers,
	}
}

// WriteSections writes the sections that s has as a file for Parse, or for ParseState if
// HasState reports true. Credentials are written as their references.
func (s *Settings) WriteSections(w io.Writer) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	return writeYAML(w, text)
}

// writeYAML writes a JSON object as YAML.
func writeYAML(w io.Writer, text []byte) error {
	v, err := jsonedit.ParseValue(text)
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	var out bytes.Buffer
	for key, field := range v.Fields() {
		if !isEmptyOrScalar(field) {
			out.WriteByte('\n')
		}
		out.WriteString(plain(key.String()) + ":")
		writeValue(&out, field, 0)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// MarshalJSON implements json.Marshaler: the object unchanged.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("null"), nil
	}
	return o, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(b []byte) error {
	*o = append((*o)[:0], b...)
	return nil
}

// isEmptyOrScalar reports whether a value is written in the line of its key.
func isEmptyOrScalar(v jsonedit.Value) bool { return !hasFields(v) && !hasElements(v) }

func hasFields(v jsonedit.Value) bool {
	for range v.Fields() {
		return true
	}
	return false
}

func hasElements(v jsonedit.Value) bool {
	for range v.Elements() {
		return true
	}
	return false
}

// number returns a number in a spelling that YAML reads as a number: with a dot before
// an exponent, and with an exponent if no integer type can hold it.
func number(n jsonedit.Value) string {
	text := string(n.Raw())
	v, ok := n.Float()
	if !ok || v == 0 {
		return "0"
	}
	if !strings.ContainsAny(text, ".eE") && len(text) <= 18 {
		return text
	}
	if size := math.Abs(v); size >= 1e-6 && size < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text = strconv.FormatFloat(v, 'e', -1, 64)
	if !strings.Contains(text, ".") {
		text = strings.Replace(text, "e", ".0e", 1)
	}
	return text
}

// plainForm matches strings that YAML reads as strings without quotes, except for
// reserved words.
var (
	plainForm = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_@./+-]*( [A-Za-z0-9_@./+-]+)*$`)
	words     = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"}
)

// plain returns a string as YAML.
func plain(text string) string {
	if plainForm.MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // cannot fail for a string
	}
	return escapeUnprintable(strings.TrimSuffix(b.String(), "\n"))
}

// escapeUnprintable writes what terminals interpret, and what nobody sees, as escapes in a
// quoted string: JSON leaves some of them as they are.
func escapeUnprintable(quoted string) string {
	if !strings.ContainsFunc(quoted, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return quoted
	}
	var b strings.Builder
	for _, r := range quoted {
		switch {
		case strconv.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// writeValue writes what follows the colon of a key at this depth, and the end of its
// line.
func writeValue(b *bytes.Buffer, v jsonedit.Value, depth int) {
	switch {
	case hasFields(v):
		b.WriteByte('\n')
		writeMapping(b, v, depth+1, strings.Repeat("  ", depth+1))
	case hasNested(v):
		b.WriteByte('\n')
		for element := range v.Elements() {
			writeElement(b, element, depth+1)
		}
	default:
		b.WriteString(" " + flow(v) + "\n")
	}
}

// hasNested reports whether an array has an object or array among its elements.
func hasNested(v jsonedit.Value) bool {
	for element := range v.Elements() {
		if kind := element.Kind(); kind == jsonedit.Object || kind == jsonedit.Array {
			return true
		}
	}
	return false
}

// writeMapping writes members, the first of them after lead.
func writeMapping(b *bytes.Buffer, v jsonedit.Value, depth int, lead string) {
	for key, field := range v.Fields() {
		b.WriteString(lead + plain(key.String()) + ":")
		writeValue(b, field, depth)
		lead = strings.Repeat("  ", depth)
	}
}

// writeElement writes an element of a list.
func writeElement(b *bytes.Buffer, v jsonedit.Value, depth int) {
	lead := strings.Repeat("  ", depth) + "- "
	if hasFields(v) {
		writeMapping(b, v, depth+1, lead)
		return
	}
	b.WriteString(lead + flow(v) + "\n")
}

// flow returns a value in one line.
func flow(v jsonedit.Value) string {
	var parts []string
	switch v.Kind() {
	case jsonedit.Object:
		for key, field := range v.Fields() {
			parts = append(parts, plain(key.String())+": "+flow(field))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case jsonedit.Array:
		for element := range v.Elements() {
			parts = append(parts, flow(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case jsonedit.String:
		text, _ := v.Text()
		return plain(text)
	case jsonedit.Number:
		return number(v)
	}
	return string(v.Raw())
}
