package dataplane_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// oneEndpoint is a provider with an endpoint that refuses some requests.
type oneEndpoint struct {
	sim     http.Handler
	path    string // of the endpoint that refuses
	status  int
	body    string
	refuses func(body string) bool // nil refuses all

	mu    sync.Mutex
	paths []string // of the requests
}

// newOneEndpoint returns a gateway in front of the provider.
func newOneEndpoint(t *testing.T, u *oneEndpoint) *gatewaytest.Gateway {
	t.Helper()
	u.sim = simulator.New(simulator.Options{})
	return gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: `providers:
  - {slug: chat, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: other, provider: openai, custom_host: SIMULATOR, api_key: "${SECOND_KEY}"}
`})
}

func (u *oneEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := new(strings.Builder)
	u.mu.Lock()
	u.paths = append(u.paths, r.URL.Path)
	u.mu.Unlock()
	if r.URL.Path == u.path {
		buf := make([]byte, 64<<10)
		for n, err := 0, error(nil); err == nil; {
			n, err = r.Body.Read(buf)
			body.Write(buf[:n])
		}
		if u.refuses == nil || u.refuses(body.String()) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(u.status)
			fmt.Fprint(w, u.body)
			return
		}
		r.Body = http.NoBody
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`)
		return
	}
	u.sim.ServeHTTP(w, r)
}

// took returns the paths of the requests since the last call.
func (u *oneEndpoint) took() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	paths := u.paths
	u.paths = nil
	return paths
}

func notChat(model string) string {
	return fmt.Sprintf(`{"error":{"message":"This model is only supported in v1/responses and not in v1/chat/completions. (%s)","type":"invalid_request_error","param":"model","code":null}}`, model)
}

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
)

// Which endpoint gets a request follows from the provider's rows for the model:
// the client's own where the model has it, otherwise the preferred one.
func TestModelDecidesWhichEndpointIsCalled(t *testing.T) {
	t.Parallel()
	u := &oneEndpoint{}
	g := newOneEndpoint(t, u)
	for _, tt := range []struct {
		model                string
		chat, responses, all string // the paths for clients of chat, of responses, and of the others
	}{
		{"gpt-4o", chatPath, responsesPath, chatPath},
		{"gpt-5.6-sol", chatPath, responsesPath, responsesPath},
		{"gpt-5-codex", responsesPath, responsesPath, responsesPath},
		{"o3-pro", responsesPath, responsesPath, responsesPath},
		{"gpt-4o-search-preview", chatPath, chatPath, chatPath},
		{"our-model", chatPath, responsesPath, chatPath},
	} {
		for _, client := range clientFormats[:5] {
			for _, stream := range []bool{false, true} {
				want := tt.all
				switch client.name {
				case "chat":
					want = tt.chat
				case "responses":
					want = tt.responses
				}
				res := client.send(t, g, "@chat", tt.model, stream)
				h := client.readResponse(t, res)
				if got := u.took(); !slices.Equal(got, []string{want}) || h.end != "complete" && h.end != "done" || !strings.Contains(h.text, "hello") {
					t.Errorf("%s for a client of %s, stream %t: called %v, want %s; it reads %+v", tt.model, client.name, stream, got, want, h)
				}
			}
		}
	}
}

// A provider that says that another endpoint serves the model is asked there,
// once; later requests go there at once. Other credentials are not affected.
func TestRefusedEndpointIsReplacedOnceAndRemembered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, other string
		status            int
		body              string
	}{
		{"only responses", chatPath, responsesPath, 404, notChat("m")},
		{"not a chat model", chatPath, responsesPath, 404, `{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?","type":"invalid_request_error","param":"model","code":null}}`},
		{"a code", chatPath, responsesPath, 400, `{"error":{"message":"model \"m\" is not accessible via the /chat/completions endpoint","code":"unsupported_api_for_model"}}`},
		{"an operation", chatPath, responsesPath, 400, `{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model, m. Please choose different model and try again."}}`},
		{"only chat", responsesPath, chatPath, 400, `{"error":{"message":"The requested model 'm' cannot be used with the Responses API.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`},
		{"no such path", responsesPath, chatPath, 404, `{"detail":"Not Found"}`},
		{"no such method", responsesPath, chatPath, 405, `method not allowed`},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %t", tt.name, stream), func(t *testing.T) {
				u := &oneEndpoint{path: tt.path, status: tt.status, body: tt.body}
				g := newOneEndpoint(t, u)
				client := clientFormats[0]
				if tt.path == responsesPath {
					client = clientFormats[2]
				}
				for i, want := range [][]string{{tt.path, tt.other}, {tt.other}} {
					res := client.send(t, g, "@chat", "m", stream)
					h := client.readResponse(t, res)
					if got := u.took(); !slices.Equal(got, want) || h.end != "complete" && h.end != "done" || !strings.Contains(h.text, "hello") {
						t.Fatalf("request %d called %v, want %v; the client reads %+v", i, got, want, h)
					}
				}
				client.send(t, g, "@chat", "another-model", stream)
				client.send(t, g, "@other", "m", stream)
				if got, want := u.took(), []string{tt.path, tt.other, tt.path, tt.other}; !slices.Equal(got, want) {
					t.Errorf("another model and another credential called %v, want %v", got, want)
				}
			})
		}
	}
}

