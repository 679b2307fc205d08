package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// doorRows are the rows that serve clients of the recorded protocol in that
// protocol, and the paths of the routes, below the root, by API. {model} stands
// for the model as it is in the recorded path.
var doorRows = map[string]map[string]string{
	"messages":                {"anthropic": "anthropic"},
	"count-tokens":            {"anthropic": "anthropic"},
	"responses":               {"openai": "openai", "azure": "azure-openai", "bedrock-mantle": "bedrock-mantle", "github-copilot": "github-copilot", "lmstudio": "lm-studio", "openrouter": "openrouter", "xai": "x-ai", "deepseek": "openai-compatible"},
	"generate-content":        {"gemini": "google", "vertex": "vertex-ai"},
	"stream-generate-content": {"gemini": "google", "vertex": "vertex-ai"},
	"converse":                {"bedrock": "bedrock"},
	"converse-stream":         {"bedrock": "bedrock"},
}

var doorPaths = map[string]string{
	"messages":                "/v1/messages",
	"count-tokens":            "/v1/messages/count_tokens",
	"responses":               "/v1/responses",
	"generate-content":        "/v1beta/models/{model}:generateContent",
	"stream-generate-content": "/v1beta/models/{model}:streamGenerateContent",
	"converse":                "/model/{model}/converse",
	"converse-stream":         "/model/{model}/converse-stream",
}

// newDoors returns a gateway that reaches p by every row of doorRows, and the
// responses of those that have no path for them by openai-compatible.
func newDoors(t *testing.T, p *player) *gatewaytest.Gateway {
	o := gatewaytest.Options{Reach: p.reach(), Settings: quiet}
	seen := map[string]bool{}
	for _, providers := range doorRows {
		for _, id := range providers {
			if seen[id] {
				continue
			}
			seen[id] = true
			o.Managed = append(o.Managed, snapshot.ManagedProvider{Slug: id, Provider: id, Settings: provider.Settings{
				Key: secret.New("recorded-key"), CustomHost: "http://provider.recorded.com",
				Options: map[string]string{"region": "us-east-1", "project_id": "recorded-project", "api_version": "v1"}}})
		}
	}
	return gatewaytest.New(t, o)
}

// A client of the provider's own protocol gets its bytes, and the provider gets
// the client's.
func TestRecordingsPassTheirRoutesByteForByte(t *testing.T) {
	tapes := mustTapes(t, "messages", "count-tokens", "responses", "generate-content", "stream-generate-content", "converse", "converse-stream")
	for run, c := range []cut{{"cut at random", 0}, {"byte by byte", 1 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlayer(t, tapes, c)
			g := newDoors(t, p)
			counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
				row := doorRows[x.API][x.Provider]
				if row == "" {
					return nil
				}
				res := x.door(t, g, p, row, fmt.Sprintf("%d-%d-%d", x.tape, x.n, run))
				return &res
			})
			report(t, counts)
			for name, least := range map[string]int{"messages": 57, "count-tokens": 4, "responses": 90, "generate-content": 140,
				"stream-generate-content": 14, "converse": 58, "converse-stream": 16} {
				if counts[name] < least {
					t.Errorf("%d exchanges of %s played, want all %d of the recordings", counts[name], name, least)
				}
			}
		})
	}
}

// doorPath is the path that x is asked by, below the root.
func (x *exchange) doorPath() string {
	path := doorPaths[x.API]
	if !strings.Contains(path, "{model}") {
		return path
	}
	u, _ := url.Parse(x.Request.URL)
	_, name, ok := strings.Cut(u.EscapedPath(), "/models/")
	if !ok {
		_, name, _ = strings.Cut(u.EscapedPath(), "/model/")
	}
	if i := strings.LastIndexAny(name, ":/"); i >= 0 { // before the method
		name = name[:i]
	}
	path = strings.Replace(path, "{model}", name, 1)
	if x.streamed() {
		path += "?alt=sse"
	}
	return path
}

// asked is the recorded request, or one that any provider of the API takes.
func (x *exchange) asked() []byte {
	if x.recorded() {
		return x.Request.Body
	}
	switch x.API {
	case "messages", "count-tokens":
		return fmt.Appendf(nil, `{"model":"recorded-model", "max_tokens":9, "messages":[{"role":"user","content":"Hello."}], "stream":%t}`, x.streams())
	case "responses":
		return fmt.Appendf(nil, `{"model":"recorded-model", "input":"Hello.", "stream":%t}`, x.streams())
	case "converse", "converse-stream":
		return []byte(`{"messages":[{"role":"user", "content":[{"text":"Hello."}]}]}`)
	}
	return []byte(`{"contents":[{"role":"user", "parts":[{"text":"Hello."}]}]}`)
}

