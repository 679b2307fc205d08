package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

const (
	ratePolicy  = "policies:\n  - {name: p, kind: rate, conditions: [{key: workspace_id, value: [default]}], group_by: [api_key], type: requests, unit: rpm, value: 5}\n"
	usagePolicy = "policies:\n  - {name: p, kind: usage, conditions: [{key: api_key, value: [\"*\"]}], group_by: [api_key], type: cost, credit_limit: 5}\n"
)

func TestPoliciesAreAppliedChangedAndPruned(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		w := world(t, open(), master)
		policies := func() []store.Policy {
			list, err := w.DB.ActivePolicies(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		if got := w.mustApply(t, ratePolicy, manifest.Apply{DryRun: true}); !slices.Equal(got, []string{"+ policy p"}) || len(policies()) != 0 {
			t.Errorf("a dry run says %q and makes %d policies", got, len(policies()))
		}
		w.mustApply(t, ratePolicy, manifest.Apply{})
		list := policies()
		if len(list) != 1 || list[0].Workspace != "" || list[0].Settings.Value != "5" || !slices.Equal(list[0].Conditions[0].Value.List, []string{store.DefaultWorkspace}) {
			t.Fatalf("made %+v", list)
		}
		if got := w.mustApply(t, strings.Replace(ratePolicy, "value: 5", "value: 6", 1), manifest.Apply{}); !slices.Equal(got, []string{"~ policy p [value]"}) {
			t.Errorf("changed %q", got)
		}
		if after := policies(); len(after) != 1 || after[0].ID != list[0].ID || after[0].Settings.Value != "6" {
			t.Errorf("changed into %+v", after)
		}
		if got := w.mustApply(t, "version: 1\n", manifest.Apply{Prune: true}); len(got) != 0 {
			t.Errorf("a file without policies prunes %q", got)
		}
		if got := w.mustApply(t, "policies: []\n", manifest.Apply{Prune: true}); !slices.Equal(got, []string{"- policy p"}) || len(policies()) != 0 {
			t.Errorf("pruned %q", got)
		}
		w.mustApply(t, ratePolicy, manifest.Apply{}) // an archived policy stays, and a new one has its name
		if after := policies(); len(after) != 1 || after[0].ID == list[0].ID {
			t.Errorf("after pruning %+v", after)
		}
	})
}

func TestWrongPoliciesAreRefusedByTheirField(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	w.mustApply(t, strings.Replace(usagePolicy, "name: p", "name: q", 1), manifest.Apply{})
	for _, tt := range []struct{ text, was, is, want string }{
		{ratePolicy, "rpm", "rps", "policies[0].unit"},
		{ratePolicy, ", unit: rpm", "", "unit is required"},
		{ratePolicy, "value: 5}", "value: 0}", "value"},
		{ratePolicy, "value: 5}", "value: 0.5}", "value"},
		{ratePolicy, "type: requests", "type: cost", "type must be requests or tokens"},
		{ratePolicy, "value: 5}", "value: 5, credit_limit: 5}", "credit_limit does not belong"},
		{ratePolicy, "key: workspace_id", "key: colour", "conditions[0].key"},
		{ratePolicy, "[{key: workspace_id, value: [default]}]", "[]", "conditions"},
		{ratePolicy, "name: p", "name: p, workspace: other", `workspace "other" not found`},
		{ratePolicy, "name: p", "name: p, colour: red", `unknown field "colour"`},
		{usagePolicy, "credit_limit: 5", "credit_limit: 5, value: 5", "value does not belong"},
		{usagePolicy, "credit_limit: 5", "credit_limit: 5, alert_threshold: 5", "alert_threshold"},
		{usagePolicy, "credit_limit: 5", "credit_limit: 5, next_usage_reset_at: \"2026-06-01 01:00\"", "next_usage_reset_at"},
		{usagePolicy, "credit_limit: 5", "credit_limit: 5, periodic_reset: weekly, time_zone: Nowhere/Atall", "policies[0]: time_zone must be"},
		{usagePolicy, "credit_limit: 5", "credit_limit: 5, time_zone: Europe/Berlin", "time_zone requires periodic_reset"},
		{ratePolicy, "value: 5}", "value: 5, time_zone: Europe/Berlin}", "time_zone does not belong"},
		{usagePolicy + strings.TrimPrefix(usagePolicy, "policies:\n"), "", "", "policies[1]: p is duplicated"},
		{strings.Replace(usagePolicy, "name: p", "name: q", 1), "type: cost", "type: tokens", "cannot be changed"},
		{strings.Replace(usagePolicy, "name: p", "name: q", 1), "type: cost", "type: cost, target: mcp_tools", "cannot be changed"},
		{ratePolicy, "unit: rpm", "unit: rpm, target: mcp_tools, loop_detection: {context_growth_without_progress: 2}", "loop_detection.context_growth_without_progress"},
	} {
		text := strings.Replace(tt.text, tt.was, tt.is, 1)
		if _, err := w.apply(t, text, manifest.Apply{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", text, err, tt.want)
		}
	}
}
