package table_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

var update = flag.Bool("update", false, "write docs/providers.md from the table")

const page = "../../../docs/providers.md"

func TestProvidersPageIsCurrent(t *testing.T) {
	want := render()
	if *update {
		if err := os.MkdirAll("../../../docs", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/providers.md is stale; run go test ./internal/provider/table -update (-want +got):\n%s", diff)
	}
}

// render writes the page: a table of all rows, then notes on single rows.
func render() []byte {
	var b bytes.Buffer
	chat := 0
	for _, s := range table.All() {
		if _, ok := s.Path(api.Chat); ok {
			chat++
		}
	}
	fmt.Fprintf(&b, intro, len(table.All()), chat)
	b.WriteString("| id | name | dialect | address | credential | operations |\n|---|---|---|---|---|---|\n")
	for _, s := range table.All() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", idCell(s), s.Name, s.Dialect,
			addressCell(s), code(table.Credential(s)), orPassThrough(strings.Join(table.Operations(s), ", ")))
	}
	b.WriteString("\n## Options, changes and notes\n")
	for _, s := range table.All() {
		details(&b, s)
	}
	return b.Bytes()
}

const intro = `# Providers

<!-- Generated from internal/provider/table by go test ./internal/provider/table -update. Do not edit. -->

Find the id, address and credential of each of the %d built-in providers; %d of them offer chat completions on the
unified route. For any other provider with a compatible API, use ` + "`openai-compatible`" + ` and a custom host.

` + "```" + `sh
BASE=http://127.0.0.1:8787/v1
KEY=mg-...                        # a gateway key
GROQ_API_KEY=gsk_...

curl -s $BASE/chat/completions -H "x-gateway-api-key: $KEY" -H "x-gateway-provider: groq" \
  -H "authorization: Bearer $GROQ_API_KEY" -H "content-type: application/json" \
  -d '{"model": "llama-3.3-70b-versatile", "messages": [{"role": "user", "content": "Hello!"}]}'
` + "```" + `

| column | meaning |
|---|---|
| id | what you write in a config, a managed provider or the header ` + "`x-gateway-provider`" + `; aliases are below it |
| dialect | the API format of the provider's conversations, unless it also offers the client's; ` + "`own`" + ` is a format of this provider only |
| address | base URL to which operations and pass-through paths are appended. A ` + "`{word}`" + ` in it is an option. A custom host replaces the complete address; *custom host* means that you must set one |
| credential | where the key is sent: ` + "`Authorization: Bearer`" + ` is a header and the word before the key, ` + "`?key=`" + ` a query parameter. After *or* is what the gateway makes of other credentials, which the provider's options name |
| operations | operations with a unified route. ` + "`chat`" + `, ` + "`messages`" + `, ` + "`responses`" + `, ` + "`generate`" + `, ` + "`converse`" + `, ` + "`cohere.chat`" + ` and ` + "`ollama.chat`" + ` are conversations in these dialects. ` + "`batches`" + `, ` + "`files`" + `, ` + "`fine_tuning`" + ` and ` + "`realtime`" + ` are there at the provider and pass through; see also [realtime sessions](realtime.md). Everything else is reached by pass-through: the path after ` + "`/v1`" + ` is appended to the address as you sent it, in its [canonical form](headers.md#paths) |

Parameters that a provider is known to reject are dropped, renamed or brought into its range before the request is
sent, and the response names each change in ` + "`x-gateway-params`" + `. All other fields pass unchanged, known to modelgate or
not.

## All providers

`

func idCell(s *provider.Spec) string {
	var cell strings.Builder
	cell.WriteString(code(s.ID))
	for _, a := range s.Aliases {
		cell.WriteString("<br>" + code(a))
	}
	return cell.String()
}

func addressCell(s *provider.Spec) string {
	if s.BaseURL == "" {
		return "*custom host*"
	}
	return code(s.BaseURL)
}

func code(s string) string { return "`" + s + "`" }

func orPassThrough(ops string) string {
	if ops == "" {
		return "*pass-through*"
	}
	return ops
}

// details writes a section for a row that has something to tell.
func details(b *bytes.Buffer, s *provider.Spec) {
	quirks := table.Quirks(s)
	if len(quirks)+len(s.Options)+len(s.Notes) == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s\n\n", s.ID)
	for _, o := range s.Options {
		fmt.Fprintf(b, "- option %s: %s%s\n", code(o.Name), o.Doc, optionEnd(o))
	}
	for _, q := range quirks {
		fmt.Fprintf(b, "- %s\n", q)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	if s.Docs != "" {
		fmt.Fprintf(b, "- Reference: <%s>\n", s.Docs)
	}
}

func optionEnd(o provider.Option) string {
	var end string
	if o.Header != "" {
		end += "; sent in " + code(o.Header)
	}
	if o.Default != "" {
		end += "; default " + code(o.Default)
	}
	return end
}

func TestDescribeHasALineForEachProvider(t *testing.T) {
	var b bytes.Buffer
	if err := table.Describe(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	all := table.All()
	if len(lines) != len(all)+1 {
		t.Fatalf("Describe wrote %d lines, want a head and %d rows", len(lines), len(all))
	}
	column := strings.Index(lines[0], "ADDRESS")
	for i, s := range all {
		line := lines[i+1]
		if !strings.HasPrefix(line, s.ID+" ") || !strings.HasPrefix(line[column:], wantedPage(s.BaseURL)) {
			t.Errorf("line of %s: %q", s.ID, line)
		}
	}
}

func wantedPage(base string) string {
	if base == "" {
		return "(custom host)"
	}
	return base + " "
}

func TestDescribeJSONHoldsEveryRow(t *testing.T) {
	var b bytes.Buffer
	if err := table.DescribeJSON(&b); err != nil {
		t.Fatal(err)
	}
	var got []struct {
		ID         string   `json:"id"`
		BaseURL    string   `json:"base_url"`
		Auth       string   `json:"auth"`
		Operations []string `json:"operations"`
		Quirks     []string `json:"quirks"`
		Options    []struct {
			Name string `json:"name"`
			Doc  string `json:"doc"`
		} `json:"options"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for i, s := range table.All() {
		g := got[i]
		if g.ID != s.ID || g.BaseURL != s.BaseURL || len(g.Operations) != len(table.Operations(s)) || len(g.Options) != len(s.Options) {
			t.Errorf("object %d = %+v, want row %s", i, g, s.ID)
		}
		if g.Operations == nil {
			t.Errorf("%s: operations is null, want a list", s.ID)
		}
	}
}

func TestQuirksAreDescribed(t *testing.T) {
	for id, want := range map[string][]string{
		"groq": {"drops logprobs, logit_bias, top_logprobs", "rejects n above 1", "reports the usage of streams without being asked"},
		"openai": {
			"for 22 families of models: renames max_tokens to max_completion_tokens",
			"reduces the limit of output tokens to the most that the model has, if that is known",
			"leaves out the effort for models that are known to reject it",
		},
		"runway": {"sends X-Runway-Version: 2024-11-06"},
		"302ai":  nil,
	} {
		s, _ := table.Lookup(id)
		if diff := cmp.Diff(want, table.Quirks(s)); diff != "" {
			t.Errorf("Quirks(%s) (-want +got):\n%s", id, diff)
		}
	}
}
