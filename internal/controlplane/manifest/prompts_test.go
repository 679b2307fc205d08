package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestAChangeOfPromptsIsReportedByItsFields(t *testing.T) {
	w := file(t)
	w.mustApply(t, completeManifest(t), manifest.Apply{})
	for _, tt := range []struct{ old, new, want string }{
		{"name: Greeting", "name: Hello", "~ prompt default/pp-greet [name]"},
		{"    published: 2\n", "    published: 3\n", "~ prompt default/pp-greet [published]"},
		{"    collection: co-top\n", "", "~ prompt default/pp-greet [collection]"},
		{", label: production}", ", label: staging}", "~ prompt default/pp-greet [versions]"},
		{"        label: stable\n", "        label: production\n", ""}, // twice
		{", label: nightly}", "}", "~ prompt ws-team/pp-greet [versions]"},
		{"    published: 1\n", "    published: 2\n", "~ prompt_partial default/ppl-tone [published]"},
		{"name: \"All of it\"", "name: Rest", "~ prompt_collection default/co-main [name]"},
		{"slug: co-main,", "slug: co-other,", "~ prompt_collection default/co-other [slug]"},
		{"color_code: \"#0f0\"", "color_code: green", "~ prompt_label stable [color_code]"},
		{"audience: modelgate", "audience: others", "~ organisation default [settings]"},
	} {
		text := strings.Replace(completeManifest(t), tt.old, tt.new, 1)
		if text == completeManifest(t) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		if tt.want == "" {
			if _, err := w.apply(t, text, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "version 1 has the same label") {
				t.Errorf("a label on two versions: %v", err)
			}
			continue
		}
		for _, a := range []manifest.Apply{{DryRun: true}, {}} {
			if got := w.mustApply(t, text, a); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("%q for %q, %+v: %q, want %q", tt.new, tt.old, a, got, tt.want)
			}
		}
		if got := w.mustApply(t, text, manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("%q a second time: %q", tt.new, got)
		}
		w.mustApply(t, completeManifest(t), manifest.Apply{})
	}
}

// versionsOf returns the versions of a prompt as number, text and label.
func (p place) versionsOf(t *testing.T, slug string) (published int64, list []string) {
	t.Helper()
	o, err := p.DB.Organisation(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	row, err := p.DB.Prompt(t.Context(), store.KindPrompt, o.ID, "", slug)
	if err != nil {
		t.Fatal(err)
	}
	versions, _, err := p.DB.PromptVersions(t.Context(), row.ID, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		label := ""
		if v.Label != "" {
			l, err := p.DB.PromptLabel(t.Context(), o.ID, "", v.Label)
			if err != nil {
				t.Fatal(err)
			}
			label = " " + l.Name
		}
		list = append([]string{fmt.Sprintf("%d %s%s", v.Number, v.Text, label)}, list...)
	}
	return row.Published, list
}

func TestVersionsOfPromptsKeepTheirNumbersAndWhatTheySay(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		const head = "prompts:\n  - slug: pp-a\n"
		for _, tt := range []struct {
			name, text string
			published  int64
			want       []string
			changes    int
		}{
			{"the first", head + "    versions: [{string: one, label: production}]\n", 1, []string{`1 {"string":"one"} production`}, 1},
			{"another behind it, which is published", head + "    versions: [{string: one, label: production}, {string: two}]\n", 2,
				[]string{`1 {"string":"one"} production`, `2 {"string":"two"}`}, 1},
			{"its label moves", head + "    versions: [{string: one, label: staging}, {string: two, label: production}]\n", 2,
				[]string{`1 {"string":"one"} staging`, `2 {"string":"two"} production`}, 1},
			{"labels change places", head + "    versions: [{string: one, label: production}, {string: two, label: staging}]\n", 2,
				[]string{`1 {"string":"one"} production`, `2 {"string":"two"} staging`}, 1},
			{"the file goes back to the first, and takes a label from the other", head + "    versions: [{string: one, label: staging}]\n", 1,
				[]string{`1 {"string":"one"} staging`, `2 {"string":"two"}`}, 1},
			{"a stored one is published that the file leaves out", head + "    published: 2\n    versions: [{string: one, label: staging}]\n", 2,
				[]string{`1 {"string":"one"} staging`, `2 {"string":"two"}`}, 1},
		} {
			if got := w.mustApply(t, tt.text, manifest.Apply{}); len(got) != tt.changes {
				t.Errorf("%s: changes %q", tt.name, got)
			}
			if published, got := w.versionsOf(t, "pp-a"); published != tt.published || !slices.Equal(got, tt.want) {
				t.Errorf("%s: %d is published of %q, want %d of %q", tt.name, published, got, tt.published, tt.want)
			}
			if got := w.mustApply(t, tt.text, manifest.Apply{Prune: true}); len(got) != 0 {
				t.Errorf("%s, again: changes %q", tt.name, got)
			}
		}
		before := w.revision(t)
		_, err := w.apply(t, head+"    versions: [{string: one, label: staging}, {string: another}]\n", manifest.Apply{})
		if err == nil || !strings.Contains(err.Error(), "prompts[0].versions[1]: version 2 differs from the stored one") {
			t.Errorf("a version changes: %v", err)
		}
		if after := w.revision(t); after != before {
			t.Errorf("the revision went from %d to %d", before, after)
		}
	})
}

