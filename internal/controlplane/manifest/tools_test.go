package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const toolFile = `mcp_integrations:
  - {slug: tracker, url: "https://tracker.example.com/mcp", transport: http, auth_type: headers, workspaces: {default: true}, off: [tool/drop],
     configurations: {custom_headers: {X-Tenant: "${TENANT}"}}}
mcp_servers:
  - {slug: issues, mcp_integration: tracker, prices: {create: 0.5}}
mcp_bundles:
  - {slug: daily, tools: [issues]}
`

func TestToolServersAreAppliedChangedAndPruned(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		stored := func() (i store.ToolIntegration) {
			t.Helper()
			i, err := w.DB.ToolIntegration(t.Context(), store.DefaultOrganisation, "tracker")
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
		w.mustApply(t, toolFile, manifest.Apply{})
		first := stored()
		if first.Sealed == "" || first.CreatedBy != "file" || first.GlobalEnabled {
			t.Errorf("stored %+v", first)
		}
		if has, err := w.DB.HasToolIntegration(t.Context(), first, store.DefaultWorkspace); err != nil || !has {
			t.Errorf("the workspace has it: %t, %v", has, err)
		}
		if off, err := w.DB.ToolCapability(t.Context(), first.ID, "tool", "drop"); err != nil || off.Enabled {
			t.Errorf("the tool that is off: %+v, %v", off, err)
		}
		if got := w.mustApply(t, toolFile, manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("the same file again changes %q", got)
		}
		for _, tt := range []struct{ was, is, change string }{
			{"slug: tracker,", "slug: tracker, status: disabled,", "~ mcp_integration tracker [status]"},
			{"off: [tool/drop]", "off: []", "~ mcp_integration tracker [off]"},
			{"workspaces: {default: true}", "workspaces: {default: false}", "~ mcp_integration tracker [workspaces]"},
			{"prices: {create: 0.5}", "prices: {create: 0.25}", "~ mcp_server default/issues [prices]"},
			{"mcp_integration: tracker,", "mcp_integration: tracker, default_user_access: deny,", "~ mcp_server default/issues [default_user_access]"},
			{"tools: [issues]", "tools: [issues/tool/*]", "~ mcp_bundle default/daily [tools]"},
			{`{X-Tenant: "${TENANT}"}`, `{X-Tenant: "${HOME}"}`, "~ mcp_integration tracker [configurations]"},
		} {
			if got := w.mustApply(t, strings.Replace(toolFile, tt.was, tt.is, 1), manifest.Apply{}); !slices.Equal(got, []string{tt.change}) {
				t.Errorf("%s changes %q", tt.is, got)
			}
			w.mustApply(t, toolFile, manifest.Apply{})
		}
		without := toolFile[:strings.Index(toolFile, ",\n     configurations")] + "}\n" + toolFile[strings.Index(toolFile, "mcp_servers:"):]
		if got := w.mustApply(t, without, manifest.Apply{}); len(got) != 0 || stored().Sealed != first.Sealed && stored().Sealed == "" {
			t.Errorf("a file without the credential changes %q", got)
		}
		if text, names := w.mustExport(t, manifest.References); !strings.Contains(text, `X-Tenant: "${MCP_INTEGRATION_TRACKER_CUSTOM_HEADERS_X_TENANT}"`) || len(names) != 1 {
			t.Errorf("exported %s with %s", text, names)
		}
		got := w.mustApply(t, "mcp_integrations: []\nmcp_servers: []\nmcp_bundles: []\n", manifest.Apply{Prune: true})
		if !slices.Equal(got, []string{"- mcp_bundle default/daily", "- mcp_server default/issues", "- mcp_integration tracker"}) {
			t.Errorf("pruned %q", got)
		}
	})
}

func TestAPIsAreAppliedFromTheirDocuments(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	const file = `mcp_integrations:
  - slug: pets
    url: "https://pets.example.com"
    transport: openapi
    auth_type: none
    configurations:
      document: |
        openapi: 3.1.0
        paths: {/pets: {get: {operationId: listPets}}}
`
	w.mustApply(t, file, manifest.Apply{})
	i, err := w.DB.ToolIntegration(t.Context(), store.DefaultOrganisation, "pets")
	if err != nil || i.Settings.API == nil || i.Settings.API.Tools != 1 || !strings.HasPrefix(i.Settings.Document, `{"openapi"`) {
		t.Errorf("stored %+v, %v", i, err)
	}
	if got := w.mustApply(t, file, manifest.Apply{}); len(got) != 0 {
		t.Errorf("the same file again changes %q", got)
	}
	text, _ := w.mustExport(t, manifest.References)
	if got := w.mustApply(t, text, manifest.Apply{}); len(got) != 0 || !strings.Contains(text, "listPets") {
		t.Errorf("the exported file changes %q: %s", got, text)
	}
	if got := w.mustApply(t, strings.Replace(file, "listPets", "allPets", 1), manifest.Apply{}); !slices.Equal(got, []string{"~ mcp_integration pets [configurations]"}) {
		t.Errorf("another document changes %q", got)
	}
	if _, err := w.apply(t, strings.Replace(file, "openapi: 3.1.0", "swagger: '2.0'", 1), manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "Swagger 2.0") {
		t.Errorf("Swagger: %v", err)
	}
}

func TestWrongToolServersAreRefusedByTheirField(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	w.mustApply(t, toolFile, manifest.Apply{})
	for _, tt := range []struct{ was, is, want string }{
		{"https://tracker.example.com/mcp", "http://169.254.169.254/", "mcp_integrations[0]: url is not allowed"},
		{"https://tracker.example.com/mcp", "https://other.example.com/mcp", ""},
		{`{X-Tenant: "${TENANT}"}`, `{Host: "${TENANT}"}`, "configurations.custom_headers"},
		{"transport: http", "transport: stdio", "mcp_integrations[0].transport"},
		{"{default: true}", "{elsewhere: true}", "mcp_integrations[0].workspaces.elsewhere"},
		{"slug: issues", "slug: oauth", "mcp_servers[0]: slug"},
		{"mcp_integration: tracker", "mcp_integration: other", "mcp_servers[0]: MCP integration"},
		{"prices: {create: 0.5}", "prices: {create: -1}", "price"},
		{"off: [tool/drop]", "off: [drop]", "off[0]"},
		{"slug: daily", "slug: issues", "mcp_bundles[0]: an MCP server, an agent or a bundle"},
		{"tools: [issues]", "tools: [issues/tool]", "mcp_bundles[0]: tools is invalid"},
	} {
		text := strings.Replace(toolFile, tt.was, tt.is, 1)
		if text == toolFile {
			t.Fatalf("%s is not in the file", tt.was)
		}
		_, err := w.apply(t, text, manifest.Apply{DryRun: true})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %s", tt.is, err, tt.want)
		}
	}
}