func (x *exchange) door(t *testing.T, g *gatewaytest.Gateway, p *player, row, session string) gatewaytest.Response {
	body := x.asked()
	req := newRequest(t, http.MethodPost, g.Root+x.doorPath(), body)
	req.Header = http.Header{
		"Content-Type":              {"application/json"},
		"X-Gateway-Api-Key":         {gatewaytest.Key},
		"X-Gateway-Provider":        {"@" + row},
		"X-Gateway-Forward-Headers": {"x-replay"},
		"X-Replay":                  {session},
	}
	res := send(t, req)
	got, ok := p.request(session)
	if !ok {
		t.Errorf("%s: nothing came to the provider; the client got %d: %.300s", x.name, res.Status, res.Body)
		return res
	}
	if params := res.Header.Get("X-Gateway-Params"); !bytes.Equal(body, got.body) || params != "" {
		t.Errorf("%s: the provider got another body, announced %q: %s", x.name, params, difference(body, got.body))
	}
	if x.Response.Status >= 400 {
		x.compareOwnError(t, res)
		return res
	}
	want := x.body()
	if x.API == "messages" {
		want = nameModel(want, body)
	}
	if res.Status != x.Response.Status || res.Err != nil || !bytes.Equal(res.Body, want) {
		t.Errorf("%s: status %d, end %v, want the provider's bytes: %s", x.name, res.Status, res.Err, difference(want, res.Body))
	}
	if read := readings[x.API]; read != nil && strings.Count(x.Response.Body, "event: message_start") < 2 { // else it holds several answers
		want := read(x.frames()).Usage
		if diff := cmp.Diff(want, logged(g.Entry(res)).Usage); diff != "" {
			t.Errorf("%s: usage in the log (-recorded +got):\n%s", x.name, diff)
		}
	}
	return res
}

// compareOwnError compares an error with the provider's: all that it holds, and
// that it is the provider's.
func (x *exchange) compareOwnError(t *testing.T, res gatewaytest.Response) {
	want, got := members(t, x.body()), members(t, res.Body)
	for name, v := range want {
		if inner, ok := v.(map[string]any); ok {
			for k := range inner {
				if diff := cmp.Diff(inner[k], at(got[name], k)); diff != "" {
					t.Errorf("%s: %s.%s of the error (-want +got):\n%s", x.name, name, k, diff)
				}
			}
			continue
		}
		if diff := cmp.Diff(v, got[name]); diff != "" {
			t.Errorf("%s: %s of the error (-want +got):\n%s", x.name, name, diff)
		}
	}
	if res.Status != x.Response.Status || !strings.Contains(string(res.Body), `"source":"provider"`) {
		t.Errorf("%s: status %d, error %s; want %d of the provider", x.name, res.Status, res.Body, x.Response.Status)
	}
}

// Claude on Bedrock answers clients of the messages protocol in that protocol,
// whose streams it packs into messages of its own.
func TestRecordedInvocationsReachClientsOfTheMessagesProtocol(t *testing.T) {
	tapes := mustTapes(t, "invoke", "invoke-stream")
	p := newPlayer(t, tapes, cut{})
	g := newDoors(t, p)
	counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
		u, _ := url.PathUnescape(x.Request.URL)
		var asked map[string]any
		json.Unmarshal(x.Request.Body, &asked)
		if !strings.Contains(u, "anthropic.claude") || asked["messages"] == nil {
			return nil
		}
		_, model, _ := strings.Cut(u, "/model/")
		asked["model"] = model[:strings.LastIndex(model, "/")]
		delete(asked, "anthropic_version") // which the host wants and the route's clients don't send
		if asked["stream"] = x.streams(); asked["max_tokens"] == nil {
			return nil
		}
		req := newRequest(t, http.MethodPost, g.URL+"/messages", []byte(jsonText(asked)))
		session := fmt.Sprintf("%d-%d-0", x.tape, x.n)
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Gateway-Api-Key": {gatewaytest.Key},
			"X-Gateway-Provider": {"@bedrock"}, "X-Gateway-Forward-Headers": {"x-replay"}, "X-Replay": {session}}
		res := send(t, req)
		got, _ := p.request(session)
		if diff := cmp.Diff(members(t, x.Request.Body), members(t, got.body)); diff != "" {
			t.Errorf("%s: body at the provider (-recorded +got):\n%s", x.name, diff)
		}
		want, have := x.invoked(), answered(res)
		if len(want) > 0 {
			want[0] = string(nameModel([]byte(want[0]), []byte(jsonText(asked))))
		}
		if diff := cmp.Diff(values(want), values(have)); diff != "" || res.Status != 200 || res.Err != nil {
			t.Errorf("%s: status %d, end %v, answer (-recorded +client):\n%s", x.name, res.Status, res.Err, diff)
		}
		return &res
	})
	report(t, counts)
	if counts["invoke"] < 1 || counts["invoke-stream"] < 1 {
		t.Errorf("exchanges played: %v", counts)
	}
}

// invoked are the JSON texts of a response of InvokeModel: its body, or what the
// chunks of a stream hold in base64.
// nameModel returns a response of messages with the model of its request, which
// clients of that protocol get; see docs/routing.md.
func nameModel(response, request []byte) []byte {
	name := modelMember.FindSubmatch(request)
	at := modelMember.FindSubmatchIndex(response)
	if name == nil || at == nil {
		return response
	}
	return slices.Concat(response[:at[2]], name[1], response[at[3]:])
}

// modelMember matches the first member model of a document; the name has no
// escapes in the recordings.
var modelMember = regexp.MustCompile(`"model"\s*:\s*("[^"]*")`)

func (x *exchange) invoked() []string {
	if x.Response.Base64 == nil {
		return []string{x.Response.Body}
	}
	var all []string
	for _, f := range x.frames() {
		var chunk struct{ Bytes []byte }
		if json.Unmarshal([]byte(f), &chunk) == nil {
			all = append(all, string(chunk.Bytes))
		}
	}
	return all
}

func values(documents []string) (all []any) {
	for _, d := range documents {
		all = append(all, parse(d))
	}
	return all
}
