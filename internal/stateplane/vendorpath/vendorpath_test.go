package vendorpath_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// start starts a gateway with two providers of the simulator, @claude and @gem, which every
// workspace has: their accounts are the same for all.
func start(t *testing.T) *gatewaytest.Gateway { return startWith(t, gatewaytest.Options{}) }

// startWith is start with options.
func startWith(t *testing.T, o gatewaytest.Options) *gatewaytest.Gateway {
	t.Helper()
	o.MasterKey, o.Data = "vendorpath-master-key-0123456789", t.TempDir()
	g := gatewaytest.New(t, o)
	for slug, kind := range map[string]string{"claude": "anthropic", "gem": "google"} {
		res := g.Post("/integrations", fmt.Sprintf(`{"name":"n","slug":%q,"ai_provider_id":%q,"key":%q,"configurations":{"custom_host":%q}}`,
			slug, kind, gatewaytest.SimulatorKey, g.Upstream))
		if res.Status != 200 {
			t.Fatalf("integration %s: %d %s", slug, res.Status, res.Body)
		}
		res = g.Do(g.Request("PUT", "/integrations/"+slug+"/workspaces", `{"global_workspace_access":{"enabled":true}}`))
		if res.Status != 200 {
			t.Fatalf("grant of %s: %d %s", slug, res.Status, res.Body)
		}
	}
	return g
}

// other returns the key of another workspace.
func other(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	workspace := g.Post("/admin/workspaces", `{"name":"other"}`, "x-gateway-provider", "").JSON(t)["id"]
	made := g.Post("/api-keys/workspace/service", fmt.Sprintf(`{"name":"o","workspace_id":%q,"scopes":["completions.write"]}`, workspace), "x-gateway-provider", "")
	key, ok := made.JSON(t)["key"].(string)
	if !ok {
		t.Fatalf("%s", made.Body)
	}
	waittest.Until(t, "the key and the providers of its workspace are known", func() bool {
		res := g.Do(g.Request("POST", "/messages", `{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
			"x-gateway-provider", "@claude", "x-gateway-api-key", key, "anthropic-version", "2023-06-01"))
		return res.Status == 200
	})
	return key
}

// ask sends a request on a complete path.
func ask(g *gatewaytest.Gateway, method, path, body string, h ...string) gatewaytest.Response {
	r := g.Request(method, "/x", body, append([]string{"x-gateway-provider", "", "anthropic-version", "2023-06-01"}, h...)...)
	u := *r.URL
	u.Path, u.RawQuery, _ = strings.Cut(path, "?")
	r.URL = &u
	return g.Do(r)
}

func mustAsk(t *testing.T, g *gatewaytest.Gateway, method, path, body string, h ...string) map[string]any {
	t.Helper()
	res := ask(g, method, path, body, h...)
	if res.Status != 200 {
		t.Fatalf("%s %s: %d %s", method, path, res.Status, res.Body)
	}
	return res.JSON(t)
}

// uploadFile sends a file as a client of Anthropic does, and returns its id.
func uploadFile(t *testing.T, g *gatewaytest.Gateway, h ...string) string {
	t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="data.csv"`}, "Content-Type": {"text/csv"}})
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte("a,b\n"))
	w.Close()
	id, _ := mustAsk(t, g, "POST", "/v1/files", form.String(), append([]string{"Content-Type", w.FormDataContentType()}, h...)...)["id"].(string)
	return id
}

const batch = `{"requests":[{"custom_id":"one","params":{"model":"sim","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}}]}`