func TestPruningArchivesPromptsAndLeavesDefaultCollections(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		w.mustApply(t, completeManifest(t), manifest.Apply{})
		if _, err := w.apply(t, "prompt_collections: []\n", manifest.Apply{Prune: true}); err == nil || !strings.Contains(err.Error(), "still contains") {
			t.Errorf("a collection that holds prompts is pruned: %v", err)
		}
		const none = "prompts: []\nprompt_partials: []\nprompt_collections: []\nprompt_labels: []\n"
		if got := w.mustApply(t, none, manifest.Apply{}); len(got) != 0 {
			t.Errorf("without --prune: %q", got)
		}
		want := []string{
			"- prompt ws-team/pp-greet", "- prompt default/pp-greet", "- prompt_partial ws-team/ppl-tone", "- prompt_partial default/ppl-tone",
			"- prompt_collection ws-team/co-team", "- prompt_collection default/co-inner", "- prompt_collection default/co-top",
			"- prompt_label ws-team/nightly", "- prompt_label stable",
		}
		if got := w.mustApply(t, none, manifest.Apply{Prune: true}); !slices.Equal(got, want) {
			t.Errorf("with --prune: %q", cmp.Diff(want, got))
		}
		if got := w.mustApply(t, none, manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("pruned twice: %q", got)
		}
		text, _ := w.mustExport(t, manifest.None)
		if !strings.Contains(text, "slug: co-ours") || strings.Contains(text, "co-top") {
			t.Errorf("after pruning:\n%s", text)
		}
		w.mustApply(t, completeManifest(t), manifest.Apply{})
		if got := w.mustApply(t, completeManifest(t), manifest.Apply{}); len(got) != 0 {
			t.Errorf("what was archived came back and changes again: %q", got)
		}
	})
}

