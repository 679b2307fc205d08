package table

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"modelgate/internal/dialect"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// Describe writes the table as aligned text, one line for each provider.
func Describe(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ID\tNAME\tDIALECT\tKEY GOES IN\tENVIRONMENT\tADDRESS\tOPERATIONS")
	for _, s := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Name, s.Dialect,
			Credential(s), dash(s.Env), orCustom(s.BaseURL), dash(strings.Join(Operations(s), " ")))
	}
	return tw.Flush()
}

// description is the JSON form of a provider.
type description struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases,omitempty"`
	BaseURL    string   `json:"base_url,omitempty"`
	Dialect    string   `json:"dialect"`
	Auth       string   `json:"auth"`
	Env        string   `json:"env,omitempty"`
	Operations []string `json:"operations"`
	Options    []option `json:"options,omitempty"`
	Quirks     []string `json:"quirks,omitempty"`
	Notes      []string `json:"notes,omitempty"`
	Docs       string   `json:"docs,omitempty"`
}

type option struct {
	Name    string `json:"name"`
	Default string `json:"default,omitempty"`
	Header  string `json:"header,omitempty"`
	Doc     string `json:"doc"`
}

// DescribeJSON writes the table as a JSON array with an object for each
// provider.
func DescribeJSON(w io.Writer) error {
	list := make([]description, len(rows))
	for i, s := range rows {
		list[i] = describe(s)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

func describe(s *provider.Spec) description {
	d := description{
		ID: s.ID, Name: s.Name, Aliases: s.Aliases,
		BaseURL: s.BaseURL, Dialect: string(s.Dialect),
		Auth: Credential(s), Env: s.Env, Operations: Operations(s),
		Quirks: Quirks(s), Notes: s.Notes, Docs: s.Docs,
	}
	for _, o := range s.Options {
		d.Options = append(d.Options, option{o.Name, o.Default, o.Header, o.Doc})
	}
	return d
}

// Credential describes where the credential of s is sent, such as
// "Authorization: Bearer", and its alternatives.
func Credential(s *provider.Spec) string {
	place, way := place(s.Auth), ways[s.Auth.Method]
	switch {
	case place == "" && way == "":
		return "none"
	case place == "" || way == "":
		return place + way
	}
	return place + " or " + way
}

func place(a provider.Auth) string {
	switch {
	case a.Header != "" && a.Scheme != "":
		return a.Header + ": " + a.Scheme
	case a.Header != "":
		return a.Header
	case a.Query != "":
		return "?" + a.Query + "="
	}
	return ""
}

var ways = map[provider.Method]string{
	provider.MethodAWS:   "SigV4",
	provider.MethodGCP:   "service account",
	provider.MethodEntra: "Entra token",
	provider.MethodOCI:   "OCI signature",
}

// Operations returns the names of the operations that s offers, sorted.
// Separate paths for streaming are not listed.
func Operations(s *provider.Spec) []string {
	ops := make([]string, 0, len(s.Paths))
	for op := range s.Paths {
		if name := string(op); !strings.HasSuffix(name, ".stream") {
			ops = append(ops, name)
		}
	}
	slices.Sort(ops)
	return ops
}

// Quirks returns sentences that describe what the gateway changes in a request
// for s.
func Quirks(s *provider.Spec) []string {
	var words []string
	if change := changes("", s.Drop, s.Rename); change != "" {
		words = append(words, change)
	}
	for _, field := range slices.Sorted(maps.Keys(s.Limits)) {
		r := s.Limits[field]
		if field == "n" && r.Max == 1 {
			words = append(words, "rejects n above 1")
			continue
		}
		words = append(words, fmt.Sprintf("keeps %s within %s to %s", field, number(r.Min), number(r.Max)))
	}
	words = append(words, turnQuirks(s.Profile.Turns)...)
	words = append(words, modelQuirks(s.Models)...)
	if s.RuleOf != nil || slices.ContainsFunc(s.Models, func(m modeldata.Model) bool { return m.MaxOutput > 0 }) {
		words = append(words, "reduces the limit of output tokens to the most that the model has, if that is known")
	}
	if slices.ContainsFunc(s.Models, func(m modeldata.Model) bool { return m.NoEffort }) {
		words = append(words, "leaves out the effort for models that are known to reject it")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Header)) {
		words = append(words, fmt.Sprintf("sends %s: %s", name, s.Header[name]))
	}
	if s.UsageUnasked {
		words = append(words, "reports the usage of streams without being asked")
	}
	if s.Betas.Allow != nil || s.Betas.Drop != nil {
		words = append(words, "leaves out beta flags that the host does not accept")
	}
	return words
}

// turnQuirks describes the changes to messages.
func turnQuirks(rules dialect.TurnRules) (words []string) {
	for _, rule := range []struct {
		applies bool
		words   string
	}{
		{rules.SystemOnly, "sends the role developer as system"},
		{rules.ReplyAfterTool, "adds a reply of the assistant between the message of a tool and one of the user"},
		{rules.MarkPrefix, "adds prefix: true to a last message of the assistant"},
		{rules.Alternate,
			"merges messages of one role after each other, sends later system messages as the user's, and begins with one of the user"},
	} {
		if rule.applies {
			words = append(words, rule.words)
		}
	}
	return words
}

// modelQuirks describes the changes for single models: rows with the same
// changes in one text.
func modelQuirks(rows modeldata.Table) (words []string) {
	patterns := map[string][]string{}
	for _, m := range rows {
		change := changes("", m.Drop, m.Rename)
		if change == "" {
			continue
		}
		if patterns[change] == nil {
			words = append(words, change)
		}
		patterns[change] = append(patterns[change], strings.TrimPrefix(m.Pattern, "^")+"*")
	}
	for i, change := range words {
		of := strings.Join(patterns[change], ", ")
		if n := len(patterns[change]); n > 5 {
			of = fmt.Sprintf("%d families of models", n)
		}
		words[i] = "for " + of + ": " + change
	}
	return words
}

func changes(prefix string, drop []string, rename map[string]string) string {
	var words []string
	if len(drop) > 0 {
		words = append(words, "drops "+strings.Join(drop, ", "))
	}
	for _, from := range slices.Sorted(maps.Keys(rename)) {
		words = append(words, "renames "+from+" to "+rename[from])
	}
	if len(words) == 0 {
		return ""
	}
	return prefix + strings.Join(words, "; ")
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orCustom(base string) string {
	if base == "" {
		return "(custom host)"
	}
	return base
}
