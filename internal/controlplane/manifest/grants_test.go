package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestGrantsOfAFileMakeProvidersAndPruningTakesThemAway(t *testing.T) {
	const head = "workspaces: [{slug: default}, {slug: one}, {slug: two}]\n"
	given := func(more, workspaces string) string {
		return "integrations: [{slug: main, provider: openai" + more + ", workspaces: [" + workspaces + "]}]\n"
	}
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		for _, tt := range []struct {
			name  string
			steps []manifestStep
		}{
			{"listed workspaces", []manifestStep{
				{text: head + given("", "{workspace: one}"), want: []string{"+ workspace one", "+ workspace two", "+ integration main", "+ provider one/main"}},
				{text: head + given("", "{workspace: one}, {workspace: two}"), want: []string{"~ integration main [workspaces]", "+ provider two/main"}},
				{text: head + given("", "{workspace: two}")},
				{text: head + given("", "{workspace: two}"), prune: true, want: []string{"~ integration main [workspaces]", "- provider one/main"}},
			}},
			{"a disabled one, and one without a provider", []manifestStep{
				{text: head + given("", "{workspace: one, disabled: true}, {workspace: two, create_default_provider: false}"), want: []string{"+ workspace one", "+ workspace two", "+ integration main"}},
				{text: head + given("", "{workspace: one}, {workspace: two}"), want: []string{"~ integration main [workspaces]", "+ provider one/main", "+ provider two/main"}},
				{text: head + given("", "{workspace: one}, {workspace: two, create_default_provider: false}")},
			}},
			{"a provider of the file", []manifestStep{
				{text: head + given("", "{workspace: one}") + "providers: [{slug: own, workspace: one, integration: main}]\n", prune: true,
					want: []string{"+ workspace one", "+ workspace two", "+ integration main", "+ provider one/own"}},
				{text: head + given("", "{workspace: one}") + "providers: []\n", prune: true, want: []string{"+ provider one/main", "- provider one/own"}},
				{text: head + given("", ""), prune: true, want: []string{"~ integration main [workspaces]", "- provider one/main"}},
			}},
			{"a slug that is taken", []manifestStep{
				{text: head + "integrations: [{slug: main, provider: openai, workspaces: [{workspace: one}]}, {slug: other, provider: openai, workspaces: [{workspace: one}]}]\n" +
					"providers: [{slug: main, workspace: one, integration: other}]\n",
					want: []string{"+ workspace one", "+ workspace two", "+ integration main", "+ integration other", "+ provider one/main", "+ provider one/main-2"}},
			}},
			{"an integration of one workspace", []manifestStep{
				{text: head + "integrations: [{slug: main, provider: openai, workspace: two}]\n", want: []string{"+ workspace one", "+ workspace two", "+ integration main", "+ provider two/main"}},
			}},
			{"all workspaces, and one that is new later", []manifestStep{
				{text: head + given(", global: {enabled: true, usage_limits: [{credit_limit: 5}]}", "{workspace: two, disabled: true}"),
					want: []string{"+ workspace one", "+ workspace two", "+ integration main", "+ provider default/main", "+ provider one/main"}},
				{text: "workspaces: [{slug: three}]\n", want: []string{"+ workspace three", "~ integration main [workspaces]", "+ provider three/main"}},
				{text: given(", global: {enabled: true, usage_limits: [{credit_limit: 7}]}", ""), want: []string{"~ integration main [global workspaces]"}},
				{text: given(", global: {enabled: true, usage_limits: [{credit_limit: 7}]}", ""), prune: true, want: []string{"~ integration main [workspaces]", "+ provider two/main"}},
				{text: given("", ""), prune: true, want: []string{"~ integration main [global workspaces]",
					"- provider two/main", "- provider three/main", "- provider one/main", "- provider default/main"}},
			}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				w := world(t, open(), master)
				w.mustApply(t, "workspaces: [{slug: default}]\n", manifest.Apply{})
				for i, step := range tt.steps {
					a := manifest.Apply{Prune: step.prune}
					if got := w.mustApply(t, step.text, a); !slices.Equal(got, step.want) {
						t.Errorf("step %d: %q, want %q", i, got, step.want)
					}
					if again := w.mustApply(t, step.text, a); len(again) != 0 {
						t.Errorf("step %d a second time: %q", i, again)
					}
					text, _ := w.mustExport(t, manifest.None)
					if again := w.mustApply(t, text, manifest.Apply{Prune: true}); len(again) != 0 {
						t.Errorf("the export after step %d changes %q:\n%s", i, again, text)
					}
				}
				first, _ := w.mustExport(t, manifest.None)
				other := file(t)
				other.mustApply(t, first, manifest.Apply{})
				if second, _ := other.mustExport(t, manifest.None); second != first {
					t.Errorf("elsewhere the export is\n%s, want\n%s", second, first)
				}
				w.mustApply(t, "workspaces: [{slug: default}]\nintegrations: []\nproviders: []\n", manifest.Apply{Prune: true})
				if rest, _ := w.mustExport(t, manifest.None); strings.Contains(rest, "slug: main") {
					t.Errorf("after pruning all there is\n%s", rest)
				}
			})
		}
	})
}

// manifestStep is a file that is applied, and the changes that it makes.
type manifestStep struct {
	text  string
	prune bool
	want  []string
}
