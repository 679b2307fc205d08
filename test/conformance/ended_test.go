package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/waittest"
)

// TestKeysEndByThemselves waits for a task that runs each minute.
func TestKeysEndByThemselves(t *testing.T) {
	t.Parallel()
	h := populate(t)
	chat := modelRoutes[0]
	made := h.root(t, "POST", "/v1/api-keys/workspace/service",
		`{"name":"short","workspace_id":"default","scopes":["completions.write"],"expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)+`"}`)
	key, _ := made["key"].(string)
	id, _ := made["id"].(string)
	ask := func() int {
		return h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", key, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", h.provider.url).status
	}
	used := h.root(t, "POST", "/v1/api-keys/workspace/service", `{"name":"used","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":100}}`)
	usedKey, usedID := fmt.Sprint(used["key"]), fmt.Sprint(used["id"])
	waittest.Until(t, "a key is used up", func() bool {
		h.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", usedKey, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", h.provider.url)
		return h.root(t, "GET", "/v1/api-keys/"+usedID, "")["status"] == "exhausted"
	})
	h.root(t, "PUT", "/v1/api-keys/"+usedID, `{"expires_at":"`+time.Now().Add(10*time.Second).UTC().Format(time.RFC3339Nano)+`"}`)
	prove(t, "S-245", "a key is refused from its end on, with nothing done by hand", func(t *testing.T) {
		waittest.Until(t, "it counts", func() bool { return ask() == http.StatusOK })
		var end time.Time
		waittest.Until(t, "the change comes before the end", func() bool {
			end = time.Now().Add(2 * time.Second).UTC().Truncate(time.Millisecond)
			return h.do(t, "PUT", "/v1/api-keys/"+id, `{"expires_at":"`+end.Format(time.RFC3339Nano)+`"}`, "x-gateway-api-key", bootstrapKey).status == http.StatusOK
		})
		waittest.Until(t, "its end comes", func() bool {
			sent := time.Now()
			status := ask()
			if answered := time.Now(); answered.Before(end) && status != http.StatusOK {
				t.Errorf("status %d %s before its end", status, end.Sub(answered))
			}
			if !sent.Before(end) && status != http.StatusUnauthorized {
				t.Errorf("status %d %s after its end", status, sent.Sub(end))
			}
			return !sent.Before(end)
		})
		for path, method := range map[string]string{"/v1/things": "POST", "/v1/models": "GET", "/v1/policies/rate-limits": "GET", "/v1/logs": "GET"} {
			if got := h.do(t, method, path, "", "x-gateway-api-key", key); got.status != http.StatusUnauthorized {
				t.Errorf("%s %s after its end: status %d, want 401", method, path, got.status)
			}
		}
	})
	prove(t, "S-244 S-570", "and is shown as expired", func(t *testing.T) {
		if got := h.root(t, "GET", "/v1/api-keys/"+id, "")["status"]; got != "expired" {
			t.Errorf("its status is %v", got)
		}
	})
	prove(t, "S-244 S-570", "and is marked as expired in the background", func(t *testing.T) {
		db, err := store.Open(t.Context(), "file:"+filepath.Join(h.data, "modelgate.db"), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for deadline := time.Now().Add(5 * time.Minute); ; <-time.After(50 * time.Millisecond) {
			k, err := db.Key(t.Context(), store.DefaultOrganisation, id)
			u, usedErr := db.Key(t.Context(), store.DefaultOrganisation, usedID)
			if err == nil && k.Status == store.KeyExpired && usedErr == nil && u.Status == store.KeyExpired {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after five of the task's minutes the key is stored as %s, %v, and one that was used up as %s, %v", k.Status, err, u.Status, usedErr)
			}
		}
	})
	prove(t, "S-244 S-570", "also after a start", func(t *testing.T) {
		h.again(t, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
		if got := h.root(t, "GET", "/v1/api-keys/"+id, "")["status"]; got != "expired" {
			t.Errorf("its status is %v", got)
		}
		if got := ask(); got != http.StatusUnauthorized {
			t.Errorf("it is answered %d", got)
		}
	})
}

func TestAGatewayOfADeploymentServesItsWorkspaces(t *testing.T) {
	h := populate(t)
	other := h.root(t, "POST", "/v1/workspaces", `{"name":"Other"}`)["slug"].(string)
	secret, _ := h.root(t, "POST", "/v1/deployments", `{"name":"EU","slug":"eu","workspaces":["`+other+`"]}`)["client_auth"].(string)
	inside := h.made(t, "/v1/api-keys/workspace/service", `{"name":"in","workspace_id":"`+other+`","scopes":["completions.write"]}`)
	outside := h.made(t, "/v1/api-keys/workspace/service", `{"name":"out","workspace_id":"default","scopes":["completions.write"]}`)
	show := func(secret string) []string {
		return []string{"MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test",
			"DATABASE_URL=file:" + filepath.Join(h.data, "modelgate.db"), "MODELGATE_DEPLOYMENT_SECRET=" + secret}
	}
	g := launchFor(t, "version: 1\n", show(secret)...)
	chat := modelRoutes[0]
	ask := func(g *gateway, key string) response {
		return g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", key, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", h.provider.url)
	}
	h.eventually(t, outside)
	prove(t, "S-564", "keys of its workspaces", func(t *testing.T) { ask(g, inside).wantOK(t) })
	prove(t, "S-564", "and refuses those of others, which reach nobody", func(t *testing.T) {
		h.provider.forget()
		for _, key := range []string{outside, h.keys["member"]} {
			ask(g, key).refused(t, http.StatusForbidden)
		}
		h.provider.wantNoRequests(t)
	})
	prove(t, "S-564", "which a gateway of no deployment serves", func(t *testing.T) { ask(h.gateway, outside).wantOK(t) })
	prove(t, "S-564", "one of all workspaces serves those of its organisation alone", func(t *testing.T) {
		all, _ := h.root(t, "POST", "/v1/deployments", `{"name":"All"}`)["client_auth"].(string)
		theirs, _ := h.as(t, h.claim(t), "POST", "/v1/api-keys/workspace/service", `{"name":"t","workspace_id":"default","scopes":["completions.write"]}`).wantOK(t).object(t)["key"].(string)
		h.eventually(t, theirs)
		g := launchFor(t, "version: 1\n", show(all)...)
		ask(g, inside).wantOK(t)
		ask(g, outside).wantOK(t)
		ask(g, theirs).refused(t, http.StatusForbidden)
	})
	prove(t, "S-564", "one that is inactive serves nobody", func(t *testing.T) {
		h.root(t, "PUT", "/v1/deployments/eu", `{"status":"inactive"}`)
		waittest.Until(t, "its keys are refused", func() bool { return ask(g, inside).status == http.StatusForbidden })
	})
	prove(t, "S-564", "the secret of no deployment ends the start", func(t *testing.T) {
		if g, err := launch("version: 1\n", show("mg-of-no-deployment")...); err == nil {
			g.stop()
			t.Error("it starts")
		} else if !strings.Contains(err.Error(), "MODELGATE_DEPLOYMENT_SECRET") {
			t.Error(err)
		}
	})
}

func TestModelsThatAreNotEnabledAreRefused(t *testing.T) {
	h := populate(t)
	h.root(t, "POST", "/v1/integrations", `{"name":"I","slug":"some","ai_provider_id":"openai-compatible","key":"`+storedKey+`","configurations":{"custom_host":"`+h.provider.url+`"}}`)
	h.root(t, "PUT", "/v1/integrations/some/models", `{"allow_all_models":false,"models":[{"slug":"good","enabled":true}]}`)
	for model, want := range map[string]int{"good": 200, "bad": 403} {
		prove(t, "S-426", "a managed provider and the model "+model, func(t *testing.T) {
			body, _ := json.Marshal(map[string]any{"model": model, "messages": []map[string]string{{"role": "user", "content": "hi"}}})
			h.provider.forget()
			got := h.do(t, "POST", "/v1/chat/completions", string(body), "x-gateway-api-key", bootstrapKey, "x-gateway-provider", "@some")
			if want == 200 {
				got.wantOK(t)
				return
			}
			got.refused(t, want)
			h.provider.wantNoRequests(t)
		})
	}
}
