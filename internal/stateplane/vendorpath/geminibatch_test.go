package vendorpath_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

const geminiRequest = `{"request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}}`

// inlineBatch is the body of a batch with n requests.
func inlineBatch(n int) string {
	return `{"batch":{"displayName":"d","inputConfig":{"requests":{"requests":[` + strings.Repeat(geminiRequest+",", n-1) + geminiRequest + `]}}}}`
}

// createGemini creates a batch and returns its name.
func createGemini(t *testing.T, g *gatewaytest.Gateway, model, body string) string {
	t.Helper()
	return mustAsk(t, g, "POST", "/v1beta/models/"+model+":batchGenerateContent", body)["name"].(string)
}

// uploadGemini uploads a file of Gemini, and returns its name.
func uploadGemini(t *testing.T, g *gatewaytest.Gateway, content string) string {
	t.Helper()
	file := mustAsk(t, g, "POST", "/upload/v1beta/files", content, "X-Goog-Upload-Protocol", "raw", "Content-Type", "application/jsonl")["file"]
	return file.(map[string]any)["name"].(string)
}

// awaitGemini returns a batch once it is done.
func awaitGemini(t *testing.T, g *gatewaytest.Gateway, name string) (b map[string]any) {
	t.Helper()
	waittest.Until(t, "the end of the batch", func() bool {
		b = mustAsk(t, g, "GET", "/v1beta/"+name, "")
		return b["done"] == true
	})
	return b
}

// settlement is what batches were settled with.
type settlement struct {
	tokens float64  // of their inputs
	cost   *float64 // US cents; nil if that of one is unknown
}

// settled waits for the entries of n batches in the log, and returns their sum.
func settled(t *testing.T, g *gatewaytest.Gateway, provider string, n int) (sum settlement) {
	t.Helper()
	waittest.Until(t, "the settlements in the log", func() bool {
		found := 0
		sum = settlement{cost: new(float64)}
		for _, v := range mustAsk(t, g, "GET", "/v1/logs?operation=batches&provider="+provider, "")["data"].([]any) {
			e := v.(map[string]any)
			use, ok := e["usage"].(map[string]any)
			if !ok {
				continue
			}
			found++
			input, _ := use["prompt_tokens"].(float64)
			sum.tokens += input
			if cost, priced := e["cost"].(float64); !priced {
				sum.cost = nil
			} else if sum.cost != nil {
				*sum.cost += cost
			}
		}
		if found > n {
			t.Fatalf("%d settlements of %d batches", found, n)
		}
		return found == n
	})
	return sum
}

// budgetKey returns the key of a budget of tokens, once it is known.
func budgetKey(t *testing.T, g *gatewaytest.Gateway, tokens int) string {
	t.Helper()
	made := g.Post("/api-keys/workspace/service", fmt.Sprintf(`{"name":"b","workspace_id":"default","scopes":["completions.write"],"usage_limits":[{"type":"tokens","credit_limit":%d}]}`, tokens), "x-gateway-provider", "")
	key, ok := made.JSON(t)["key"].(string)
	if !ok {
		t.Fatalf("%s", made.Body)
	}
	waittest.Until(t, "the key is known", func() bool {
		return ask(g, "GET", "/v1beta/batches", "", "x-gateway-api-key", key).Status == 200
	})
	return key
}

// TestBatchesOfGeminiAreSettledOnce has one with its requests in the body, which is deleted
// before it is settled, and one with a file, whose keys are all the same.
func TestBatchesOfGeminiAreSettledOnce(t *testing.T) {
	g := start(t)
	one := createGemini(t, g, "gemini-2.5-flash", inlineBatch(1))
	b := awaitGemini(t, g, one)
	if text, _ := json.Marshal(b["response"]); !strings.Contains(string(text), "inlinedResponses") {
		t.Errorf("%v", b)
	}
	mustAsk(t, g, "DELETE", "/v1beta/"+one, "")
	if res := ask(g, "GET", "/v1beta/"+one, ""); res.Status != 404 {
		t.Errorf("deleted: %d %s", res.Status, res.Body)
	}
	single := settled(t, g, "google", 1).tokens

	line := `{"key":"k",` + geminiRequest[1:] + "\n"
	two := createGemini(t, g, "gemini-2.5-flash", fmt.Sprintf(`{"batch":{"display_name":"d","input_config":{"file_name":%q}}}`, uploadGemini(t, g, line+line)))
	b = awaitGemini(t, g, two)
	results, _ := b["response"].(map[string]any)["responsesFile"].(string)
	if res := ask(g, "GET", "/v1beta/"+results+":download?alt=media", ""); res.Status != 200 || bytes.Count(res.Body, []byte("\n")) != 2 {
		t.Errorf("results: %d %s", res.Status, res.Body)
	}
	list, _ := json.Marshal(mustAsk(t, g, "GET", "/v1beta/batches", ""))
	if !strings.Contains(string(list), two) || strings.Contains(string(list), one) {
		t.Errorf("list: %s", list)
	}
	if both := settled(t, g, "google", 2).tokens; single == 0 || both != 3*single {
		t.Errorf("a request has %v tokens, and three have %v", single, both)
	}
}

