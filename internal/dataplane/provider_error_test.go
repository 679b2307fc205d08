package dataplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// failingGateway has a provider that answers everything with the error that the
// function asks for. The function returns what a client reads of it.
func failingGateway(t *testing.T) func(client clientFormat, target string, status int, body string) (said string, res gatewaytest.Response) {
	t.Helper()
	var status int
	var body string
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})})
	return func(client clientFormat, target string, withStatus int, withBody string) (string, gatewaytest.Response) {
		status, body = withStatus, withBody
		res := client.send(t, g, "@"+target, "m", false)
		return client.readResponse(t, res).message, res
	}
}

// The text of an error says which part of a request is wrong, often at its end.
func TestProviderErrorsKeepTheirText(t *testing.T) {
	t.Parallel()
	fail := failingGateway(t)
	long := strings.Repeat("schema ", 583) + "the end" // 4 KB
	for _, client := range clientFormats {
		for _, tt := range []struct{ name, body, want string }{
			{"4 KB", `{"message":"` + long + `"}`, long},
			{"4 KB of text", long, long},
			{"all entries of a list", `{"detail":[{"loc":["body","messages",0,"content"],"msg":"Field required","type":"missing"},{"loc":["body","max_tokens"],"msg":"Input should be a valid integer","type":"int_parsing"}]}`,
				"body.messages.0.content: Field required; body.max_tokens: Input should be a valid integer"},
			{"a list without places", `{"errors":[{"message":"first"},{"message":"second"},"third"]}`, "first; second; third"},
		} {
			target := "cohere"
			if said, res := fail(client, target, 422, tt.body); res.Status != 422 || !strings.Contains(said, tt.want) {
				t.Errorf("%s, %s: status %d, the client reads %q, want %.200q in it", client.name, tt.name, res.Status, said, tt.want)
			}
		}
	}
}

// Google says in the body how long to wait.
func TestRetryInfoBecomesRetryAfter(t *testing.T) {
	t.Parallel()
	fail := failingGateway(t)
	const quota = `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.Help","links":[]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"%s"}]}}`
	for _, client := range clientFormats[:5] {
		for delay, want := range map[string]string{"34.074824224s": "35", "2s": "2", "0.5s": "1", "-1s": "", "1e999s": "", "99999999999999999999s": "", "soon": "", "3600s": "3600", "9223372036s": "9223372036"} {
			body := fmt.Sprintf(quota, delay)
			if _, res := fail(client, "gemini", 429, body); res.Status != 429 || res.Header.Get("Retry-After") != want {
				t.Errorf("%s: %s became status %d, Retry-After %q, want %q", client.name, delay, res.Status, res.Header.Get("Retry-After"), want)
			}
		}
		if _, res := fail(client, "gemini", 429, "["+fmt.Sprintf(quota, "3s")+"]"); res.Header.Get("Retry-After") != "3" {
			t.Errorf("%s: a list became Retry-After %q, want 3", client.name, res.Header.Get("Retry-After"))
		}
	}
}

// A provider's 404 for a model reads the same to the clients of a dialect,
// regardless of the sender.
func TestModelOfAProviderThatIsNotFound(t *testing.T) {
	t.Parallel()
	fail := failingGateway(t)
	codes := map[string]string{"chat": "error.code", "messages": "error.code", "responses": "error.code", "gemini": "error.details.0.reason", "converse": "reason", "invoke": "reason"}
	native := map[string][2]string{"messages": {"error.type", "not_found_error"}, "gemini": {"error.status", "NOT_FOUND"}, "converse": {"__type", "ResourceNotFoundException"}, "invoke": {"__type", "ResourceNotFoundException"}}
	for _, tt := range []struct {
		target, body string
		found        bool
	}{
		{"chat", `{"error":{"message":"The model 'm' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, false},
		{"chat", `{"object":"error","message":"The model m does not exist.","type":"NotFoundError","param":null,"code":404}`, false},
		{"chat", `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, false},
		{"chat", `{"error":"model 'm' not found"}`, false},
		{"messages", `{"type":"error","error":{"type":"not_found_error","message":"model: m"},"request_id":"r"}`, false},
		{"gemini", `{"error":{"code":404,"message":"models/m is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`, false},
		{"converse", `{"message":"Could not resolve the foundation model from the provided model identifier."}`, false},
		{"cohere", `{"message":"model 'm' not found, make sure the correct model ID was used"}`, false},
		{"chat", `{"error":{"message":"Previous response with id 'resp_1' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`, true},
		{"gemini", `{"error":{"code":404,"message":"CachedContent not found (or permission denied)","status":"NOT_FOUND"}}`, true},
		{"converse", `{"message":"No such inference profile"}`, true},
	} {
		for _, client := range clientFormats {
			_, res := fail(client, tt.target, 404, tt.body)
			v := res.JSON(t)
			if client.name == tt.target && client.name == "gemini" { // kept as it is: NOT_FOUND is the dialect's own word
				continue
			}
			if code := str(at(v, codes[client.name])); res.Status != 404 || (code == "model_not_found") == tt.found {
				t.Errorf("%s client, %s said %s: status %d, code %q: %s", client.name, tt.target, tt.body, res.Status, code, res.Body)
			}
			if want, ok := native[client.name]; ok && !tt.found && str(at(v, want[0])) != want[1] {
				t.Errorf("%s client, %s said %s: no %s in %s", client.name, tt.target, tt.body, want[1], res.Body)
			}
		}
	}
}

// Clients of converse repeat a request after InternalServerException only.
func TestInternalErrorsReachConverseClientsAsSuch(t *testing.T) {
	t.Parallel()
	fail := failingGateway(t)
	for target, body := range map[string]string{
		"chat":     `{"error":{"message":"boom","type":"server_error","param":null,"code":null}}`,
		"messages": `{"type":"error","error":{"type":"api_error","message":"boom"}}`,
		"gemini":   `{"error":{"code":500,"message":"boom","status":"INTERNAL"}}`,
		"converse": `{"message":"boom"}`,
	} {
		for _, client := range clientFormats[4:] {
			if _, res := fail(client, target, 500, body); res.Status != 500 || str(res.JSON(t)["__type"]) != "InternalServerException" {
				t.Errorf("%s client at %s: status %d: %s", client.name, target, res.Status, res.Body)
			}
		}
	}
	converse := clientFormats[4]
	for name, response := range map[string]string{
		"chat":     sseOf(providerChoice(0, "a", ""), "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n"),
		"messages": sseOf(messageStart, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\n"),
		"gemini":   sseOf(geminiUsage("a", "", ""), "data: {\"error\":{\"code\":500,\"message\":\"boom\",\"status\":\"INTERNAL\"}}\r\n\r\n"),
	} {
		g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(response)})
		events := binaryData(t, converse.send(t, g, "@"+name, "m", true).Body)
		if last := events[len(events)-1]; at(last, ":type") != "internalServerException" || !strings.Contains(str(at(last, "message")), "boom") {
			t.Errorf("a stream of %s ended in %v", name, last)
		}
	}
}
