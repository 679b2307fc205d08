package limits_test

import (
	"testing"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/records/reqlog"
)

func TestThresholdsInPerCentWarnAtTheirPartOfTheLimit(t *testing.T) {
	u := mustApply(t, `{"credit_limit":50,"alert_threshold_percent":80}`, nil, now)
	u.StartCount(reqlog.Spend{})
	if near, _ := u.DueWarnings(reqlog.Spend{Cost: 39_990_000_000}); near {
		t.Error("39.99 of 50 dollars warn at 80 per cent")
	}
	if near, _ := u.DueWarnings(reqlog.Spend{Cost: 40_000_000_000}); !near {
		t.Error("40 of 50 dollars do not warn at 80 per cent")
	}
	back, err := limits.ReadUsage(u.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if r := back.Response(reqlog.Spend{}, "active"); *r.AlertThreshold != 40 || *r.AlertPercent != 80 {
		t.Errorf("the response has %g and %g per cent", *r.AlertThreshold, *r.AlertPercent)
	}
	// What was read can be sent again.
	if u := mustApply(t, `{"credit_limit":50,"alert_threshold":40,"alert_threshold_percent":80}`, back, now); !u.ThresholdSent {
		t.Error("the same threshold warns again")
	}
	for _, text := range []string{`{"alert_threshold_percent":80}`, `{"alert_threshold":5,"alert_threshold_percent":80}`, `{"credit_limit":50,"alert_threshold":41,"alert_threshold_percent":80}`} {
		if _, err := mustInput(t, text).Apply("usage_limits", nil, now); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
