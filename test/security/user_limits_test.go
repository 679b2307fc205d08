package security

import (
	"fmt"
	"strings"
	"testing"
)

// TestUserLimitsAreOutOfTheReachOfTheLimited tries to change or read the limits of a
// user as the user, as a colleague and as the owner of another organisation.
func TestUserLimitsAreOutOfTheReachOfTheLimited(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		ann, bob := g.member(t, "ann", "member", `[{"id":"default","role":"member"}]`), g.member(t, "bob", "member", `[{"id":"default","role":"member"}]`)
		id, elsewhere := g.userID(t, ann), g.organisation(t, "elsewhere")
		path := "/v1/admin/users/" + id
		g.as(t, rootKey, "PUT", path, `{"rate_limits":[{"type":"requests","unit":"rpw","value":7}],"usage_limits":{"type":"cost","credit_limit":3}}`).ok(t)
		before := string(g.as(t, rootKey, "GET", path, "").ok(t).body)
		for who, token := range map[string]string{"the user": ann, "a colleague": bob, "another organisation": elsewhere} {
			for _, body := range []string{`{"rate_limits":null}`, `{"usage_limits":null}`, `{"reset_usage":true}`, `{"rate_limits":[{"type":"requests","unit":"rpw","value":70}]}`} {
				attack(t, "escalation", who+": PUT of a user's limits "+body, func(t *testing.T) {
					if r := g.as(t, token, "PUT", path, body); r.status != 403 && r.status != 404 {
						t.Errorf("status %d: %.300s", r.status, r.body)
					}
				})
			}
		}
		for who, token := range map[string]string{"a colleague": bob, "another organisation": elsewhere} {
			for _, target := range []string{"/v1/limits?owner=user&id=" + id, "/v1/limits?owner=user&id=default/" + id, path} {
				attack(t, "isolation", who+": GET "+target, func(t *testing.T) {
					if r := g.as(t, token, "GET", target, ""); r.status != 403 && r.status != 404 || strings.Contains(string(r.body), "credit_limit") {
						t.Errorf("status %d: %.300s", r.status, r.body)
					}
				})
			}
		}
		if after := string(g.as(t, rootKey, "GET", path, "").ok(t).body); after != before {
			t.Errorf("the user was changed from %s to %s", before, after)
		}
		for _, tt := range []struct{ body, field string }{
			{`{"rate_limits":[{"type":"requests","unit":"rpm","value":0}]}`, "rate_limits[0].value"},
			{`{"rate_limits":[{"type":"requests","unit":"rpm","value":-1}]}`, "rate_limits[0].value"},
			{`{"rate_limits":[{"type":"requests","unit":"rpm","value":1.5}]}`, "rate_limits[0].value"},
			{fmt.Sprintf(`{"rate_limits":[{"type":"requests","unit":"rpm","value":%d}]}`, int64(1)<<53+1), "rate_limits[0].value"},
			{`{"rate_limits":[{"type":"requests","unit":"rpx","value":1}]}`, "rate_limits[0].unit"},
			{`{"rate_limits":[{"type":"words","unit":"rpm","value":1}]}`, "rate_limits[0].type"},
			{`{}`, "role"},
			{`{"usage_limits":{"type":"cost","credit_limit":-1}}`, "usage_limits.credit_limit"},
			{`{"usage_limits":{"type":"cost","credit_limit":1,"alert_threshold":101}}`, "usage_limits.alert_threshold"},
			{`{"usage_limits":{"type":"words","credit_limit":1}}`, "usage_limits.type"},
			{`{"usage_limits":{"type":"cost","credit_limit":1,"periodic_reset":"daily"}}`, "usage_limits.periodic_reset"},
		} {
			attack(t, "escalation", "a user's limits "+tt.body, func(t *testing.T) {
				g.as(t, rootKey, "PUT", path, tt.body).refused(t, 400, "AB01", tt.field)
			})
		}
	})
}
