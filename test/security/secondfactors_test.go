package security

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/totp"
)

// addCodes gives the person of a session one-time codes.
func (g *gateway) addCodes(t *testing.T, session string) secret.String {
	t.Helper()
	var begun struct{ Secret, Enrolment string }
	r := g.as(t, session, "POST", "/v1/auth/one-time-codes", "").ok(t)
	if err := json.Unmarshal(r.body, &begun); err != nil {
		t.Fatal(err)
	}
	s := secret.New(begun.Secret)
	g.as(t, session, "POST", "/v1/auth/one-time-codes/confirm", fmt.Sprintf(`{"enrolment":%q,"code":%q}`, begun.Enrolment, code(t, s, 0))).ok(t)
	return s
}

// code returns the one-time code of a secret some steps from now.
func code(t *testing.T, s secret.String, steps int) string {
	t.Helper()
	text, err := totp.Code(s, time.Now().Add(time.Duration(steps)*30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPasswordsAloneOpenNothing is what somebody can do who phished a password.
func TestPasswordsAloneOpenNothing(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		all := nodes(t, o)
		g, last := all[0], all[len(all)-1]
		owner := g.organisation(t, "guarded")
		s := g.addCodes(t, owner)
		signIn := func() string {
			t.Helper()
			r := g.signIn(t, "203.0.113.7", "owner@guarded.example", password).ok(t)
			if r.text(t, "pending") != "second_factor" {
				t.Fatalf("the sign-in: %s", r.body)
			}
			return r.text(t, "token")
		}
		pending := signIn()
		for _, path := range []string{
			"GET /v1/admin/users", "GET /v1/admin/organisation", "PUT /v1/admin/organisation", "POST /v1/api-keys/organisation/service", "GET /v1/audit-logs",
			"GET /v1/logs", "GET /v1/logs/01a227af-d031-759f-ba85-ecf9ec4e36a4", "GET /v1/logs/tail", "GET /v1/explain/01a227af-d031-759f-ba85-ecf9ec4e36a4",
			"GET /v1/auth/sessions", "DELETE /v1/auth/sessions", "PUT /v1/auth/me", "PUT /v1/auth/password", "POST /v1/auth/confirm",
			"GET /v1/auth/second-factors", "DELETE /v1/auth/one-time-codes", "POST /v1/auth/one-time-codes", "POST /v1/auth/passkeys/options",
			"POST /v1/auth/recovery-codes", "GET /scim/v2/Users", "GET /v1/scim/v2/Groups", "POST /v1/oauth/introspect", "GET /v1/identity-providers",
			"GET /v1/models", "POST /v1/chat/completions",
		} {
			method, path, _ := strings.Cut(path, " ")
			attack(t, "credential theft", "a password alone: "+method+" "+path, func(t *testing.T) {
				for _, node := range all {
					if r := node.as(t, pending, method, path, "{}"); r.status != http.StatusForbidden && r.status != http.StatusUnauthorized {
						t.Errorf("%d %s", r.status, r.body)
					}
				}
			})
		}
		proof := fmt.Sprintf(`{"code":%q}`, code(t, s, 1))
		attack(t, "sessions", "a session of before its second factor", func(t *testing.T) {
			full := g.as(t, pending, "POST", "/v1/auth/second-factor", proof).ok(t).text(t, "token")
			for _, node := range all {
				node.as(t, pending, "GET", "/v1/auth/me", "").refused(t, http.StatusUnauthorized)
				node.as(t, full, "GET", "/v1/admin/users", "").ok(t)
			}
		})
		attack(t, "tokens", "a one-time code a second time, on another node", func(t *testing.T) {
			last.as(t, signIn(), "POST", "/v1/auth/second-factor", proof).refused(t, http.StatusUnauthorized)
		})
		attack(t, "credential theft", "guesses of codes from many addresses, on all nodes", func(t *testing.T) {
			tokens := []string{signIn(), signIn()}
			statuses := parallel(40, func(i int) response {
				return all[i%len(all)].as(t, tokens[i%2], "POST", "/v1/auth/second-factor", `{"recovery_code":"aaaaa"}`)
			})
			if statuses[http.StatusUnauthorized] > 5 || statuses[http.StatusTooManyRequests] < 35 {
				t.Errorf("40 guesses were answered %v", statuses)
			}
			g.as(t, tokens[0], "POST", "/v1/auth/second-factor", fmt.Sprintf(`{"code":%q}`, code(t, s, 1))).refused(t, http.StatusTooManyRequests)
		})
	})
}
