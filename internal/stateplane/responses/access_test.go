package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const silentKey = "mg-responses-silent-key-0123456789"

func hash(key string) string { return access.HashKey(key).String() }

func TestResponsesOfOtherWorkspacesAreUnknown(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	workspace := g.Post("/admin/workspaces", `{"name":"other"}`).JSON(t)["id"].(string)
	otherKey, _ := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"`+workspace+`","scopes":["completions.write"]}`).JSON(t)["key"].(string)
	waittest.Until(t, "the key is known", func() bool {
		return g.Do(g.Request("GET", "/models", "", "x-gateway-api-key", otherKey)).Status != 401
	})
	kept := ask(t, g, 200, fmt.Sprintf(claude, "secret", ``))["id"].(string)
	recorded := ask(t, g, 200, `{"model":"@openai/gpt-5","input":"hi"}`)["id"].(string)
	conversation := post(t, g, 200, "/conversations", "")["id"].(string)
	for _, path := range []string{"/responses/ID", "/responses/ID/input_items", "/responses/ID?stream=true", "/conversations/ID", "/conversations/ID/items", "/conversations/ID/items/x"} {
		for _, method := range []string{"GET", "DELETE"} {
			if method == "DELETE" && path != "/responses/ID" && path != "/conversations/ID" {
				continue
			}
			var bodies []string
			for _, id := range []string{kept, recorded, conversation, "resp_unknown"} {
				res := g.Do(g.Request(method, strings.Replace(path, "ID", id, 1), "", "x-gateway-provider", "", "x-gateway-api-key", otherKey))
				if res.Status != 404 {
					t.Errorf("%s %s of %s: status %d", method, path, id, res.Status)
				}
				bodies = append(bodies, string(res.Body))
			}
			if bodies[0] != bodies[3] || bodies[1] != bodies[3] || bodies[2] != bodies[3] {
				t.Errorf("%s %s tells foreign ids from unknown ones: %q", method, path, bodies)
			}
		}
	}
	calls := v.calls()
	for _, reference := range []string{`"previous_response_id":"` + kept + `"`, `"previous_response_id":"` + recorded + `"`, `"conversation":"` + conversation + `"`} {
		res := g.Do(g.Request("POST", "/responses", `{"model":"m","input":"x",`+reference+`}`, "x-gateway-api-key", otherKey))
		if res.Status < 400 || v.calls() != calls {
			t.Errorf("%s of another workspace: status %d", reference, res.Status)
		}
	}
}

func TestKeysWithoutLoggingStoreNoContent(t *testing.T) {
	keys := "keys:\n  - {name: silent, sha256: " + hash(silentKey) + ", request_logging: none}\n"
	for _, tt := range []struct {
		name, more, body string
		status           int
		header           string
	}{
		{"asked for", "", `,"store":true`, 200, "store;dropped"},
		{"by default", "", ``, 200, ""},
		{"refused", "responses: {unkept: refuse}\n", `,"store":true`, 400, ""},
		{"not refused if not asked for", "responses: {unkept: refuse}\n", ``, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := start(t, newVendor(), gatewaytest.Options{}, keys+tt.more)
			res := g.Do(g.Request("POST", "/responses", fmt.Sprintf(claude, "one", tt.body), "x-gateway-provider", "", "x-gateway-api-key", silentKey))
			got := answer(t, res, tt.status)
			if params := res.Header.Get("x-gateway-params"); !strings.Contains(params, tt.header) || tt.header == "" && strings.Contains(params, "store") {
				t.Errorf("x-gateway-params is %q, want %q", params, tt.header)
			}
			if tt.status != 200 {
				if code(got) != "store_refused" {
					t.Errorf("%v", got)
				}
				return
			}
			if got["store"] != false {
				t.Errorf("store is %v", got["store"])
			}
			get(t, g, 404, "GET", "/responses/"+got["id"].(string))
		})
	}
	g := start(t, newVendor(), gatewaytest.Options{}, keys)
	c := post(t, g, 200, "/conversations", "")["id"].(string)
	ask(t, g, 400, fmt.Sprintf(claude, "one", `,"conversation":"`+c+`"`), "x-gateway-api-key", silentKey)
	if res := g.Do(g.Request("POST", "/responses", fmt.Sprintf(claude, "one", `,"store":true`), "x-gateway-provider", "")); strings.Contains(res.Header.Get("x-gateway-params"), "store") {
		t.Errorf("a stored response is announced as %q", res.Header.Get("x-gateway-params"))
	}
}

func TestStorageCanBeTurnedOff(t *testing.T) {
	for _, tt := range []struct {
		store          string
		kept, recorded int
	}{{"gateway", 200, 200}, {"provider", 404, 200}, {"off", 404, 404}} {
		t.Run(tt.store, func(t *testing.T) {
			g := start(t, newVendor(), gatewaytest.Options{}, "responses: {store: "+tt.store+"}\n")
			kept := ask(t, g, 200, fmt.Sprintf(claude, "one", ``))["id"].(string)
			get(t, g, tt.kept, "GET", "/responses/"+kept)
			recorded := ask(t, g, 200, `{"model":"@openai/gpt-5","input":"hi"}`)["id"].(string)
			get(t, g, tt.recorded, "GET", "/responses/"+recorded)
		})
	}
}

func TestQueriesOfResponsesAreChecked(t *testing.T) {
	g := start(t, newVendor(), gatewaytest.Options{}, "")
	id := ask(t, g, 200, fmt.Sprintf(claude, "one", ``))["id"].(string)
	for query, status := range map[string]int{
		"?include=file_search_call.results": 200, "?include[]=message.input_image.image_url&include[]=reasoning.encrypted_content": 200,
		"?include=web_search_call.action.sources,message.output_text.logprobs": 200, "?include[1]=computer_call_output.output.image_url": 200,
		"?include=everything": 400, "?include[]=file_search_call.results,x": 400, "?include[0]=x": 400,
		"?stream=maybe": 400, "?starting_after=3": 400, "?stream=true&starting_after=-1": 400, "?stream=true&starting_after=x": 400,
	} {
		if res := g.Do(g.Request("GET", "/responses/"+id+query, "", "x-gateway-provider", "")); res.Status != status {
			t.Errorf("%s: status %d, want %d: %s", query, res.Status, status, res.Body)
		}
	}
	for query, status := range map[string]int{"?limit=100": 200, "?limit=101": 400, "?limit=0": 400, "?order=up": 400, "?after=msg_unknown": 404, "?include=x": 400} {
		if res := g.Do(g.Request("GET", "/responses/"+id+"/input_items"+query, "", "x-gateway-provider", "")); res.Status != status {
			t.Errorf("input_items%s: status %d, want %d: %s", query, res.Status, status, res.Body)
		}
	}
}

func TestTokensAreEstimatedForProvidersWithoutACount(t *testing.T) {
	v := newVendor()
	g := start(t, v, gatewaytest.Options{}, "")
	id := ask(t, g, 200, fmt.Sprintf(claude, strings.Repeat("many words ", 100), ``))["id"].(string)
	calls := v.calls()
	res := g.Do(g.Request("POST", "/responses/input_tokens", fmt.Sprintf(claude, "one", `,"previous_response_id":"`+id+`"`), "x-gateway-provider", ""))
	got := answer(t, res, 200)
	if n, _ := got["input_tokens"].(float64); n < 100 || got["object"] != "response.input_tokens" {
		t.Errorf("counted %v, want those of the turn before too", got)
	}
	if params := res.Header.Get("x-gateway-params"); !strings.HasPrefix(params, "input_tokens;adapted") || v.calls() != calls {
		t.Errorf("the estimate is announced by %q", params)
	}
	if res := g.Do(g.Request("POST", "/responses/compact", fmt.Sprintf(claude, "one", ``), "x-gateway-provider", "")); res.Status < 400 || !strings.Contains(string(res.Body), "unsupported_operation") {
		t.Errorf("compact: %d %s", res.Status, res.Body)
	}
	ask(t, g, 400, fmt.Sprintf(claude, "one", `,"generate":false,"store":false`))
	if v.calls() != calls {
		t.Errorf("%d requests reached the provider", v.calls()-calls)
	}
}
