package server_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

func TestAGatewayOfADeploymentServesOnlyItsWorkspaces(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	all := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	mustCall(t, all, "POST", "/admin/workspaces", `{"name":"other"}`)
	var w struct {
		Data []struct{ ID, Slug, Name string }
	}
	if err := json.Unmarshal(all.Get("/admin/workspaces?name=other").Body, &w); err != nil || len(w.Data) != 1 {
		t.Fatal(w, err)
	}
	res := all.Post("/deployments", `{"name":"eu","workspaces":["`+w.Data[0].Slug+`"]}`)
	var d struct {
		ID     string
		Secret string `json:"client_auth"`
	}
	if err := json.Unmarshal(res.Body, &d); err != nil || d.Secret == "" {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	db := storetest.Open(t, dsn)
	key := func(workspace string) secret.String {
		t.Helper()
		k, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "k", Workspace: workspace})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	inside, outside := key(w.Data[0].ID), key("")
	if _, err := server.New(t.Context(), server.Options{Data: t.TempDir(), Listen: "127.0.0.1:0", Database: secret.New(dsn), DeploymentSecret: secret.New("wrong")}); err == nil || !strings.Contains(err.Error(), "MODELGATE_DEPLOYMENT_SECRET") {
		t.Errorf("a start with a wrong secret: %v", err)
	}
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn, DeploymentSecret: d.Secret})
	ask := func(at *gatewaytest.Gateway, k secret.String) gatewaytest.Response {
		return at.Post("/chat/completions", chat, "x-gateway-api-key", k.Reveal(), "x-gateway-provider", "openai", "authorization", "")
	}
	served := func(k secret.String) bool { // it gets as far as to lack a credential
		res := ask(g, k)
		if res.Status == 403 && !bytes.Contains(res.Body, []byte("not_served")) {
			t.Errorf("refused otherwise: %s", res.Body)
		}
		return res.Status == 400
	}
	if !served(inside) || served(outside) {
		t.Errorf("the key of its workspace: %d; of another: %d", ask(g, inside).Status, ask(g, outside).Status)
	}
	if got := ask(all, outside).Status; got != 400 {
		t.Errorf("a gateway of no deployment: %d", got)
	}
	waittest.Until(t, "it was seen", func() bool { return !bytes.Contains(all.Get("/deployments/"+d.ID).Body, []byte(`"last_seen_at":null`)) })
	mustCall(t, all, "PUT", "/deployments/"+d.ID, `{"allow_all_workspaces":true,"workspaces":[]}`)
	waittest.Until(t, "all workspaces are served", func() bool { return served(outside) })
	mustCall(t, all, "PUT", "/deployments/"+d.ID, `{"status":"inactive"}`)
	waittest.Until(t, "nobody is served", func() bool { return !served(inside) && !served(outside) })
	mustCall(t, all, "PUT", "/deployments/"+d.ID, `{"status":"active"}`)
	waittest.Until(t, "they are again", func() bool { return served(inside) })
	mustCall(t, all, "DELETE", "/deployments/"+d.ID, "")
	waittest.Until(t, "nobody is served by what is gone", func() bool { return !served(inside) })
	if got := g.Get("/configs").Status; got != 200 {
		t.Errorf("administration there: %d", got)
	}
}
