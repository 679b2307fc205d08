package server_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/gatewaytest"
	"modelgate/internal/secret"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/store/storetest"
)

func TestAKeyBringsItsConfigAndMetadata(t *testing.T) {
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
		eventually(t, "the keys count", func() bool { return ask(free, "", "").Status != 401 && ask(fixed, "", "").Status != 401 })
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
		eventually(t, "the request is logged with the key's metadata", func() bool {
			return strings.Contains(string(g.Get("/logs?metadata.team=a&metadata.app=x").Body), id)
		})
	})
}

func TestOfARotatedKeyBothSecretsCountForAWhile(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{Database: storetest.Postgres(t)})
	_ = g
	now := time.Now()
	before := access.HashKey("mg-before")
	k := store.Key{PreviousHash: &before, TransitionEndsAt: now.Add(time.Hour), Hash: access.HashKey("mg-now"), ExpiresAt: now.Add(2 * time.Hour)}
	if got := k.Identities(); len(got) != 2 || !got[1].ExpiresAt.Equal(k.TransitionEndsAt) || !got[0].ExpiresAt.Equal(k.ExpiresAt) {
		t.Errorf("Identities() = %+v", got)
	}
	_ = secret.String{}
}
