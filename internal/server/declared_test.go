package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const ownedFile = `providers: [{slug: local, provider: openai-compatible, custom_host: SIMULATOR}]
configs: [{slug: pc-file, config: {provider: "@local"}}]
keys: [{name: ci, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, scopes: [completions.write], config: pc-file}]
`

func TestObjectsOfTheFileAreReadOnlyInTheAPI(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: ownedFile})
	if res := g.Post("/configs", `{"name":"stored","config":{"provider":"@local"}}`); res.Status != 200 {
		t.Fatalf("a config of the API: %d %s", res.Status, res.Body)
	}
	for _, tt := range []struct{ path, want string }{
		{"/configs", `"slug":"pc-file"`}, {"/configs", `"total":2`}, {"/configs", `"managed_by":"api"`}, {"/configs", `"managed_by":"file"`},
		{"/configs/pc-file?format=object", `"config":{"provider":"@local"}`}, {"/configs/file:pc-file", `"managed_by":"file"`},
		{"/configs/pc-file/versions", `"data":[]`}, {"/configs?current_page=1", `"total":2,"data":[]`},
		{"/providers", `"slug":"local"`}, {"/providers/local", `"managed_by":"file"`}, {"/virtual-keys/local", `"managed_by":"file"`},
		{"/api-keys", `"name":"ci"`}, {"/api-keys/file:ci", `"managed_by":"file"`},
	} {
		if res := g.Get(tt.path); res.Status != 200 || !strings.Contains(string(res.Body), tt.want) {
			t.Errorf("GET %s: %d %s, want %s", tt.path, res.Status, res.Body, tt.want)
		}
	}
	for _, tt := range []struct{ method, path, body string }{
		{"PUT", "/configs/pc-file", `{"name":"x"}`}, {"DELETE", "/configs/pc-file", ``}, {"DELETE", "/configs/file:pc-file", ``},
		{"PUT", "/providers/local", `{"name":"x"}`}, {"DELETE", "/providers/local", ``}, {"PUT", "/virtual-keys/local", `{"name":"x"}`},
		{"DELETE", "/virtual-keys/local", ``}, {"POST", "/providers", `{"name":"x","slug":"local","integration_id":"none"}`},
		{"PUT", "/api-keys/file:ci", `{"name":"x"}`}, {"DELETE", "/api-keys/file:ci", ``}, {"POST", "/api-keys/file:ci/rotate", ``},
	} {
		res := g.Do(g.Request(tt.method, tt.path, tt.body))
		if res.Status != http.StatusConflict || !strings.Contains(string(res.Body), "AB07") || !strings.Contains(string(res.Body), "modelgate.yaml") {
			t.Errorf("%s %s: %d %s, want 409 that names the file", tt.method, tt.path, res.Status, res.Body)
		}
	}
	g.WriteSettings("version: 1\n")
	waittest.Until(t, "the config is gone", func() bool { return g.Get("/configs/pc-file").Status == 404 })
	if res := g.Do(g.Request("DELETE", "/api-keys/file:ci", "")); res.Status != 404 {
		t.Errorf("a key that left the file: %d %s", res.Status, res.Body)
	}
}

func TestObjectsOfTheFileAreHiddenFromOtherWorkspaces(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: ownedFile})
	res := g.Post("/workspaces", `{"name":"other"}`)
	var made struct{ ID string }
	if err := json.Unmarshal(res.Body, &made); err != nil || made.ID == "" {
		t.Fatalf("making a workspace: %d %s", res.Status, res.Body)
	}
	id := made.ID
	for _, path := range []string{"/configs/pc-file?workspace_id=" + id, "/providers/local?workspace_id=" + id, "/api-keys/file:ci?workspace_id=" + id} {
		if res := g.Get(path); res.Status != 404 || strings.Contains(string(res.Body), "modelgate.yaml") {
			t.Errorf("GET %s: %d %s, want 404", path, res.Status, res.Body)
		}
		if res := g.Do(g.Request("DELETE", path, "")); res.Status != 404 || strings.Contains(string(res.Body), "modelgate.yaml") {
			t.Errorf("DELETE %s: %d %s, want 404", path, res.Status, res.Body)
		}
	}
	for _, path := range []string{"/configs", "/providers", "/api-keys"} {
		if res := g.Get(path + "?workspace_id=" + id); res.Status != 200 || strings.Contains(string(res.Body), "file") {
			t.Errorf("GET %s: %d %s", path, res.Status, res.Body)
		}
	}
}
