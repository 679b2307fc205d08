package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
)

func TestLoggingLevelOfAWorkspaceNeedsTheOrganisationsPermission(t *testing.T) {
	w := file(t)
	const (
		permitted = "organisation: {settings: {request_logging_override: true}}\n"
		overrides = "organisation: {settings: {request_logging: metadata}}\n"
		own       = "workspaces: [{slug: default, settings: {request_logging: full}}]\n"
	)
	w.mustApply(t, permitted+own, manifest.Apply{})
	if _, err := w.apply(t, overrides+own+"keys: []\n", manifest.Apply{}); err == nil || !strings.Contains(err.Error(), "f:2:15: workspaces[0]: settings.request_logging of a workspace has no effect") {
		t.Errorf("with an organisation that overrides it: %v", err)
	}
	if got := w.mustApply(t, overrides, manifest.Apply{}); !slices.Equal(got, []string{"~ organisation default [settings]"}) {
		t.Errorf("overriding it: %q", got)
	}
	// The level that is stored has no effect now, so that an export can't hold it.
	text, _ := w.mustExport(t, manifest.None)
	if strings.Contains(text, "request_logging: full") {
		t.Errorf("the export holds a setting without effect:\n%s", text)
	}
	if got := w.mustApply(t, text, manifest.Apply{Prune: true}); len(got) != 0 {
		t.Errorf("applying the export changes %q", got)
	}
	file(t).mustApply(t, text, manifest.Apply{})
}
