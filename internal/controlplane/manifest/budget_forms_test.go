package manifest_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/manifest"
	"modelgate/internal/testing/storetest"
)

// TestBudgetsInAFileAreWrittenInOneWay writes budgets of every object as a mapping and as a
// list of one, and wrong ones.
func TestBudgetsInAFileAreWrittenInOneWay(t *testing.T) {
	w := world(t, storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db"), master)
	for _, tt := range []struct {
		text, field string
		list        bool // the object may have several budgets
	}{
		{"workspaces: [{slug: one, LIMITS}]\n", "workspaces[0].", true},
		{"members: [{email: ann@example.com, LIMITS}]\n", "members[0].", false},
		{"integrations: [{slug: main, provider: openai, workspaces: [{workspace: default, LIMITS}]}]\n", "integrations[0].workspaces[0].", true},
		{"integrations: [{slug: all, provider: openai, global: {enabled: true, LIMITS}}]\n", "integrations[0].global.", true},
		{"integrations: [{slug: main, provider: openai, workspaces: [{workspace: default}]}]\nproviders: [{slug: p, workspace: default, integration: main, LIMITS}]\n", "providers[0].", false},
		{"keys: [{name: k, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, scopes: [completions.write], LIMITS}]\n", "keys[0].", false},
	} {
		with := func(limits string) string { return strings.Replace(tt.text, "LIMITS", "usage_limits: "+limits, 1) }
		w.mustApply(t, with("{credit_limit: 17, periodic_reset: monthly}"), manifest.Apply{})
		if got := w.mustApply(t, with("[{credit_limit: 17, periodic_reset: monthly}]"), manifest.Apply{}); len(got) != 0 {
			t.Errorf("%s: a list of the same budget changes %q", tt.field, got)
		}
		if got := w.mustApply(t, with("[{credit_limit: 18, periodic_reset: monthly}]"), manifest.Apply{}); len(got) == 0 {
			t.Errorf("%s: a list of another budget changes nothing", tt.field)
		}
		wrong := map[string]string{
			"{credit_limit: 0.5}":                                                "credit_limit",
			"[{credit_limit: 5, type: euros}]":                                   "type",
			"{credit_limit: 5, alert_threshold: 6}":                              "alert_threshold",
			"{credit_limit: 5, alert_threshold_percent: 100}":                    "alert_threshold_percent",
			"{credit_limit: 5, alert_threshold: 2, alert_threshold_percent: 80}": "alert_threshold_percent",
			"[{credit_limit: 50, type: tokens}]":                                 "credit_limit",
			"{credit_limit: 5, time_zone: Nowhere}":                              "time_zone",
			"[{credit_limit: 5, periodic_rest: monthly}]":                        "periodic_rest",
			"text": "",
			"[{credit_limit: 5}, {credit_limit: 6, colour: red}]": "colour",
		}
		if !tt.list {
			wrong["[{credit_limit: 5}, {credit_limit: 500, type: tokens}]"] = "usage_limits"
		}
		for limits, field := range wrong {
			_, err := w.apply(t, with(limits), manifest.Apply{})
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v, want an error about %s", with(limits), err, field)
				continue
			}
			known := !strings.Contains(err.Error(), "unknown field") && field != ""
			if place := tt.field + "usage_limits"; known && !strings.Contains(err.Error(), ": "+place) {
				t.Errorf("%s: %v, want an error at %s", with(limits), err, place)
			}
		}
	}
}
