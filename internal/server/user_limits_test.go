package server_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/alert"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
	"modelgate/internal/testing/alerttest"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// mustAddUser adds a member of the default workspace to the database in data.
func mustAddUser(t *testing.T, data, id, email string) {
	t.Helper()
	mustUpdate(t, data, func(tx *store.Tx) error {
		now := time.Now()
		u := store.User{ID: id, Email: email, Status: store.Active, Role: "member", CreatedAt: now, UpdatedAt: now}
		if err := tx.CreateUser(t.Context(), store.DefaultOrganisation, u); err != nil {
			return err
		}
		return tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, id, "member", now)
	})
}

// mustUserKey makes a key of a user and returns its secret.
func mustUserKey(t *testing.T, g *gatewaytest.Gateway, user string) string {
	t.Helper()
	made := mustDo(t, g, "POST", "/api-keys/workspace/user", `{"name":"k","workspace_id":"default","user_id":"`+user+`","scopes":["completions.write"]}`)
	var key struct{ Key string }
	if err := json.Unmarshal(made.Body, &key); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", key.Key).Status != 401 })
	return key.Key
}

func TestUserLimitBindsKeysAndTokens(t *testing.T) {
	t.Parallel()
	i, data := newIssuer(t), t.TempDir()
	mustAddUser(t, data, "u-ann", "ann@example.com")
	mustAddUser(t, data, "u-bob", "bob@example.com")
	g := newTrusting(t, i, gatewaytest.Options{Data: data})
	ann, second, bob := mustUserKey(t, g, "u-ann"), mustUserKey(t, g, "u-ann"), mustUserKey(t, g, "u-bob")
	byMail, byID := i.token(map[string]any{"email_id": "Ann@Example.com"}), i.token(map[string]any{"sub": "u-ann"})
	unknown := i.token(map[string]any{"sub": "carl@example.com"})
	chat := func(key string) gatewaytest.Response {
		return g.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "@simulator")
	}
	mustDo(t, g, "PUT", "/admin/users/ann@example.com", `{"rate_limits":[{"type":"requests","unit":"rpw","value":4}]}`)
	waittest.Until(t, "the limit is in force", func() bool {
		res := g.Get("/limits?owner=user", "x-gateway-api-key", ann)
		return strings.Contains(string(res.Body), `"limit":4`)
	})
	// The first requests show that the snapshot has the limit: they are served and counted.
	for n, key := range []string{ann, second, byMail, byID} {
		if res := chat(key); res.Status != 200 {
			t.Fatalf("request %d: %d %s", n, res.Status, res.Body)
		}
	}
	for name, key := range map[string]string{"key": ann, "second key": second, "token by address": byMail, "token by id": byID} {
		if res := chat(key); res.Status != 429 || res.Header.Get("Retry-After") == "" {
			t.Errorf("%s over the limit of its user: %d %s", name, res.Status, res.Body)
		}
	}
	for name, key := range map[string]string{"key of another user": bob, "token of another user": unknown} {
		if res := chat(key); res.Status != 200 {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	if res := g.Get("/limits?owner=user&id=u-ann", "x-gateway-api-key", bob); res.Status != 403 {
		t.Errorf("a user reads the limits of another: %d %s", res.Status, res.Body)
	}
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"rate_limits":null}`)
	waittest.Until(t, "the limit is removed", func() bool { return chat(ann).Status == 200 })
}

func TestUserBudgetCountsKeysAndTokens(t *testing.T) {
	t.Parallel()
	i, data := newIssuer(t), t.TempDir()
	mustAddUser(t, data, "u-ann", "ann@example.com")
	g := newTrusting(t, i, gatewaytest.Options{Data: data})
	key, token := mustUserKey(t, g, "u-ann"), i.token(map[string]any{"sub": "ann@example.com"})
	chat := func(key string) gatewaytest.Response {
		return g.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "@simulator")
	}
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"usage_limits":{"type":"tokens","credit_limit":100,"alert_threshold":50}}`)
	user := func() string { return string(mustDo(t, g, "GET", "/admin/users/u-ann", "").Body) }
	waittest.Until(t, "the budget is exhausted by the token's requests", func() bool {
		chat(token)
		return strings.Contains(user(), `"status":"exhausted"`)
	})
	waittest.Until(t, "the key is refused too", func() bool { return chat(key).Status == 412 })
	waittest.Until(t, "the refusal says whose budget is exhausted", func() bool {
		return strings.Contains(string(chat(key).Body), "the budget of this key's user is exhausted")
	})
	if res := chat(token); res.Status != 412 {
		t.Errorf("token: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "both warnings are recorded", func() bool {
		got := user()
		return strings.Contains(got, `"is_threshold_alerts_sent":true`) && strings.Contains(got, `"is_exhausted_alerts_sent":true`)
	})
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"reset_usage":true}`)
	waittest.Until(t, "the reset admits requests", func() bool { return chat(key).Status == 200 })
}

func TestAlertsOfAUserReachTheUserOnce(t *testing.T) {
	t.Parallel()
	data, h, mails := t.TempDir(), newHook(t, 0), alerttest.NewMailServer(t, alert.NoTLS)
	mustAddUser(t, data, "u-ann", "ann@example.com")
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: "alerts:\n  webhooks: [{url: \"" + h.URL + "\", secret: \"${ALERT_SECRET}\"}]\n" +
		"  email: {server: \"" + mails.Addr().String() + "\", tls: none, from: gateway@example.com, to: [ops@example.com]}\n"})
	key := mustUserKey(t, g, "u-ann")
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"usage_limits":{"type":"tokens","credit_limit":100,"alert_threshold":50}}`)
	waittest.Until(t, "the budget is exhausted", func() bool {
		return g.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "@simulator").Status == 412
	})
	waittest.Until(t, "both alerts are sent", func() bool { return len(h.bodies()) == 2 && len(mails.Messages()) == 2 })
	want := []string{"budget.exhausted user ann@example.com: 1", "budget.threshold_reached user ann@example.com: 1"}
	if got := h.bodies(); !slices.Equal(got, want) {
		t.Errorf("received %v, want %v", got, want)
	}
	if n := strings.Count(strings.Join(mails.Commands(), "\n"), "RCPT TO:<ann@example.com>"); n != 2 {
		t.Errorf("the user was sent %d e-mails, want 2", n)
	}
}

func TestLimitsOfUsersAreLiftedWhereLimitsAreOff(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	mustAddUser(t, data, "u-ann", "ann@example.com")
	g := gatewaytest.New(t, gatewaytest.Options{Data: data})
	key := mustUserKey(t, g, "u-ann")
	chat := func() int {
		return g.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-provider", "@simulator").Status
	}
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"usage_limits":{"type":"tokens","credit_limit":100}}`)
	waittest.Until(t, "the budget is exhausted", func() bool {
		return chat() == 412 && strings.Contains(string(mustDo(t, g, "GET", "/admin/users/u-ann", "").Body), `"status":"exhausted"`)
	})
	mustDo(t, g, "PUT", "/admin/users/u-ann", `{"rate_limits":[{"type":"requests","unit":"rpw","value":1}]}`)
	g.Stop()
	g = gatewaytest.New(t, gatewaytest.Options{Data: data, Off: route.DisabledFeatures{route.UsageLimits: true}})
	for n := range 3 {
		if got := chat(); got != 200 {
			t.Errorf("request %d with limits off: %d, want 200", n, got)
		}
	}
}
