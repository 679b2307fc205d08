package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// watching reads what a watcher receives, until its stream ends.
type watching struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
}

func watch(t *testing.T, g *gatewaytest.Gateway, key, query string) *watching {
	t.Helper()
	res, err := http.DefaultClient.Do(g.Request("GET", "/logs/tail?"+query, "", "x-gateway-api-key", key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	w := &watching{t, res, bufio.NewScanner(res.Body)}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || !w.lines.Scan() || w.lines.Text() != ": watching" {
		t.Fatalf("watching: %d %s %q", res.StatusCode, res.Header.Get("Content-Type"), w.lines.Text())
	}
	return w
}

// next returns the next exchange, empty at the end of the stream.
func (w *watching) next() string {
	for w.lines.Scan() {
		if data, ok := strings.CutPrefix(w.lines.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

func TestWatchersReceiveOnlyTheirExchanges(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	made := g.Post("/admin/workspaces", `{"name":"Second"}`).JSON(t)
	secondID, _ := made["id"].(string)
	if secondID == "" {
		t.Fatalf("a second workspace: %v", made)
	}
	key := func(workspace string) string {
		res := g.Post("/api-keys/workspace/service", fmt.Sprintf(`{"name":"w","scopes":["logs.list","completions.write"],"workspace_id":%q}`, workspace))
		made, _ := res.JSON(t)["key"].(string)
		if made == "" {
			t.Fatalf("a key of %s: %d %s", workspace, res.Status, res.Body)
		}
		return made
	}
	one, two := key("default"), key(secondID)
	for g.Post("/chat/completions", chat, "x-gateway-api-key", two).Status == 401 { // taken within a second
	}
	all, first, second, failed := watch(t, g, gatewaytest.Key, ""), watch(t, g, one, ""), watch(t, g, two, ""), watch(t, g, one, "status=5xx")
	ofOne := g.Post("/chat/completions", chat, "x-gateway-api-key", one).Header.Get("x-gateway-request-id")
	ofTwo := g.Post("/chat/completions", chat, "x-gateway-api-key", two).Header.Get("x-gateway-request-id")
	broken := g.Post("/chat/completions", strings.Replace(chat, "sim-1", "sim-1+status=503", 1), "x-gateway-api-key", one).Header.Get("x-gateway-request-id")
	for _, tt := range []struct {
		name string
		w    *watching
		want []string
	}{
		{"of the installation", all, []string{ofOne, ofTwo, broken}},
		{"of the first workspace", first, []string{ofOne, broken}},
		{"of the second workspace", second, []string{ofTwo}},
		{"of failures", failed, []string{broken}},
	} {
		for _, id := range tt.want {
			if got := tt.w.next(); !strings.Contains(got, `"id":"`+id+`"`) {
				t.Errorf("%s: received %.120s, want %s", tt.name, got, id)
			}
		}
	}
	failed.res.Body.Close() // one who leaves does not disturb
	third := g.Post("/chat/completions", chat, "x-gateway-api-key", two).Header.Get("x-gateway-request-id")
	if got := second.next(); !strings.Contains(got, third) {
		t.Errorf("received %.120s, want %s", got, third)
	}
	g.Stop() // ends those who watch, and does not wait for them
	if got := first.next(); got != "" {
		t.Errorf("the first workspace received %.200s", got)
	}
}

func TestWatchingIsRefusedAsListingIs(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for _, tt := range []struct {
		method, query, key, says string
		status                   int
	}{
		{"GET", "", "mg-nobody", "invalid_api_key", 401},
		{"POST", "", gatewaytest.Key, "GET", 405},
		{"GET", "?status=many", gatewaytest.Key, `"param":"status"`, 400},
		{"GET", "?cursor=x", gatewaytest.Key, `"param":"cursor"`, 400},
		{"GET", "?cost_min=1", gatewaytest.Key, `"param":"cost_min"`, 400},
		{"GET", "?modle=x", gatewaytest.Key, `"param":"modle"`, 400},
	} {
		res := g.Do(g.Request(tt.method, "/logs/tail"+tt.query, "", "x-gateway-api-key", tt.key))
		if res.Status != tt.status || !strings.Contains(string(res.Body), tt.says) {
			t.Errorf("%s %s: %d %s, want %d with %s", tt.method, tt.query, res.Status, res.Body, tt.status, tt.says)
		}
	}
}