// The log has both attempts, the dry run plans what is sent next.
func TestReplacedEndpointIsSeenInLogAndDryRun(t *testing.T) {
	t.Parallel()
	u := &oneEndpoint{path: chatPath, status: 404, body: notChat("m")}
	g := newOneEndpoint(t, u)
	res := clientFormats[0].send(t, g, "@chat", "m", false)
	if attempts, _ := at(g.Entry(res), "attempts").([]any); len(attempts) != 2 {
		t.Errorf("the entry has %d attempts, want 2", len(attempts))
	}
	explained := g.Post("/explain", `{"request":{"method":"POST","path":"/v1/chat/completions","headers":{"x-gateway-provider":"@chat"},"body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}}`)
	if !strings.Contains(string(explained.Body), `"url":"`+responsesPath) {
		t.Errorf("the dry run plans %s, want a request to %s", explained.Body, responsesPath)
	}
}

// Models that refuse function tools in chat keep chat for requests without.
func TestEndpointRefusedForToolsIsKeptWithoutTools(t *testing.T) {
	t.Parallel()
	u := &oneEndpoint{path: chatPath, status: 400,
		body:    `{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.","type":"invalid_request_error","param":"reasoning_effort","code":null}}`,
		refuses: func(body string) bool { return strings.Contains(body, `"tools"`) },
	}
	g := newOneEndpoint(t, u)
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	for i, tt := range []struct {
		tools string
		want  []string
	}{
		{"", []string{chatPath}},
		{tools, []string{chatPath, responsesPath}},
		{tools, []string{responsesPath}},
		{"", []string{chatPath}},
	} {
		res := g.Post("/chat/completions", `{"model":"gpt-5.6-sol","reasoning_effort":"low","messages":[{"role":"user","content":"hello"}]`+tt.tools+`}`, "x-gateway-provider", "@chat")
		if got := u.took(); res.Status != 200 || !slices.Equal(got, tt.want) {
			t.Errorf("request %d: status %d, called %v, want %v: %s", i, res.Status, got, tt.want, res.Body)
		}
	}
}

// An error that the other endpoint does not cure is the one that the client
// gets, and nothing is remembered.
func TestErrorOfTheFirstEndpointIsKeptIfTheOtherFails(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use v1/completions?","type":"invalid_request_error","param":"model","code":null}}`
	both := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(404)
		if r.URL.Path == chatPath {
			fmt.Fprint(w, body)
			return
		}
		fmt.Fprint(w, `{"error":{"message":"The requested model 'm' cannot be used with the Responses API.","type":"invalid_request_error","param":"model","code":null}}`)
	})
	u := &oneEndpoint{}
	g := newOneEndpoint(t, u)
	u.sim = both
	for range 2 {
		res := clientFormats[0].send(t, g, "@chat", "m", false)
		if got, want := u.took(), []string{chatPath, responsesPath}; !slices.Equal(got, want) {
			t.Errorf("called %v, want %v", got, want)
		}
		if said := str(at(res.JSON(t), "error.message")); res.Status != 404 || !strings.Contains(said, "not a chat model") {
			t.Errorf("status %d, message %q, want the first endpoint's", res.Status, said)
		}
	}
	// This cannot be sent in chat: the error stays that of responses.
	res := g.Post("/responses", `{"model":"m","prompt":{"id":"pmpt_1"},"input":"hi"}`, "x-gateway-provider", "@chat")
	if said := str(at(res.JSON(t), "error.message")); res.Status != 404 || !strings.Contains(said, "Responses API") {
		t.Errorf("status %d, message %q, want that of responses", res.Status, said)
	}
}

// Other errors say nothing of endpoints.
func TestOtherErrorsDoNotChangeTheEndpoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		body   string
	}{
		{404, `{"error":{"message":"The model 'm' does not exist or you do not have access to it.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`},
		{400, `{"detail":"Not Found"}`},
		{429, notChat("m")},
		{500, notChat("m")},
	} {
		u := &oneEndpoint{path: chatPath, status: tt.status, body: tt.body}
		g := newOneEndpoint(t, u)
		res := clientFormats[0].send(t, g, "@chat", "m", false)
		if got := u.took(); res.Status != tt.status || !slices.Equal(got, []string{chatPath}) {
			t.Errorf("%d %s: status %d, called %v, want one request", tt.status, tt.body, res.Status, got)
		}
	}
}