// TestObjectsOfOtherProtocolsBelongToAWorkspace asks with the key of a workspace that has the
// same account of the same provider.
func TestObjectsOfOtherProtocolsBelongToAWorkspace(t *testing.T) {
	g := start(t)
	key := other(t, g)
	file := uploadFile(t, g)
	created := mustAsk(t, g, "POST", "/v1/messages/batches", batch)["id"].(string)
	upload := ask(g, "POST", "/upload/v1beta/files", `{"file":{"displayName":"clip"}}`, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start")
	address := strings.TrimPrefix(upload.Header.Get("X-Goog-Upload-Url"), g.Root)
	raw, _ := mustAsk(t, g, "POST", "/upload/v1beta/files", "content", "X-Goog-Upload-Protocol", "raw", "Content-Type", "text/plain")["file"].(map[string]any)
	name := strings.TrimPrefix(raw["name"].(string), "files/")
	upload1, _, _ := strings.Cut(address, "&gateway_grant=")
	for _, tt := range []struct{ method, path, id, unknown string }{
		{"GET", "/v1/files/ID", file, "file_none"},
		{"GET", "/v1/files/ID/content", file, "file_none"},
		{"DELETE", "/v1/files/ID", file, "file_none"},
		{"GET", "/v1/messages/batches/ID", created, "msgbatch_none"},
		{"GET", "/v1/messages/batches/ID/results", created, "msgbatch_none"},
		{"POST", "/v1/messages/batches/ID/cancel", created, "msgbatch_none"},
		{"DELETE", "/v1/messages/batches/ID", created, "msgbatch_none"},
		{"GET", "/v1beta/files/ID", name, "none"},
		{"GET", "/v1beta/files/ID:download?alt=media", name, "none"},
		{"DELETE", "/v1beta/files/ID", name, "none"},
		{"POST", "ID", upload1, upload1 + "x"},
	} {
		for _, provider := range []string{"", "@claude", "@gem"} {
			h := []string{"x-gateway-api-key", key, "x-gateway-provider", provider, "X-Goog-Upload-Command", "upload, finalize", "X-Goog-Upload-Offset", "0"}
			if provider != "" && strings.Contains(tt.path+tt.id, "beta") != (provider == "@gem") {
				continue
			}
			foreign := ask(g, tt.method, strings.Replace(tt.path, "ID", tt.id, 1), "", h...)
			unknown := ask(g, tt.method, strings.Replace(tt.path, "ID", tt.unknown, 1), "", h...)
			if foreign.Status != 404 || !bytes.Equal(foreign.Body, unknown.Body) {
				t.Errorf("%s %s at %q: %d %s, an unknown one: %s", tt.method, tt.path, provider, foreign.Status, foreign.Body, unknown.Body)
			}
		}
	}
	for _, path := range []string{"/v1/files", "/v1/files?ids=" + file, "/v1/messages/batches", "/v1beta/files"} {
		res := mustAsk(t, g, "GET", path, "", "x-gateway-api-key", key)
		if text, _ := json.Marshal(res); strings.Contains(string(text), file) || strings.Contains(string(text), created) || strings.Contains(string(text), name) {
			t.Errorf("%s of another workspace: %s", path, text)
		}
		own := mustAsk(t, g, "GET", path, "")
		if text, _ := json.Marshal(own); !strings.Contains(string(text), file) && !strings.Contains(string(text), created) && !strings.Contains(string(text), name) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if got := mustAsk(t, g, "POST", address, "content", "X-Goog-Upload-Command", "upload, finalize", "X-Goog-Upload-Offset", "0"); got["file"] == nil {
		t.Errorf("the owner's upload: %v", got)
	}
	for path, id := range map[string]string{"/v1/files/": file, "/v1/messages/batches/": created, "/v1beta/files/": name} {
		if res := ask(g, "GET", path+id, ""); res.Status != 200 {
			t.Errorf("the owner's %s: %d %s", path+id, res.Status, res.Body)
		}
	}
}

// TestOtherSpellingsLeadToNoObject asks for lists in spellings that some servers accept.
func TestOtherSpellingsLeadToNoObject(t *testing.T) {
	g := start(t)
	id := uploadFile(t, g)
	key := other(t, g)
	for _, path := range []string{"/v1/files/", "/v1/Files", "/v1/files;a=b", "/v1/messages/batches/", "/v1/Messages/Batches", "/v1beta/files/"} {
		for _, provider := range []string{"@claude", "@gem"} {
			if res := ask(g, "GET", path, "", "x-gateway-provider", provider, "x-gateway-api-key", key); strings.Contains(string(res.Body), id) {
				t.Errorf("%s at %s: %d %s", path, provider, res.Status, res.Body)
			}
		}
	}
}

// TestListsOfAnthropicHavePages reads lists forwards and backwards while objects come and go.
func TestListsOfAnthropicHavePages(t *testing.T) {
	g := start(t)
	for range 7 {
		uploadFile(t, g)
	}
	page := func(query string) (list []string, more bool, next string) {
		res := mustAsk(t, g, "GET", "/v1/files?"+query, "")
		for _, v := range res["data"].([]any) {
			list = append(list, v.(map[string]any)["id"].(string))
		}
		more, _ = res["has_more"].(bool)
		next, _ = res["next_page"].(string)
		return list, more, next
	}
	ids, _, _ := page("")
	for _, tt := range []struct {
		query string
		want  []string
		more  bool
	}{
		{"limit=3", ids[:3], true},
		{"limit=3&after_id=" + ids[2], ids[3:6], true},
		{"limit=3&after_id=" + ids[5], ids[6:], false},
		{"limit=2&before_id=" + ids[4], ids[2:4], true},
		{"limit=9&before_id=" + ids[4], ids[:4], false},
	} {
		if got, more, _ := page(tt.query); !slices.Equal(got, tt.want) || more != tt.more {
			t.Errorf("%s: %v and more %t, want %v and %t", tt.query, got, more, tt.want, tt.more)
		}
	}
	_, _, next := page("limit=3")
	mustAsk(t, g, "DELETE", "/v1/files/"+ids[1], "")
	uploadFile(t, g)
	if got, _, _ := page("limit=9&page=" + next); !slices.Equal(got, ids[3:]) {
		t.Errorf("after changes the next page is %v, want %v", got, ids[3:])
	}
	for query, param := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "scope_id=x": "scope_id", "after_id=a&before_id=b": "after_id", "after_id=file_none": "after_id"} {
		res := ask(g, "GET", "/v1/files?"+query, "")
		if fault, _ := res.JSON(t)["error"].(map[string]any); res.Status < 400 || fault["param"] != param {
			t.Errorf("%s: %d %s", query, res.Status, res.Body)
		}
	}
}
