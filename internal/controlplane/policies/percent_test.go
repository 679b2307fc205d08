package policies_test

import (
	"strings"
	"testing"

	"modelgate/internal/controlplane/policies"
	"modelgate/internal/testing/routetest"
)

func TestThresholdsInPerCentFollowTheLimitUntilAnAmountIsSet(t *testing.T) {
	c := routetest.New(t, policies.Routes{}.Add).Root()
	var made struct{ ID string }
	c.Must("POST", usages, strings.Replace(costBody, `"alert_threshold":2`, `"alert_threshold_percent":80`, 1), &made)
	check := func(when string, amount, percent float64) {
		t.Helper()
		var got struct {
			Amount  float64 `json:"alert_threshold"`
			Percent float64 `json:"alert_threshold_percent"`
		}
		c.Must("GET", usages+"/"+made.ID, "", &got)
		if got.Amount != amount || got.Percent != percent {
			t.Errorf("%s: %+v, want %g and %g per cent", when, got, amount, percent)
		}
	}
	check("created", 2, 80)
	c.Must("PUT", usages+"/"+made.ID, `{"credit_limit":100}`, nil)
	check("with another limit", 80, 80)
	c.Must("PUT", usages+"/"+made.ID, `{"alert_threshold_percent":50}`, nil)
	check("with another part", 50, 50)
	c.Must("PUT", usages+"/"+made.ID, `{"alert_threshold":30}`, nil)
	check("with an amount", 30, 0)
	c.Must("PUT", usages+"/"+made.ID, `{"credit_limit":200}`, nil)
	check("with an amount and another limit", 30, 0)
}