func TestPromptErrorsNameLineAndPath(t *testing.T) {
	w := file(t)
	w.mustApply(t, "prompt_partials: [{slug: taken, versions: [{string: x}]}]\nprompt_labels: [{name: ours}]\nprompt_collections: [{slug: co-a}]\n", manifest.Apply{})
	const ok = "versions: [{string: x}]"
	for _, tt := range []struct{ name, text, want string }{
		{"no versions", "prompts: [{slug: a, versions: []}]\n", "prompts[0].versions: "},
		{"no text", "prompts: [{slug: a, versions: [{model: m}]}]\n", "prompts[0].versions[0]"},
		{"a slug twice", "prompts: [{slug: a, " + ok + "}, {slug: a, " + ok + "}]\n", `prompts[1].slug: duplicate slug "a"`},
		{"a slug twice, once with its workspace", "prompts: [{slug: a, " + ok + "}, {slug: a, workspace: default, " + ok + "}]\n", "prompts[1]: default/a is duplicated"},
		{"a stored partial's slug", "prompts: [{slug: taken, " + ok + "}]\n", "prompts[0].slug: a partial has the same slug"},
		{"a partial's slug", "prompt_partials: [{slug: b, " + ok + "}]\nprompts: [{slug: b, " + ok + "}]\n", "prompts[0].slug: a partial in the file has the same slug"},
		{"a missing workspace", "prompts: [{slug: a, workspace: ws-9, " + ok + "}]\n", `prompts[0].workspace: workspace "ws-9" not found`},
		{"a missing collection", "prompts: [{slug: a, collection: co-9, " + ok + "}]\n", `prompts[0].collection: collection "co-9" not found`},
		{"another's collection", "workspaces: [{slug: ws-b}]\nprompts: [{slug: a, workspace: ws-b, collection: co-a, " + ok + "}]\n", `prompts[0].collection: collection "co-a" not found`},
		{"a missing label", "prompts: [{slug: a, versions: [{string: x, label: none}]}]\n", `prompts[0].versions[0].label: label "none" not found`},
		{"a version that is not there", "prompts: [{slug: a, published: 2, " + ok + "}]\n", "prompts[0].published: must be at most 1, the number of versions"},
		{"version 0", "prompts: [{slug: a, published: -1, " + ok + "}]\n", "prompts[0].published: "},
		{"a template", "prompts: [{slug: a, versions: [{string: \"{{#x}}\"}]}]\n", "prompts[0].versions[0]: string: "},
		{"a partial's template", "prompt_partials: [{slug: a, versions: [{string: \"{{#x}}\"}]}]\n", "prompt_partials[0].versions[0]: string: "},
		{"tools that are not a list", "prompts: [{slug: a, versions: [{string: x, tools: {a: b}}]}]\n", "prompts[0].versions[0]: tools: must be an array"},
		{"parameters other than a mapping", "prompts: [{slug: a, versions: [{string: x, parameters: [1]}]}]\n", "must be a mapping"},
		{"messages as a parameter", "prompts: [{slug: a, versions: [{string: x, parameters: {messages: []}}]}]\n", "prompts[0].versions[0]: parameters: "},
		{"a long setting", "prompts: [{slug: a, versions: [{string: x, parameters: {a: " + strings.Repeat("x", 256<<10) + "}}]}]\n", "prompts[0].versions[0]: parameters "},
		{"an unknown field", "prompts: [{slug: a, versions: [{string: x, colour: red}]}]\n", `unknown field "colour"`},
		{"everybody's label", "prompt_labels: [{name: production}]\n", `prompt_labels[0].name: the label "production" already exists there`},
		{"a label that means a version", "prompt_labels: [{name: latest}]\n", "prompt_labels[0]: name must not be"},
		{"a label of the organisation's name", "prompt_labels: [{name: ours, workspace: default}]\n", `prompt_labels[0].name: the label "ours" already exists there`},
		{"a label of a workspace's name", "prompt_labels: [{name: b, workspace: default}, {name: b}]\n", `prompt_labels[0].name: the label "b" already exists there`},
		{"a label twice", "prompt_labels: [{name: b}, {name: b}]\n", "prompt_labels[1]: b is duplicated"},
		{"a missing parent", "prompt_collections: [{slug: b, parent: none}]\n", `prompt_collections[0].parent: collection "none" not found`},
		{"a circle", "prompt_collections: [{slug: b, parent: c}, {slug: c, parent: b}]\n", "prompt_collections[0].parent: a collection cannot contain itself"},
		{"its own parent", "prompt_collections: [{slug: b, parent: b}]\n", "prompt_collections[0].parent: a collection cannot contain itself"},
		{"a move", "prompt_collections: [{slug: b}, {slug: co-a, parent: b}]\n", "prompt_collections[1].parent: the parent of a collection cannot be changed"},
		{"two defaults", "prompt_collections: [{slug: b, default: true}, {slug: c, default: true}]\n", "prompt_collections[1]: default/c is duplicated"},
		{"keys of an issuer without encryption", "organisation: {settings: {jwt: {jwks_url: \"http://id.example.com/keys\"}}}\n", "organisation.settings: jwt.jwks_url: must be an https address"},
		{"keys of an issuer at home", "organisation: {settings: {jwt: {jwks_url: \"https://10.0.0.7/keys\"}}}\n", "organisation.settings: jwt.jwks_url: "},
		{"an issuer without keys", "organisation: {settings: {jwt: {issuer: x}}}\n", "organisation.settings: jwt: must have either jwks_url or jwks"},
		{"a private key of an issuer", "organisation: {settings: {jwt: {jwks: {keys: [{kty: RSA, kid: a, n: AQAB, e: AQAB, d: AQAB}]}}}}\n", "organisation.settings: jwt.jwks: "},
		{"a level of logging", "organisation: {settings: {request_logging: some}}\n", "organisation.settings: "},
		{"a section", "organisation: {settings: {overridable_sections: [none]}}\n", "organisation.settings: overridable_sections"},
		{"a life of keys", "organisation: {settings: {user_api_key_ttl: 90, user_api_key_max_ttl: 60}}\n", "organisation.settings: user_api_key_ttl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.revision(t)
			_, err := w.apply(t, tt.text, manifest.Apply{})
			if err == nil {
				t.Fatal("it was applied")
			}
			if !strings.HasPrefix(err.Error(), "f:") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %.300q, want one line with %q", err, tt.want)
			}
			if after := w.revision(t); after != before {
				t.Errorf("the revision went from %d to %d", before, after)
			}
		})
	}
}

func TestTrustedIssuersAreExportedAndApplied(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		for _, jwt := range []string{
			"jwks_url: \"https://id.example.com/keys\", issuer: \"https://id.example.com\", audience: modelgate, default_scopes: [completions.write]",
			"jwks: {keys: [{kty: RSA, kid: a, use: sig, n: " + strings.Repeat("u", 341) + "w, e: AQAB, note: kept}]}",
		} {
			first := world(t, open(), master)
			first.mustApply(t, "organisation: {settings: {jwt: {"+jwt+"}}}\n", manifest.Apply{})
			text, _ := first.mustExport(t, manifest.Sealed)
			second := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
			second.mustApply(t, text, manifest.Apply{})
			a, err := first.DB.Organisation(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			b, err := second.DB.Organisation(t.Context(), "default")
			if err != nil || a.Settings.JWT == nil {
				t.Fatal(err, a.Settings.JWT)
			}
			if diff := cmp.Diff(a.Settings.JWT, b.Settings.JWT); diff != "" {
				t.Errorf("elsewhere it is\n%s", diff)
			}
			if again, _ := second.mustExport(t, manifest.Sealed); again != text {
				t.Errorf("the second export differs:\n%s", cmp.Diff(text, again))
			}
			second.mustApply(t, "organisation: {}\n", manifest.Apply{})
			if b, err = second.DB.Organisation(t.Context(), "default"); err != nil || b.Settings.JWT != nil {
				t.Errorf("a file without an issuer leaves %+v, %v", b.Settings.JWT, err)
			}
		}
	})
}
