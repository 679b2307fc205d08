package dataplane_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// arrivals records requests at a provider by method and address.
type arrivals struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (a *arrivals) add(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
}

// taken returns what has arrived since the last call.
func (a *arrivals) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	return list
}

const vendorSettings = `version: 1
files: {unrecorded: pass}
providers:
  - {slug: oa, provider: openai, custom_host: "SIMULATOR/oa", api_key: "${PAIR_KEY}", models: [gpt-4.1, org/m]}
  - {slug: ant, provider: anthropic, custom_host: "SIMULATOR/ant", api_key: "${PAIR_KEY}"}
  - {slug: gem, provider: google, custom_host: "SIMULATOR/gem", api_key: "${PAIR_KEY}"}
  - {slug: vert, provider: vertex-ai, custom_host: "SIMULATOR/vert", api_key: "${PAIR_KEY}", options: {project_id: p, region: r}, models: [gemini-2.5-pro]}
  - {slug: coh, provider: cohere, custom_host: "SIMULATOR/coh", api_key: "${PAIR_KEY}"}
  - {slug: oll, provider: ollama, custom_host: "SIMULATOR/oll"}
`

// newVendors returns a gateway with one provider per vendor, and what arrives
// at them.
func newVendors(t *testing.T, settings string) (*gatewaytest.Gateway, *arrivals) {
	t.Helper()
	seen := new(arrivals)
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.add(r)
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/v1/gem/v1beta/models":
			io.WriteString(w, `{"models":[{"name":"models/gemini-2.5-pro"},{"name":"models/gemini-2.5-flash"}]}`)
		case "/v1/coh/v1/models":
			if r.URL.RawQuery == "page_size=1000" { // 20 without
				io.WriteString(w, `{"models":[{"name":"command-a","endpoints":["chat"]}],"next_page_token":""}`)
				return
			}
			io.WriteString(w, `{"ok":true}`)
		case "/v1/unlisted/models":
			w.WriteHeader(http.StatusNotFound)
		case "/v1/broken/models":
			w.WriteHeader(http.StatusInternalServerError)
		case "/v1/ant/models":
			io.WriteString(w, `{"data":[{"type":"model","id":"claude-sonnet-4-5"}]}`)
		default:
			io.WriteString(w, `{"ok":true}`)
		}
	})
	return gatewaytest.New(t, gatewaytest.Options{Settings: settings, Upstream: up}), seen
}

// send sends a request to a path below the root of g.
func sendTo(t *testing.T, g *gatewaytest.Gateway, method, path, body string, header ...string) gatewaytest.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.Root+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+gatewaytest.Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return g.Do(req)
}

var ofCohere = []string{"X-Fern-SDK-Name", "cohere"}

var ofAnthropic = []string{"anthropic-version", "2023-06-01"}

