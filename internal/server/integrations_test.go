package server_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestAKeyBringsItsConfigAndMetadata(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		slug, other := slugOf(t, saveConfig(g, "own")), slugOf(t, saveConfig(g, "other"))
		// Configs of the same text are one; this is another.
		res := g.Post("/configs", `{"name":"third","config":{"targets":[{"provider":"@simulator","weight":1}],"strategy":{"mode":"single"}}}`)
		third := slugOf(t, res)
		db := storetest.Open(t, dsn)
		make := func(defaults string) string {
			t.Helper()
			key, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "k", Defaults: []byte(defaults)})
			if err != nil {
				t.Fatal(err)
			}
			return key.Reveal()
		}
		free := make(`{"config_id":"` + slug + `","metadata":{"team":"a"}}`)
		fixed := make(`{"config_id":"` + slug + `","config_fixed":true}`)
		ask := func(key, config, metadata string) gatewaytest.Response {
			return g.Post("/chat/completions", chat, "x-gateway-api-key", key, "x-gateway-provider", "", "x-gateway-config", config, "x-gateway-metadata", metadata)
		}
		waittest.Until(t, "the keys count", func() bool { return ask(free, "", "").Status != 401 && ask(fixed, "", "").Status != 401 })
		for _, tt := range []struct {
			name, key, config string
			want              int
		}{
			{"its own config", free, "", 200},
			{"another", free, third, 200},
			{"its own config, fixed", fixed, "", 200},
			{"the same, named", fixed, slug, 200},
			{"another, fixed", fixed, third, 400},
			{"one of its own making, fixed", fixed, `{"provider":"@simulator"}`, 400},
			{"none that exists, fixed", fixed, "pc-nowhere", 400},
			{"another of the same text, fixed", fixed, other, 200},
		} {
			if res := ask(tt.key, tt.config, ""); res.Status != tt.want || tt.want == 400 && !bytes.Contains(res.Body, []byte("config_fixed")) {
				t.Errorf("%s: %d %s, want %d", tt.name, res.Status, res.Body, tt.want)
			}
		}
		id := ask(free, "", `{"team":"b","app":"x"}`).Header.Get("x-gateway-request-id")
		waittest.Until(t, "the request is logged with the key's metadata", func() bool {
			return strings.Contains(string(g.Get("/logs?metadata.team=a&metadata.app=x").Body), id)
		})
	})
}

func TestOfARotatedKeyBothSecretsCountForAWhile(t *testing.T) {
	t.Parallel()
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		db := storetest.Open(t, dsn)
		now := time.Now()
		before := access.HashKey("mg-before-of-a-test")
		k := store.Key{ID: "k", Name: "k", Hash: access.HashKey("mg-now-of-a-test"), PreviousHash: &before, TransitionEndsAt: now.Add(time.Hour),
			Scopes: []access.Scope{access.ScopeAll}, CreatedAt: now}
		if err := db.CreateKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		ask := func(key string) int { return g.Post("/chat/completions", chat, "x-gateway-api-key", key).Status }
		waittest.Until(t, "the new secret counts", func() bool { return ask("mg-now-of-a-test") == 200 })
		if got := ask("mg-before-of-a-test"); got != 200 {
			t.Errorf("the secret before, in the transition: %d, want 200", got)
		}
		k.TransitionEndsAt = now.Add(-time.Second)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdateKey(t.Context(), k) })
		if err != nil {
			t.Fatal(err)
		}
		waittest.Until(t, "the secret before is refused", func() bool { return ask("mg-before-of-a-test") == 401 })
		if got := ask("mg-now-of-a-test"); got != 200 {
			t.Errorf("the new secret after the transition: %d, want 200", got)
		}
	})
}

func TestAnEntryOfAnotherWorkspaceIsNotThere(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn, MasterKey: master})
	db := storetest.Open(t, dsn)
	mustStoreProvider(t, db, g.Upstream)
	slug := slugOf(t, saveConfig(g, "own"))
	now := time.Now()
	other := store.Workspace{ID: "w2", Organisation: store.DefaultOrganisation, Slug: "other", Name: "Other", Status: store.Active, CreatedAt: now, UpdatedAt: now}
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.CreateWorkspace(t.Context(), other) })
	if err != nil {
		t.Fatal(err)
	}
	here, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "here"})
	if err != nil {
		t.Fatal(err)
	}
	there, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "there", Workspace: "w2"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key secret.String, provider, config string) gatewaytest.Response {
		return g.Post("/chat/completions", chat, "x-gateway-api-key", key.Reveal(), "x-gateway-provider", provider, "x-gateway-config", config)
	}
	waittest.Until(t, "the keys count", func() bool { return ask(here, "@stored", "").Status == 200 && ask(there, "@stored", "").Status != 401 })
	for _, tt := range []struct{ provider, config string }{
		{"@stored", ""}, {"@simulator", ""}, {"", slug}, {"", `{"virtual_key":"stored"}`}, {"", `{"provider":"@stored"}`},
	} {
		hidden := ask(there, tt.provider, tt.config)
		absent := ask(there, strings.Replace(tt.provider, "@", "@no-", 1), strings.NewReplacer(slug, "pc-none", "stored", "no-stored").Replace(tt.config))
		plain := strings.NewReplacer("no-", "", "pc-none", slug)
		if got, want := string(hidden.Body), plain.Replace(string(absent.Body)); hidden.Status != 404 || absent.Status != 404 || got != want {
			t.Errorf("%v: %d %s, want as what does not exist: %d %s", tt, hidden.Status, got, absent.Status, want)
		}
		if res := ask(here, tt.provider, tt.config); res.Status != 200 {
			t.Errorf("%v in its own workspace: %d %s", tt, res.Status, res.Body)
		}
	}
	if models := string(g.Get("/models", "x-gateway-api-key", there.Reveal(), "x-gateway-provider", "").Body); strings.Contains(models, "stored") || strings.Contains(models, "simulator") {
		t.Errorf("the models of the other workspace: %s", models)
	}
}
