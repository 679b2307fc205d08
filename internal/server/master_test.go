package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/secrets/datakey"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestCredentialsAreServedThroughAChangeOfTheMasterKey(t *testing.T) {
	t.Parallel()
	const fresh = "another master key of a whole test"
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, MasterKey: master})
	db := storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db"))
	mustStoreProvider(t, db, g.Upstream)
	reseal(t, db)
	served := func() bool {
		return g.Post("/chat/completions", chat, "x-gateway-provider", "@stored").Status == 200
	}
	waittest.Until(t, "the stored provider is served with the data key", served)

	both, err := server.MasterBox(secret.New(fresh), secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := datakey.Rotate(t.Context(), db, both, datakey.Keep); err != nil {
		t.Fatal(err)
	}
	slugOf(t, saveConfig(g, "after")) // the gateway has read its state again
	if !served() {
		t.Error("a gateway with the old key no longer serves what it served before")
	}
	g.Stop()
	for name, tt := range map[string]struct{ master, previous, says string }{
		"none":               {says: "no master key"},
		"the old one":        {master: master, says: "MODELGATE_MASTER_KEY_PREVIOUS"},
		"a previous alone":   {previous: master, says: "no master key"},
		"the new one":        {master: fresh},
		"both":               {master: fresh, previous: master},
		"in the other order": {master: master, previous: fresh},
	} {
		s, err := server.New(t.Context(), server.Options{Data: data, Listen: "127.0.0.1:0", MasterKey: secret.New(tt.master), PreviousMasterKey: secret.New(tt.previous)})
		if err == nil {
			s.Close()
		}
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("a start with %s: %v, want %q", name, err, tt.says)
		}
	}
}

// reseal seals the credential of the stored provider with the data key of its
// organisation.
func reseal(t *testing.T, db *store.DB) {
	t.Helper()
	box, err := secret.NewBox(secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := datakey.New(db, box).Seal(t.Context(), store.DefaultOrganisation, store.Secrets{Key: secret.New(gatewaytest.SimulatorKey)}.Text())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		i, err := tx.Integration(t.Context(), store.DefaultOrganisation, "sim")
		if err != nil {
			return err
		}
		i.Sealed = sealed
		return tx.UpdateIntegration(t.Context(), i)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestIntegrationsTakeCredentialsWithAMasterKeyOnly(t *testing.T) {
	t.Parallel()
	const body = `{"name":"A","ai_provider_id":"openai","key":"sk-canary-4711"}`
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data})
	if res := g.Post("/integrations", body); res.Status != 503 || !strings.Contains(string(res.Body), "no_master_key") {
		t.Errorf("without a master key: %d %s", res.Status, res.Body)
	}
	g.Stop()
	g = gatewaytest.New(t, gatewaytest.Options{Data: data, MasterKey: master})
	if res := g.Post("/integrations", body); res.Status != 200 {
		t.Fatalf("with a master key: %d %s", res.Status, res.Body)
	}
	db := storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db"))
	list, _, err := db.Integrations(t.Context(), store.IntegrationFilter{Organisation: store.DefaultOrganisation, Shared: true, Own: true}, store.Page{})
	if err != nil || len(list) != 1 || !secret.SealedByDataKey(list[0].Sealed) {
		t.Errorf("stored: %+v, %v; want one sealed by a data key", list, err)
	}
}
