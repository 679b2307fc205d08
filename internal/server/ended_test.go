package server_test

import (
	"bytes"
	"testing"
	"time"

	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestAKeyThatUsedUpItsBudgetReadsOn(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		key, k, err := server.CreateKey(t.Context(), storetest.Open(t, dsn), store.Key{Name: "poor"})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(method, path, body string) gatewaytest.Response {
			return g.Do(g.Request(method, path, body, "x-gateway-api-key", key.Reveal()))
		}
		waittest.Until(t, "the key counts", func() bool { return ask("POST", "/chat/completions", chat).Status == 200 })
		put := func(status string) {
			t.Helper()
			if k.Disabled = status == store.KeyDisabled; !k.Disabled {
				k.Status = status
			}
			if err := storetest.Open(t, dsn).Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateKey(t.Context(), k) }); err != nil {
				t.Fatal(err)
			}
		}
		put(store.KeyExhausted)
		waittest.Until(t, "its budget is used up", func() bool { return ask("POST", "/chat/completions", chat).Status == 412 })
		for _, tt := range []struct {
			method, path, body string
			want               int
		}{
			{"POST", "/chat/completions", chat, 412},
			{"POST", "/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, 412},
			{"POST", "/any/path", `{}`, 412},
			{"GET", "/models", "", 200},
			{"GET", "/logs", "", 200},
			{"GET", "/api-keys/self", "", 200},
			{"GET", "/batches", "", 200}, // passed through
		} {
			if res := ask(tt.method, tt.path, tt.body); res.Status != tt.want || tt.want == 412 && !bytes.Contains(res.Body, []byte("budget")) {
				t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, res.Status, res.Body, tt.want)
			}
		}
		if res := ask("POST", "/chat/completions", chat); !bytes.Contains(res.Body, []byte(`"budget_exhausted"`)) {
			t.Errorf("the code is another: %s", res.Body)
		}
		put(store.KeyActive)
		waittest.Until(t, "it has a budget again", func() bool { return ask("POST", "/chat/completions", chat).Status == 200 })
		for status, code := range map[string]string{store.KeyRevoked: "invalid_api_key", store.KeyExpired: "expired_api_key", store.KeyDisabled: "disabled_api_key"} {
			put(status)
			waittest.Until(t, "it is "+status, func() bool { return ask("POST", "/chat/completions", chat).Status == 401 })
			for _, path := range []string{"/chat/completions", "/messages", "/any/path", "/explain"} {
				if res := ask("POST", path, chat); res.Status != 401 || !bytes.Contains(res.Body, []byte(code)) {
					t.Errorf("%s with a key that is %s: %d %s, want 401 %s", path, status, res.Status, res.Body, code)
				}
			}
			put(store.KeyActive)
			waittest.Until(t, "it counts again", func() bool { return ask("POST", "/chat/completions", chat).Status == 200 })
		}
	})
}

func TestAProviderEntryThatIsUsedUpOrOverIsRefused(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn, MasterKey: master})
	db := storetest.Open(t, dsn)
	mustStoreProvider(t, db, g.Upstream)
	ask := func(h ...string) gatewaytest.Response { return g.Post("/chat/completions", chat, h...) }
	waittest.Until(t, "the entry counts", func() bool { return ask("x-gateway-provider", "@stored").Status == 200 })
	past := time.Now().Add(-time.Second)
	for _, tt := range []struct {
		code string
		do   func(*store.Tx, *store.Provider) error
	}{
		{"provider_exhausted", func(_ *store.Tx, p *store.Provider) error { p.Status = store.Exhausted; return nil }},
		{"provider_expired", func(_ *store.Tx, p *store.Provider) error { p.Status = store.Expired; return nil }},
		{"provider_expired", func(_ *store.Tx, p *store.Provider) error { p.ExpiresAt = past; return nil }},
		{"provider_exhausted", func(tx *store.Tx, _ *store.Provider) error {
			return tx.PutIntegrationWorkspace(t.Context(), store.IntegrationWorkspace{Integration: "i1", Workspace: store.DefaultWorkspace, Enabled: true, Status: store.Exhausted})
		}},
	} {
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			p, err := tx.Provider(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace, "p1")
			if err != nil {
				return err
			}
			p.Status, p.ExpiresAt = store.Active, time.Time{}
			if err := tt.do(tx, &p); err != nil {
				return err
			}
			return tx.UpdateProvider(t.Context(), p)
		})
		if err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, tt.code, func() bool {
			res := ask("x-gateway-provider", "@stored")
			return res.Status == 412 && bytes.Contains(res.Body, []byte(tt.code))
		})
	}
	tree := func(codes string) string {
		return `{"strategy":{"mode":"fallback"` + codes + `},"targets":[{"provider":"@stored"},{"provider":"@simulator"}]}`
	}
	for config, want := range map[string]int{tree(""): 200, tree(`,"on_status_codes":[412]`): 200, tree(`,"on_status_codes":[429]`): 412, `{"provider":"@stored"}`: 412} {
		if res := ask("x-gateway-provider", "", "x-gateway-config", config); res.Status != want {
			t.Errorf("%s: %d %s, want %d", config, res.Status, res.Body, want)
		}
	}
}
