package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// rows are the rows of the recordings' providers. Those that have no row, or
// speak another protocol on their own paths, are reached as any compatible host.
var rows = map[string]string{
	"alibaba": "dashscope", "azure": "azure-openai", "bedrock-mantle": "bedrock-mantle", "cerebras": "cerebras",
	"crusoe": "crusoe", "deepseek": "deepseek", "gemini": "openai-compatible", "groq": "groq",
	"heroku": "openai-compatible", "huggingface": "huggingface", "mistral": "mistral-ai", "moonshot": "moonshot",
	"ollama": "ollama", "openai": "openai", "openai-compatible": "openai-compatible", "openrouter": "openrouter",
	"perplexity": "perplexity-ai", "snowflake": "cortex", "together": "together-ai", "vllm": "vllm",
	"voyage": "voyage", "writer": "writer", "xai": "x-ai", "zai": "z-ai",
}

// options fill the placeholders of the rows' addresses.
var options = map[string]string{"resource_name": "example-resource", "region": "us-east-1", "account": "example-account"}

// unifiedPaths are the routes of the recorded APIs.
var unifiedPaths = map[string]string{
	"chat-completions": "/chat/completions", "completions": "/completions", "embeddings": "/embeddings", "images": "/images/generations",
}

// unifiedPath is the route of x, empty where its protocol is another.
func (x *exchange) unifiedPath() string {
	if x.API == "chat" && x.Provider == "writer" { // whose path alone is its own
		return unifiedPaths["chat-completions"]
	}
	return unifiedPaths[x.API]
}

func TestRecordingsGoThroughUnifiedRoutesUnchanged(t *testing.T) {
	tapes := mustTapes(t, allAPIs...)
	for run, c := range []cut{{"cut at random", 0}, {"byte by byte", 1 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlayer(t, tapes, c)
			g := gatewaytest.New(t, gatewaytest.Options{Reach: p.reach(), Managed: managedRows(t), Settings: prices()})
			var played sink
			counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
				if x.unifiedPath() == "" {
					return nil
				}
				res := x.unified(t, g, p, run)
				if x.refusal() == "" {
					played.add(x, res)
				}
				return res
			})
			report(t, counts)
			if counts["chat-completions"] < 270 || counts["completions"] < 20 || counts["embeddings"] < 20 {
				t.Errorf("exchanges played: %v, want all of the recordings", counts)
			}
			checkBooks(t, g, played.entries)
		})
	}
}

// managedRows returns an entry for each provider, named as in the recordings,
// at the row's own address without TLS.
func managedRows(t *testing.T) []snapshot.ManagedProvider {
	var list []snapshot.ManagedProvider
	for name, id := range rows {
		spec, ok := table.Lookup(id)
		if !ok {
			t.Fatalf("no row %s", id)
		}
		base := spec.BaseURL
		for option, value := range options {
			base = strings.ReplaceAll(base, "{"+option+"}", value)
		}
		if base == "" {
			base = "https://" + name + ".recorded.com/v1"
		}
		list = append(list, snapshot.ManagedProvider{Slug: name, Provider: id, Settings: provider.Settings{
			Key: secret.New("recorded-key"), Options: options,
			CustomHost: "http://" + strings.TrimPrefix(base, "https://")}})
	}
	return list
}

// unified sends the exchange through the unified route and compares both ends.
func (x *exchange) unified(t *testing.T, g *gatewaytest.Gateway, p *player, run int) *gatewaytest.Response {
	session := fmt.Sprintf("%d-%d-%d", x.tape, x.n, run)
	path := x.unifiedPath()
	if strings.HasSuffix(x.Request.URL, "/images/edits") {
		path = "/images/edits"
	}
	body, contentType := x.sent()
	req := newRequest(t, http.MethodPost, g.URL+path, body)
	req.Header = http.Header{
		"Content-Type":              {contentType},
		"X-Gateway-Api-Key":         {gatewaytest.Key},
		"X-Gateway-Provider":        {"@" + x.Provider},
		"X-Gateway-Forward-Headers": {"x-replay"},
		"X-Replay":                  {session},
	}
	res := send(t, req)
	if param := x.refusal(); param != "" {
		if !strings.Contains(string(res.Body), `"param":"`+param+`"`) || res.Status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s, want %s refused", x.name, res.Status, res.Body, param)
		}
		return &res
	}
	got, ok := p.request(session)
	if !ok {
		t.Errorf("%s: nothing came to the provider; the client got %d: %.300s", x.name, res.Status, res.Body)
		return &res
	}
	x.compareSent(t, res.Header.Get("X-Gateway-Params"), body, got.body)
	x.compareUnified(t, res)
	return &res
}

