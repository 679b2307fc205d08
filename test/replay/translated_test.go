package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// foreignAPIs are the recorded APIs that a client of the chat protocol reaches
// translated.
var foreignAPIs = []string{"messages", "responses", "generate-content", "stream-generate-content", "converse", "converse-stream", "chat-v2", "chat"}

// foreignRow is the row that x is reached by, in the protocol of its response.
// Providers that have a path of the chat protocol too get a row without it.
func (x *exchange) foreignRow() string {
	switch {
	case readings[x.API] == nil || x.Provider == "writer": // whose API of that name is the chat protocol's
		return ""
	case x.API == "responses" || x.API == "chat":
		return "recorded-" + x.API
	}
	return map[string]string{"anthropic": "anthropic", "bedrock": "bedrock", "gemini": "google", "vertex": "vertex-ai", "cohere": "cohere"}[x.Provider]
}

// ownSpecs are rows of single paths.
func ownSpecs() []*provider.Spec {
	return []*provider.Spec{
		{ID: "recorded-responses", Name: "Recorded", Dialect: api.DialectResponses, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.Responses: "/responses"}},
		{ID: "recorded-chat", Name: "Recorded", Dialect: api.DialectOllama, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.OllamaChat: "/api/chat"}},
	}
}

// newForeign returns a gateway that reaches p by each of the rows.
func newForeign(t *testing.T, p *player) *gatewaytest.Gateway {
	o := gatewaytest.Options{Reach: p.reach(), Specs: ownSpecs(), Settings: quiet}
	for _, id := range []string{"anthropic", "bedrock", "google", "vertex-ai", "cohere", "recorded-responses", "recorded-chat"} {
		o.Managed = append(o.Managed, snapshot.ManagedProvider{Slug: id, Provider: id, Settings: provider.Settings{
			Key: secret.New("recorded-key"), CustomHost: "http://provider.recorded.com",
			Options: map[string]string{"region": "us-east-1", "project_id": "recorded-project"}}})
	}
	return gatewaytest.New(t, o)
}

// A client of the chat protocol gets what the provider said: compared with a
// reading of the recording that shares nothing with the gateway's.
func TestRecordedResponsesOfEveryProtocolReachClientsOfTheChatProtocol(t *testing.T) {
	tapes := mustTapes(t, foreignAPIs...)
	for run, tt := range []struct {
		name   string
		cut    cut
		strict bool
	}{
		{"strict, cut at random", cut{}, true},
		{"lenient, byte by byte", cut{single: 1 << 20}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlayer(t, tapes, tt.cut)
			g := newForeign(t, p)
			counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
				if x.foreignRow() == "" {
					return nil
				}
				res := x.askTranslated(t, g, fmt.Sprintf("%d-%d-%d", x.tape, x.n, run), tt.strict)
				x.compareTranslated(t, g, res, tt.strict)
				return &res
			})
			report(t, counts)
			for name, least := range map[string]int{"messages": 55, "responses": 75, "generate-content": 140, "stream-generate-content": 14,
				"converse": 55, "converse-stream": 15, "chat-v2": 18, "chat": 2} {
				if counts[name] < least {
					t.Errorf("%d exchanges of %s played, want all %d of the recordings", counts[name], name, least)
				}
			}
		})
	}
}

// streams reports whether the recorded response came as a stream, whatever its
// frames.
func (x *exchange) streams() bool {
	kind := x.Response.Headers["content-type"]
	return x.streamed() || strings.HasPrefix(kind, "application/vnd.amazon.eventstream") || strings.HasPrefix(kind, "application/x-ndjson")
}

// model is the model of the recorded request, of its path or its body.
func (x *exchange) model() string {
	u, _ := url.Parse(x.Request.URL)
	path := u.EscapedPath()
	for _, before := range []string{"/models/", "/model/"} {
		if _, rest, ok := strings.Cut(path, before); ok {
			name, _, _ := strings.Cut(rest, "/")
			name, _, _ = strings.Cut(name, ":")
			name, _ = url.PathUnescape(name)
			return name
		}
	}
	var asked struct{ Model string }
	if json.Unmarshal(x.Request.Body, &asked); asked.Model != "" {
		return asked.Model
	}
	return "recorded-model"
}

func (x *exchange) askTranslated(t *testing.T, g *gatewaytest.Gateway, session string, strict bool) gatewaytest.Response {
	ask := map[string]any{"model": x.model(), "messages": []any{map[string]string{"role": "user", "content": "Hello."}}}
	if x.streams() {
		ask["stream"], ask["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	req := newRequest(t, http.MethodPost, g.URL+"/chat/completions", []byte(jsonText(ask)))
	req.Header = http.Header{
		"Content-Type":              {"application/json"},
		"X-Gateway-Api-Key":         {gatewaytest.Key},
		"X-Gateway-Provider":        {"@" + x.foreignRow()},
		"X-Gateway-Forward-Headers": {"x-replay"},
		"X-Replay":                  {session},

		"X-Gateway-Strict-Vendora-Compliance": {fmt.Sprint(strict)},
	}
	return send(t, req)
}

// compareTranslated compares the client's answer with the recorded one.
func (x *exchange) compareTranslated(t *testing.T, g *gatewaytest.Gateway, res gatewaytest.Response, strict bool) {
	if x.Response.Status >= 400 {
		x.compareForeignError(t, res)
		return
	}
	want, got := readings[x.API](x.frames()), readChat(answered(res))
	if strict {
		want.Thinking = ""
	}
	if len(want.Calls) == len(got.Calls) {
		for i := range want.Calls { // ids are made up where the provider gives none
			if want.Calls[i].ID == "" && got.Calls[i].ID != "" {
				want.Calls[i].ID = got.Calls[i].ID
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || res.Status != x.Response.Status || res.Err != nil {
		t.Errorf("%s: status %d, end %v, answer (-recorded +client):\n%s", x.name, res.Status, res.Err, diff)
	}
	if whole := strings.HasSuffix(string(res.Body), terminator); x.streams() && whole != (got.Failed == "") {
		t.Errorf("%s: the stream ends in %.200q", x.name, res.Body[max(0, len(res.Body)-200):])
	}
	if entry := logged(g.Entry(res)); !cmp.Equal(entry.Usage, want.Usage) {
		t.Errorf("%s: usage in the log %v, want %v", x.name, entry.Usage, want.Usage)
	}
}

// answered are the JSON texts of a response to a client.
func answered(res gatewaytest.Response) []string {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return []string{string(res.Body)}
	}
	var all []string
	for line := range strings.Lines(string(res.Body)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
			all = append(all, data)
		}
	}
	return all
}

// compareForeignError compares an error with the provider's: its status, and
// its message in the client's form, which may begin with who said it.
func (x *exchange) compareForeignError(t *testing.T, res gatewaytest.Response) {
	recorded, got := parse(string(x.body())), parse(string(res.Body))
	message := text(recorded, "error.message") + text(recorded, "message") + text(recorded, "Message")
	if message == "" {
		t.Fatalf("%s: an error without a message: %s", x.name, x.body())
	}
	if res.Status != x.Response.Status || !strings.HasSuffix(text(got, "error.message"), message) || text(got, "error.source") != "provider" {
		t.Errorf("%s: status %d, error %s; want %d and %q", x.name, res.Status, res.Body, x.Response.Status, message)
	}
}