func TestAModelIsShownInEachDialect(t *testing.T) {
	t.Parallel()
	g, _ := newVendors(t, vendorSettings+`  - {slug: unlisted, provider: openai, custom_host: "SIMULATOR/unlisted", api_key: "${PAIR_KEY}"}
  - {slug: broken, provider: openai, custom_host: "SIMULATOR/broken", api_key: "${PAIR_KEY}"}
`)
	for _, tt := range []struct {
		path   string
		header []string
		status int
		want   map[string]any
	}{
		{"/v1/models/@oa/gpt-4.1", nil, 200, map[string]any{"id": "@oa/gpt-4.1", "object": "model", "owned_by": "openai"}},
		{"/v1/models/%40oa%2Fgpt-4.1", nil, 200, map[string]any{"id": "@oa/gpt-4.1"}},
		{"/v1/models/@oa%2Forg%2Fm", nil, 200, map[string]any{"id": "@oa/org/m"}},
		{"/openai/v1/models/@oa/gpt-4.1", nil, 200, map[string]any{"id": "@oa/gpt-4.1"}},
		{"/v1/models/@gem/gemini-2.5-pro", nil, 200, map[string]any{"id": "@gem/gemini-2.5-pro", "object": "model"}},
		{"/v1/models/@ant/claude-sonnet-4-5", ofAnthropic, 200, map[string]any{"id": "@ant/claude-sonnet-4-5", "type": "model", "display_name": "@ant/claude-sonnet-4-5"}},
		{"/v1beta/models/@oa/gpt-4.1", nil, 200, map[string]any{"name": "models/@oa/gpt-4.1", "displayName": "@oa/gpt-4.1"}},
		{"/v1/models/@oa/gpt-9", nil, 404, map[string]any{"error.code": "model_not_found", "error.param": "model"}},
		{"/v1/models/@gem/gpt-9", nil, 404, map[string]any{"error.code": "model_not_found", "error.param": "model"}},
		{"/v1/models/@gem/gpt-9", ofAnthropic, 404, map[string]any{"type": "error", "error.type": "not_found_error"}},
		{"/v1beta/models/@gem/gpt-9", nil, 404, map[string]any{"error.code": 404.0, "error.status": "NOT_FOUND"}},
		{"/v1/models/@nobody/m", nil, 404, map[string]any{"error.code": "unknown_slug"}},
		{"/v1/models/gpt-4.1", nil, 404, map[string]any{"error.code": "model_not_found"}},
		{"/v1beta/models/gemini-2.5-pro", nil, 404, map[string]any{"error.status": "NOT_FOUND"}},
		{"/v1/models/@coh/command-a", nil, 200, map[string]any{"id": "@coh/command-a", "object": "model"}},
		{"/v1/models/@unlisted/m", ofAnthropic, 501, map[string]any{"type": "error"}},
		{"/v1beta/models/@unlisted/m", nil, 501, map[string]any{"error.status": "UNIMPLEMENTED"}},
		{"/v1/models/@unlisted/m", nil, 501, map[string]any{"error.param": "model", "error.code": "unsupported_operation"}},
		{"/v1/models/@broken/m", nil, 502, map[string]any{"error.param": "model"}},
		{"/v1/models?limit=0", ofAnthropic, 400, map[string]any{"type": "error", "error.type": "invalid_request_error"}},
		{"/v1beta/models?pageSize=x", nil, 400, map[string]any{"error.status": "INVALID_ARGUMENT"}},
		{"/v1beta/models?pageToken=x", nil, 400, map[string]any{"error.status": "INVALID_ARGUMENT"}},
	} {
		t.Run(tt.path+strings.Join(tt.header, " "), func(t *testing.T) {
			res := sendTo(t, g, http.MethodGet, tt.path, "", tt.header...)
			v := res.JSON(t)
			if res.Status != tt.status {
				t.Fatalf("status %d, want %d: %s", res.Status, tt.status, res.Body)
			}
			for at, want := range tt.want {
				if got := v[at]; strings.Contains(at, "error.") {
					key := strings.TrimPrefix(at, "error.")
					if got := v["error"].(map[string]any)[key]; got != want {
						t.Errorf("%s = %v, want %v: %s", at, got, want, res.Body)
					}
				} else if got != want {
					t.Errorf("%s = %v, want %v: %s", at, got, want, res.Body)
				}
			}
		})
	}
}

func TestAKeySeesOnlyTheModelsOfItsProviders(t *testing.T) {
	t.Parallel()
	const narrow = "mg-narrow-0123456789abcdef0123"
	g, seen := newVendors(t, strings.Replace(vendorSettings, "providers:", fmt.Sprintf("keys:\n  - {name: narrow, sha256: %x, providers: [oa]}\nproviders:", sha256.Sum256([]byte(narrow))), 1))
	for path, want := range map[string]int{"/v1/models/@oa/gpt-4.1": 200, "/v1/models/@gem/gemini-2.5-pro": 403, "/v1beta/models/@ant/claude-sonnet-4-5": 403} {
		if res := sendTo(t, g, http.MethodGet, path, "", "Authorization", "Bearer "+narrow); res.Status != want {
			t.Errorf("%s: status %d, want %d: %s", path, res.Status, want, res.Body)
		}
	}
	if got := seen.taken(); len(got) > 0 {
		t.Errorf("asked %q for models that the key may not see", got)
	}
}