// TestBatchesOfGeminiBelongToAWorkspace asks with the key of another workspace.
func TestBatchesOfGeminiBelongToAWorkspace(t *testing.T) {
	g := start(t)
	key := other(t, g)
	file := uploadGemini(t, g, `{"key":"k",`+geminiRequest[1:]+"\n")
	name := createGemini(t, g, "gemini-2.5-flash", inlineBatch(1))
	for _, provider := range []string{"", "@gem"} {
		h := []string{"x-gateway-api-key", key, "x-gateway-provider", provider}
		for _, route := range []string{"GET /v1beta/ID", "DELETE /v1beta/ID", "POST /v1beta/ID:cancel"} {
			method, path, _ := strings.Cut(route, " ")
			foreign := ask(g, method, strings.Replace(path, "ID", name, 1), "", h...)
			unknown := ask(g, method, strings.Replace(path, "ID", "batches/none", 1), "", h...)
			if foreign.Status != 404 || !bytes.Equal(foreign.Body, unknown.Body) {
				t.Errorf("%s: %d %s, an unknown one: %s", route, foreign.Status, foreign.Body, unknown.Body)
			}
		}
		for _, body := range []string{
			`{"batch":{"displayName":"d","inputConfig":{"fileName":"NAME"}}}`,
			`{"batch":{"displayName":"d","inputConfig":{"file\u004eame":"files/none","fileName":"NAME"}}}`,
			`{"batch":{"displayName":"d","inputConfig":{"requests":{"requests":[{"request":{"contents":[{"parts":[{"fileData":{"fileUri":"https://x/v1beta/NAME"}}]}]}}]}}}}`,
		} {
			foreign := ask(g, "POST", "/v1beta/models/sim:batchGenerateContent", strings.Replace(body, "NAME", file, 1), h...)
			unknown := ask(g, "POST", "/v1beta/models/sim:batchGenerateContent", strings.Replace(body, "NAME", "files/none", 1), h...)
			if foreign.Status != 404 || !bytes.Equal(foreign.Body, unknown.Body) {
				t.Errorf("%s: %d %s, an unknown one: %s", body, foreign.Status, foreign.Body, unknown.Body)
			}
		}
		if list, _ := json.Marshal(mustAsk(t, g, "GET", "/v1beta/batches", "", h...)); strings.Contains(string(list), name) {
			t.Errorf("list: %s", list)
		}
	}
	hanging := createGemini(t, g, "sim+job=hang", inlineBatch(1))
	mustAsk(t, g, "POST", "/v1beta/"+hanging+":cancel", "")
	if b := awaitGemini(t, g, hanging); b["metadata"].(map[string]any)["state"] != "BATCH_STATE_CANCELLED" {
		t.Errorf("%v", b)
	}
}

// TestBatchesOfGeminiAreRefusedWhereTheyMustFitIntoABudget has a key with a budget, and one
// without.
func TestBatchesOfGeminiAreRefusedWhereTheyMustFitIntoABudget(t *testing.T) {
	g := startWith(t, gatewaytest.Options{Settings: "batches: {over_budget: refuse}\n"})
	key := budgetKey(t, g, 500)
	path := "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
	if res := ask(g, "POST", path, inlineBatch(1), "x-gateway-api-key", key); res.Status != 400 || !strings.Contains(string(res.Body), "a budget binds this key") {
		t.Errorf("with a budget: %d %s", res.Status, res.Body)
	}
	createGemini(t, g, "gemini-2.5-flash", inlineBatch(1))
}