// refusal names the parameter for which the gateway refuses the request: a
// limit below its range, and an embedding in a form of the provider's own.
func (x *exchange) refusal() string {
	var body struct {
		MaxTokens *int `json:"max_tokens"`
		Input     any
	}
	sent, _ := x.sent()
	json.Unmarshal(sent, &body)
	switch {
	case body.MaxTokens != nil && *body.MaxTokens < 0:
		return "max_tokens"
	case x.API == "embeddings" && body.Input == nil:
		return "input"
	}
	return ""
}

// compareSent compares the body at the provider with the client's: the same
// bytes, or the same values except for what was announced.
func (x *exchange) compareSent(t *testing.T, announced string, sent, got []byte) {
	if announced == "" {
		if !bytes.Equal(sent, got) {
			t.Errorf("%s: the provider got another body and nothing was announced: %s", x.name, difference(sent, got))
		}
		return
	}
	want := members(t, sent)
	for change := range strings.SplitSeq(announced, ", ") {
		name, what, _ := strings.Cut(change, ";")
		value, ok := want[name]
		if !ok {
			t.Errorf("%s: announced %q of a parameter that was not sent", x.name, change)
		}
		what, arg, _ := strings.Cut(what, "=")
		switch what {
		case "dropped":
			delete(want, name)
		case "renamed":
			delete(want, name)
			want[strings.Trim(arg, `"`)] = value
		case "clamped":
			want[name] = json.Number(arg)
		default:
			t.Errorf("%s: announced %q", x.name, change)
		}
	}
	if diff := cmp.Diff(want, members(t, got)); diff != "" {
		t.Errorf("%s: body at the provider with %s announced (-want +got):\n%s", x.name, announced, diff)
	}
}

func members(t *testing.T, body []byte) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Errorf("body %.200q: %v", body, err)
	}
	return v
}

func (x *exchange) compareUnified(t *testing.T, res gatewaytest.Response) {
	header, body := x.header(), x.body()
	switch {
	case x.Response.Status >= 400:
		x.compareError(t, res)
		return
	case x.streamed():
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
		if x.Provider == "writer" && !bytes.Contains(body, []byte("[DONE]")) { // the others leave it out after errors alone
			body = append(body, terminator...)
		}
	}
	x.compareResponse(t, res, x.Response.Status, header, body)
}

// compareError compares an error: the provider's own, marked as such.
func (x *exchange) compareError(t *testing.T, res gatewaytest.Response) {
	want := members(t, x.body())
	want["provider"], want["provider_slug"] = rows[x.Provider], x.Provider
	want["error"].(map[string]any)["source"] = "provider"
	if diff := cmp.Diff(want, members(t, res.Body)); diff != "" || res.Status != x.Response.Status {
		t.Errorf("%s: status %d, error (-want +got):\n%s", x.name, res.Status, diff)
	}
	header := x.header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(res.Body)))
	if diff := cmp.Diff(header, foreign(res.Header)); diff != "" {
		t.Errorf("%s: header at the client (-want +got):\n%s", x.name, diff)
	}
}

// Each provider of the recordings that speaks the protocol is in the map, so
// that none is left out unseen.
func TestEveryRecordedProviderHasARow(t *testing.T) {
	seen := map[string]int{}
	for _, p := range mustTapes(t, allAPIs...) {
		for _, x := range p.Exchanges {
			if x.unifiedPath() != "" {
				seen[x.Provider]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if _, ok := rows[name]; !ok {
			t.Errorf("%d exchanges of %s have no row", seen[name], name)
		}
	}
	t.Logf("%d providers", len(seen))
}
