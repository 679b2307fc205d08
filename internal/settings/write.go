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
)

// document is the complete state of the control plane as it is written: every section,
// even if empty, in the order of their dependencies.
type document struct {
	Version           int                `json:"version"`
	Organisation      *Organisation      `json:"organisation"`
	Workspaces        []Workspace        `json:"workspaces"`
	Members           []Member           `json:"members"`
	Guardrails        []Guardrail        `json:"guardrails"`
	SecretReferences  []SecretReference  `json:"secret_references"`
	Integrations      []Integration      `json:"integrations"`
	Providers         []Provider         `json:"providers"`
	PromptLabels      []PromptLabel      `json:"prompt_labels"`
	PromptCollections []PromptCollection `json:"prompt_collections"`
	PromptPartials    []Partial          `json:"prompt_partials"`
	Prompts           []Prompt           `json:"prompts"`
	Configs           []Config           `json:"configs"`
	Deployments       []Deployment       `json:"deployments"`
	Keys              []Key              `json:"keys"`
	Policies          []LimitPolicy      `json:"policies"`
}

// WriteState writes the state of s as a file for ParseState. Equal states are written
// as equal bytes.
func (s *Settings) WriteState(w io.Writer) error {
	text, err := json.Marshal(document{
		1, s.Organisation, s.Workspaces, s.Members, s.Guardrails, s.SecretReferences, s.Integrations,
		s.Providers, s.PromptLabels, s.PromptCollections, s.PromptPartials, s.Prompts, s.Configs, s.Deployments, s.Keys, s.Policies,
	})
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := readNode(d)
	if err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	var out bytes.Buffer
	for _, m := range v.members {
		if !m.value.scalar() {
			out.WriteByte('\n')
		}
		out.WriteString(m.name + ":")
		m.value.write(&out, 0)
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

// node is a JSON value that keeps the order of members.
type node struct {
	text    string // YAML text of a scalar
	members []member
	items   []node
	kind    byte // '{', '[', or 0 for a scalar
}

type member struct {
	name  string // YAML text
	value node
}

func (n node) scalar() bool { return n.kind == 0 || len(n.members)+len(n.items) == 0 }

func readNode(d *json.Decoder) (node, error) {
	t, err := d.Token()
	if err != nil {
		return node{}, err
	}
	switch t := t.(type) {
	case json.Delim:
		return readInner(d, byte(t))
	case string:
		return node{text: plain(t)}, nil
	case json.Number:
		return node{text: number(t)}, nil
	case nil:
		return node{text: "null"}, nil
	}
	return node{text: fmt.Sprint(t)}, nil
}

// number returns a number in a spelling that YAML reads as a number: with a dot before
// an exponent, and with an exponent if no integer type can hold it.
func number(n json.Number) string {
	text := n.String()
	v, err := n.Float64()
	if err != nil || v == 0 {
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

func readInner(d *json.Decoder, kind byte) (node, error) {
	n := node{kind: kind}
	for d.More() {
		var name string
		if kind == '{' {
			t, err := d.Token()
			if err != nil {
				return n, err
			}
			name = plain(t.(string))
		}
		v, err := readNode(d)
		if err != nil {
			return n, err
		}
		if kind == '{' {
			n.members = append(n.members, member{name, v})
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := d.Token()
	return n, err
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
	return strings.TrimSuffix(b.String(), "\n")
}

// write writes what follows the colon of a key at this depth, and the end of its line.
func (n node) write(b *bytes.Buffer, depth int) {
	switch {
	case n.kind == '{' && len(n.members) > 0:
		b.WriteByte('\n')
		n.mapping(b, depth+1, strings.Repeat("  ", depth+1))
	case n.kind == '[' && slices.ContainsFunc(n.items, func(i node) bool { return i.kind != 0 }):
		b.WriteByte('\n')
		for _, item := range n.items {
			item.entry(b, depth+1)
		}
	default:
		b.WriteString(" " + n.flow() + "\n")
	}
}

// mapping writes members, the first of them after lead.
func (n node) mapping(b *bytes.Buffer, depth int, lead string) {
	for _, m := range n.members {
		b.WriteString(lead + m.name + ":")
		m.value.write(b, depth)
		lead = strings.Repeat("  ", depth)
	}
}

// entry writes an item of a list.
func (n node) entry(b *bytes.Buffer, depth int) {
	lead := strings.Repeat("  ", depth) + "- "
	if n.kind == '{' && len(n.members) > 0 {
		n.mapping(b, depth+1, lead)
		return
	}
	b.WriteString(lead + n.flow() + "\n")
}

// flow returns a scalar, or a list in one line.
func (n node) flow() string {
	switch n.kind {
	case '{':
		parts := make([]string, len(n.members))
		for i, m := range n.members {
			parts[i] = m.name + ": " + m.value.flow()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case '[':
		parts := make([]string, len(n.items))
		for i, item := range n.items {
			parts[i] = item.flow()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.text
}