func TestGeminiClientsListModelsPageByPage(t *testing.T) {
	t.Parallel()
	g, _ := newVendors(t, vendorSettings)
	var names []string
	query := "?pageSize=2"
	for range 10 {
		res := sendTo(t, g, http.MethodGet, "/v1beta/models"+query, "")
		var page struct {
			Models []struct{ Name string }
			Next   string `json:"nextPageToken"`
		}
		if err := json.Unmarshal(res.Body, &page); err != nil || res.Status != 200 || len(page.Models) > 2 {
			t.Fatalf("status %d, %v: %s", res.Status, err, res.Body)
		}
		for _, m := range page.Models {
			names = append(names, m.Name)
		}
		if page.Next == "" {
			break
		}
		query = "?pageSize=2&pageToken=" + strings.ReplaceAll(page.Next, "/", "%2F")
	}
	want := []string{"models/@oa/gpt-4.1", "models/@oa/org/m", "models/@ant/claude-sonnet-4-5", "models/@gem/gemini-2.5-pro", "models/@gem/gemini-2.5-flash", "models/@vert/gemini-2.5-pro", "models/@coh/command-a"}
	if !slices.Equal(names, want) {
		t.Errorf("models %q, want %q", names, want)
	}
}

// A request on a vendor's own path goes to the provider of that vendor, with
// its complete path and unchanged.
func TestVendorsOwnPathsPassThroughToTheirProvider(t *testing.T) {
	t.Parallel()
	g, seen := newVendors(t, vendorSettings)
	for _, tt := range []struct {
		method, path, body string
		header             []string
		want               string
	}{
		{"GET", "/v1beta/files?pageSize=5", "", nil, "GET /v1/gem/v1beta/files?pageSize=5"},
		{"GET", "/v1beta/files/abc", "", nil, "GET /v1/gem/v1beta/files/abc"},
		{"DELETE", "/v1beta/files/abc", "", nil, "DELETE /v1/gem/v1beta/files/abc"},
		{"GET", "/v1beta/files/abc:download?alt=media", "", nil, "GET /v1/gem/v1beta/files/abc:download?alt=media"},
		{"POST", "/upload/v1beta/files", `{"file":{}}`, nil, `POST /v1/gem/upload/v1beta/files {"file":{}}`},
		{"GET", "/v1beta/models", "", []string{"x-gateway-provider", "@gem"}, "GET /v1/gem/v1beta/models"},
		{"GET", "/v1beta/models/gemini-2.5-pro", "", []string{"x-gateway-provider", "@gem"}, "GET /v1/gem/v1beta/models/gemini-2.5-pro"},
		{"POST", "/v1beta/@gem/gemini-2.5-pro:countTokens", `{"contents":[{"parts":[{"text":"hi"}]}]}`, nil, `POST /v1/gem/v1beta/models/gemini-2.5-pro:countTokens {"contents":[{"parts":[{"text":"hi"}]}]}`},
		{"POST", "/v1beta/%40gem/gemini-2.5-pro:countTokens", `{"contents":[{"parts":[{"text":"hi"}]}]}`, nil, `POST /v1/gem/v1beta/models/gemini-2.5-pro:countTokens {"contents":[{"parts":[{"text":"hi"}]}]}`},
		{"GET", "/v1/models/gpt-4.1", "", []string{"x-gateway-provider", "@oa"}, "GET /v1/oa/models/gpt-4.1"},
		{"GET", "/v1/files", "", ofAnthropic, "GET /v1/ant/files"},
		{"DELETE", "/v1/files/abc", "", ofAnthropic, "DELETE /v1/ant/files/abc"},
		{"GET", "/v1/files/abc/content", "", ofAnthropic, "GET /v1/ant/files/abc/content"},
		{"GET", "/v1/files", "", append(slices.Clone(ofAnthropic), "x-gateway-provider", "@oa"), "GET /v1/oa/files"},
		{"POST", "/v2/chat", `{"model":"command-a","messages":[]}`, nil, `POST /v1/coh/v2/chat {"model":"command-a","messages":[]}`},
		{"POST", "/v2/chat", `{"model":"@coh/command-a","messages":[]}`, nil, `POST /v1/coh/v2/chat {"model":"command-a","messages":[]}`},
		{"POST", "/v2/embed", `{"model":"embed-4","texts":[]}`, nil, `POST /v1/coh/v2/embed {"model":"embed-4","texts":[]}`},
		{"POST", "/v2/rerank", `{"model":"rerank"}`, nil, `POST /v1/coh/v2/rerank {"model":"rerank"}`},
		{"POST", "/v1/chat", `{"model":"@coh/command-a","message":"hi"}`, nil, `POST /v1/coh/v1/chat {"model":"command-a","message":"hi"}`},
		{"POST", "/v1/embed", `{"model":"@coh/embed-4","texts":[]}`, nil, `POST /v1/coh/v1/embed {"model":"embed-4","texts":[]}`},
		{"POST", "/v1/tokenize", `{"model":"command-a","text":"hi"}`, []string{"x-gateway-provider", "@coh"}, `POST /v1/coh/v1/tokenize {"model":"command-a","text":"hi"}`},
		{"GET", "/v1/models?page_size=2", "", []string{"x-gateway-provider", "@coh"}, "GET /v1/coh/v1/models?page_size=2"},
		{"GET", "/v1/datasets/a%2Fb?", "", []string{"x-gateway-provider", "@coh"}, "GET /v1/coh/v1/datasets/a%2Fb?"},
		{"POST", "/v1/v1/classify", `{}`, []string{"x-gateway-provider", "@coh"}, "POST /v1/coh/v1/classify {}"},
		{"POST", "/v1/v2/datasets", `{}`, []string{"x-gateway-provider", "@coh"}, "POST /v1/coh/v2/datasets {}"},
		{"POST", "/v1/compatibility/v1/chat/completions", `{}`, []string{"x-gateway-provider", "@coh"}, "POST /v1/coh/compatibility/v1/chat/completions {}"},
		{"POST", "/api/chat", `{"model":"llama3"}`, nil, `POST /v1/oll/api/chat {"model":"llama3"}`},
		{"POST", "/api/chat", `{"model":"@oll/llama3"}`, nil, `POST /v1/oll/api/chat {"model":"llama3"}`},
		{"POST", "/api/generate", `{"model":"llama3"}`, nil, `POST /v1/oll/api/generate {"model":"llama3"}`},
		{"GET", "/api/tags", "", nil, "GET /v1/oll/api/tags"},
		{"POST", "/api/pull", `{"model":"@oll/llama3"}`, nil, `POST /v1/oll/api/pull {"model":"llama3"}`},
		{"DELETE", "/api/delete", `{"model":"llama3"}`, nil, `DELETE /v1/oll/api/delete {"model":"llama3"}`},
		{"POST", "/api/copy", `{"source":"a","destination":"b"}`, nil, `POST /v1/oll/api/copy {"source":"a","destination":"b"}`},
		{"POST", "/api/create", `{"model":"b","from":"a"}`, nil, `POST /v1/oll/api/create {"model":"b","from":"a"}`},
		{"POST", "/api/push", `{"model":"b"}`, nil, `POST /v1/oll/api/push {"model":"b"}`},
		{"POST", "/api/blobs/sha256:0a", "weights", []string{"Content-Type", "application/octet-stream"}, "POST /v1/oll/api/blobs/sha256:0a weights"},
		{"POST", "/v1/api/pull", `{"model":"llama3"}`, []string{"x-gateway-provider", "@oll"}, `POST /v1/oll/api/pull {"model":"llama3"}`},
		{"POST", "/v2/batches", `{}`, nil, "POST /v1/coh/v2/batches {}"},
		{"POST", "/v2/batches/b1:cancel", "", nil, "POST /v1/coh/v2/batches/b1:cancel"},
		{"POST", "/v2/parse", `{}`, nil, "POST /v1/coh/v2/parse {}"},
		{"POST", "/v1/chat", `{"message":"hi"}`, ofCohere, `POST /v1/coh/v1/chat {"message":"hi"}`},
		{"POST", "/v1/detokenize", `{"model":"@coh/m","tokens":[1]}`, ofCohere, `POST /v1/coh/v1/detokenize {"model":"m","tokens":[1]}`},
		{"GET", "/v1/datasets/usage", "", ofCohere, "GET /v1/coh/v1/datasets/usage"},
		{"DELETE", "/v1/connectors/c1", "", ofCohere, "DELETE /v1/coh/v1/connectors/c1"},
		{"GET", "/v1/models?page_size=2", "", ofCohere, "GET /v1/coh/v1/models?page_size=2"},
		{"GET", "/v1/models/command-a", "", ofCohere, "GET /v1/coh/v1/models/command-a"},
		{"GET", "/v1/models/@coh/command-a", "", ofCohere, "GET /v1/coh/v1/models/command-a"},
		{"GET", "/v1/models/%40coh%2Fa%20b-ft", "", ofCohere, "GET /v1/coh/v1/models/a%20b-ft"},
		{"GET", "/v1/models/m", "", append([]string{"x-gateway-provider", "@oa"}, ofCohere...), "GET /v1/oa/models/m"},
		{"GET", "/openai/v1/assistants", "", []string{"x-gateway-provider", "@oa"}, "GET /v1/oa/assistants"},
	} {
		t.Run(tt.method+" "+tt.path+" "+strings.Join(tt.header, " "), func(t *testing.T) {
			res := sendTo(t, g, tt.method, tt.path, tt.body, tt.header...)
			if got := seen.taken(); res.Status != 200 || len(got) != 1 || got[0] != tt.want {
				t.Errorf("status %d: %s\n got %q\nwant %q", res.Status, res.Body, got, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		text               string
	}{
		{"POST", "/v2/chat", `{"model":"@oa/gpt-4.1"}`, nil, 501, `"unsupported_operation"`},
		{"POST", "/api/chat", `{"model":"@coh/m"}`, nil, 501, `"unsupported_operation"`},
		{"GET", "/v1beta/files", "", []string{"x-gateway-provider", "@vert"}, 501, "UNIMPLEMENTED"},
		{"GET", "/v1beta/models", "", []string{"x-gateway-provider", "@ant"}, 501, "UNIMPLEMENTED"},
		{"GET", "/v1/assistants", "", nil, 400, `"missing_provider"`},
		{"POST", "/v2/nothing", `{}`, nil, 404, "not_found"},
		{"POST", "/v2/chat/completions", `{"model":"@coh/command-a"}`, nil, 404, "not_found"},
		{"GET", "/api/tags/more", ``, nil, 404, "not_found"},
		{"POST", "/api/blobs/", `{}`, nil, 404, "not_found"},
		{"POST", "/api/pull", `{"model":"@coh/m"}`, nil, 501, `"unsupported_operation"`},
		{"GET", "/v1/models/@nobody/m", "", ofCohere, 404, "unknown_slug"},
		{"GET", "/v1/models/@vert/m", "", []string{"X-Fern-SDK-Name", "another"}, 404, "model_not_found"},
		{"POST", "/upload/v1beta/models", `{}`, nil, 404, "not_found"},
		{"PATCH", "/v1beta/files/abc", `{}`, nil, 405, "405"},
		{"GET", "/v1beta/files/..%2fmodels", "", nil, 400, "path"},
	} {
		t.Run(tt.method+" "+tt.path+" "+strings.Join(tt.header, " "), func(t *testing.T) {
			res := sendTo(t, g, tt.method, tt.path, tt.body, tt.header...)
			if got := seen.taken(); res.Status != tt.status || !strings.Contains(string(res.Body), tt.text) || len(got) > 0 {
				t.Errorf("status %d, want %d with %s and nothing sent: %s; sent %q", res.Status, tt.status, tt.text, res.Body, got)
			}
		})
	}
	t.Run("without a key", func(t *testing.T) {
		for _, path := range []string{"/v1beta/files", "/v2/chat", "/api/tags", "/openai/v1/models", "/upload/v1beta/files"} {
			res := sendTo(t, g, http.MethodGet, path, "", "Authorization", "")
			if got := seen.taken(); res.Status != 401 || len(got) > 0 {
				t.Errorf("%s: status %d, sent %q", path, res.Status, got)
			}
		}
	})
}

// The models of an Ollama server belong to everybody who uses it: a key for model
// requests may not change them, by no path that the server reads as one that does.
func TestOnlyKeysThatMayChangeProvidersChangeTheModelsOfOllama(t *testing.T) {
	t.Parallel()
	const plain, may = "mg-plain-0123456789abcdef01234", "mg-may-0123456789abcdef0123456"
	keys := fmt.Sprintf("keys:\n  - {name: plain, sha256: %x, scopes: [completions.write, models.list, providers.read]}\n"+
		"  - {name: may, sha256: %x, scopes: [completions.write, providers.update]}\nproviders:", sha256.Sum256([]byte(plain)), sha256.Sum256([]byte(may)))
	g, seen := newVendors(t, strings.Replace(vendorSettings, "providers:", keys, 1))
	requests := [][2]string{{"POST", "pull"}, {"POST", "push"}, {"POST", "create"}, {"POST", "copy"}, {"DELETE", "delete"}, {"POST", "blobs/sha256:0a"}}
	for _, one := range requests {
		for _, path := range []string{"/api/" + one[1], "/v1/api/" + one[1], "/v1/API/" + one[1], "/v1/api/" + one[1] + "/", "/v1/%61pi/" + one[1], "/v1/api%2F" + one[1]} {
			res := sendTo(t, g, one[0], path, `{"model":"llama3"}`, "Authorization", "Bearer "+plain, "x-gateway-provider", "@oll")
			if got := seen.taken(); res.Status < 400 || res.Status >= 500 || len(got) > 0 {
				t.Errorf("%s: status %d, sent %q: %s", path, res.Status, got, res.Body)
			}
		}
		res := sendTo(t, g, one[0], "/api/"+one[1], `{"model":"llama3"}`, "Authorization", "Bearer "+plain)
		if res.Status != 403 || !strings.Contains(string(res.Body), "providers.update") {
			t.Errorf("%s: status %d: %s, want 403 and the scope", one[1], res.Status, res.Body)
		}
		config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@oll"},{"provider":"@coh"}]}`
		res = sendTo(t, g, one[0], "/v1/api/"+one[1], `{"model":"llama3"}`, "Authorization", "Bearer "+plain, "x-gateway-config", config)
		for _, got := range seen.taken() {
			if strings.Contains(got, "/oll/") {
				t.Errorf("%s with a config: status %d, sent %q", one[1], res.Status, got)
			}
		}
		res = sendTo(t, g, one[0], "/api/"+one[1], `{"model":"llama3"}`, "Authorization", "Bearer "+may)
		if got := seen.taken(); res.Status != 200 || len(got) != 1 {
			t.Errorf("%s with the scope: status %d, sent %q: %s", one[1], res.Status, got, res.Body)
		}
	}
	if res := sendTo(t, g, "POST", "/api/show", `{"model":"llama3"}`, "Authorization", "Bearer "+plain); res.Status != 200 || len(seen.taken()) != 1 {
		t.Errorf("reading: status %d: %s", res.Status, res.Body)
	}
}

func TestAVendorPathWithSeveralProvidersNamesThem(t *testing.T) {
	t.Parallel()
	g, seen := newVendors(t, vendorSettings+`  - {slug: gem2, provider: google, custom_host: "SIMULATOR/gem2", api_key: "${PAIR_KEY}"}
`)
	res := sendTo(t, g, http.MethodGet, "/v1beta/files", "")
	if got := seen.taken(); res.Status != 400 || !strings.Contains(string(res.Body), "@gem, @gem2") || len(got) > 0 {
		t.Errorf("status %d: %s; sent %q", res.Status, res.Body, got)
	}
	res = sendTo(t, g, http.MethodGet, "/v1beta/files", "", "x-gateway-provider", "@gem2")
	if got := seen.taken(); res.Status != 200 || fmt.Sprint(got) != "[GET /v1/gem2/v1beta/files]" {
		t.Errorf("status %d: %s; sent %q", res.Status, res.Body, got)
	}
}
