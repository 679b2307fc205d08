package routing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/upstream"
)

// fault is a row of the matrix: what the first target suffers.
type fault struct {
	name   string
	form   string // of the simulator
	spare  string // what the second target suffers; empty is nothing
	slug   string // of the first target; empty is the simulator's
	config string // further properties of the config
	alone  bool   // on connections of its own, which it leaves with bytes that nobody asked for
	hangs  bool   // until a limit of time ends it
}

// faults are those of the matrix that a provider can show to a gateway. A slow
// client, a clock that jumps, a full disk and a killed process are tested
// where they can be made: in dataplane, upstream, logstore and cmd.
var faults = []fault{
	{name: "S00 none"},
	{name: "S01 429 with Retry-After", form: "status=429+retry-after=2"},
	{name: "S02 429 for ever", form: "status=429"},
	{name: "S03 one 500", form: "status=500+times=1"},
	{name: "S04 503 for ever", form: "status=503"},
	{name: "S05 reset before headers", form: "reset"},
	{name: "S06 accepts, never answers", form: "hang", hangs: true},
	{name: "S07 first token too late", form: "first=20s", hangs: true},
	{name: "S08 cut at 40 of 60", form: "tokens=60+size=4+cut=40"},
	{name: "S08 cut, ended cleanly", form: "tokens=60+size=4+cut=40,clean"},
	{name: "S09 stall in the middle", form: "stall=20s@5", hangs: true},
	{name: "S10 one malformed event", form: "malformed=3"},
	{name: "S11 no [DONE]", form: "no-done"},
	{name: "S12 context too long", form: "context-length"},
	{name: "S13 content filter", form: "content-filter"},
	{name: "S14 cut, continued", form: "cut=5", config: `"stream_continuation":true`},
	{name: "S14 cut, no prefill taken", form: "cut=5", spare: "no-prefill", config: `"stream_continuation":true`},
	{name: "S14 cut, spare fails too", form: "cut=5", spare: "status=400", config: `"stream_continuation":true`},
	{name: "S17 forged second answer", form: "smuggle", alone: true},
	{name: "S17 two lengths", form: "duplicate-length"},
	{name: "S17 length too long", form: "length=%2B10"},
	{name: "S18 gzip bomb", form: "gzip-bomb"},
	{name: "S19 huge answer", form: "huge=2MB"},
	{name: "S22 untrusted certificate", slug: "untrusted"},
	{name: "S23 name gone", slug: "gone"},
	{name: "S27 HTML with 200", form: "html"},
	{name: "S27 HTML with 502", form: "html-error=502"},
	{name: "S28 103 first", form: "early-hints"},
	{name: "S29 JSON for a stream", form: "json-for-stream"},
	{name: "S29 a stream for JSON", form: "sse-for-json"},
	{name: "S30 a shared quota", form: "quota=1@shared", spare: "quota=1@shared"},
	{name: "error event in the stream", form: "error-event=3"},
	{name: "error event at first", form: "error-event=1"},
	{name: "a redirect", form: "redirect=http://127.0.0.1:1/"},
	{name: "404 model not found", form: "model-not-found"},
	{name: "529 overloaded", form: "status=529"},
}

// ways are the ways of routing: the config around a first and a second target.
var ways = []struct{ name, config string }{
	{"single", `{"strategy":{"mode":"single"},%s"targets":[%s,%s]}`},
	{"retry", `{"strategy":{"mode":"single"},"retry":{"attempts":1},%s"targets":[%s,%s]}`},
	{"fallback", `{"strategy":{"mode":"fallback"},%s"targets":[%s,%s]}`},
	{"balance", `{"strategy":{"mode":"loadbalance"},%s"targets":[%s,%s]}`},
}

// matrixLimits are short for faults that only a limit of time ends. Others have a
// minute, so that a busy machine does not end them first.
func matrixLimits(hangs bool) string {
	limit := time.Minute
	if hangs {
		limit = 4 * time.Second
	}
	return fmt.Sprintf("timeouts: {header: %[1]v, first_token: %[1]v, idle: %[1]v}\nlimits: {event: 1 MB}\n", limit)
}

// noNames is a resolver that knows no name.
type noNames struct{}

func (noNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: "gone.example.com", IsNotFound: true}
}

// matrix is the gateway of the matrix.
type matrix struct{ *gatewaytest.Gateway }

func newMatrix(t *testing.T, hangs bool) *matrix {
	t.Helper()
	tls := httptest.NewUnstartedServer(http.NotFoundHandler())
	tls.Config.ErrorLog = log.New(io.Discard, "", 0)
	tls.StartTLS()
	t.Cleanup(tls.Close)
	at := func(slug, host string) snapshot.ManagedProvider {
		return snapshot.ManagedProvider{Slug: slug, Provider: "openai-compatible", Settings: provider.Settings{CustomHost: host}}
	}
	return &matrix{gatewaytest.New(t, gatewaytest.Options{
		Settings:  matrixLimits(hangs),
		Simulator: recorder.Options{Record: 2000},
		Managed:   []snapshot.ManagedProvider{at("untrusted", tls.URL+"/v1"), at("gone", "https://gone.example.com/v1")},
		Reach:     upstream.Options{Resolver: noNames{}},
	})}
}

// cell is one case of the matrix and its result.
type cell struct {
	first, second string // model names, which the simulator counts by
	res           gatewaytest.Response
	entry         map[string]any
}

func TestFaultMatrix(t *testing.T) {
	steady, hanging := newMatrix(t, false), newMatrix(t, true)
	slots := make([]string, len(faults)*len(ways)*2)
	t.Run("cells", func(t *testing.T) {
		for i, f := range faults {
			for j, way := range ways {
				for k, stream := range []bool{false, true} {
					slot := &slots[(i*len(ways)+j)*2+k]
					t.Run(fmt.Sprintf("%s/%s/stream=%t", f.name, way.name, stream), func(t *testing.T) {
						t.Parallel()
						g := steady
						switch {
						case f.alone:
							g = newMatrix(t, f.hangs)
						case f.hangs:
							g = hanging
						}
						id := fmt.Sprintf("m%d-%d-%d", i, j, k)
						c := g.run(t, f, way.config, id, stream)
						*slot = fmt.Sprintf("%-26s %-8s %s", f.name, way.name, g.summary(t, c, stream))
					})
				}
			}
		}
	})
	golden(t, "testdata/matrix.txt", matrixHead+strings.Join(slots, "\n")+"\n")
	steady.sameBodies(t)
	hanging.sameBodies(t)
}

const matrixHead = `fault                      way      body   answer         calls  by                retries recorded as
`

// asked is what the client sends in every cell.
const asked = `[{"role":"user","content":"Count to ten."}]`

// run sends one request the given way.
func (g *matrix) run(t *testing.T, f fault, way, id string, stream bool) cell {
	t.Helper()
	model := func(place, form string) string {
		if form == "" {
			return id + place
		}
		return id + place + "+" + strings.ReplaceAll(form, "@shared", "@"+id)
	}
	c := cell{first: model("a", f.form), second: model("b", f.spare)}
	if f.spare != "" && strings.Contains(f.form, "@shared") { // use the quota up
		g.Post("/chat/completions", fmt.Sprintf(`{"model":%q,"messages":%s}`, model("q", f.form), asked))
	}
	slug := "simulator"
	if f.slug != "" {
		slug = f.slug
	}
	more := ""
	if f.config != "" {
		more = f.config + ","
	}
	config := fmt.Sprintf(way, more,
		fmt.Sprintf(`{"provider":"@%s","weight":1,"override_params":{"model":%q}}`, slug, c.first),
		fmt.Sprintf(`{"provider":"@simulator","weight":0,"override_params":{"model":%q}}`, c.second))
	body := fmt.Sprintf(`{"model":"asked","messages":%s}`, asked)
	if stream {
		body = fmt.Sprintf(`{"model":"asked","stream":true,"stream_options":{"include_usage":true},"messages":%s}`, asked)
	}
	c.res = g.Post("/chat/completions", body, "x-gateway-provider", "", "x-gateway-config", config)
	c.entry = g.Entry(c.res)
	return c
}

// summary is the line of a cell in the golden file, after checking what holds
// in every cell.
func (g *matrix) summary(t *testing.T, c cell, stream bool) string {
	t.Helper()
	first, second := g.Sim.Calls(c.first), g.Sim.Calls(c.second)
	by, _ := c.entry["option_index"].(string)
	attempts := c.entry["attempts"].([]any)
	reached := 0
	for _, a := range attempts {
		if a.(map[string]any)["slug"] == "simulator" {
			reached++
		}
	}
	if reached != first+second {
		t.Errorf("%d attempts are recorded and %d calls came", reached, first+second)
	}
	if said := c.res.Header.Get("x-gateway-last-used-option-index"); !strings.HasPrefix(by, "config.targets[") || said != by && !strings.Contains(string(c.res.Body), "continued by "+by) {
		t.Errorf("recorded as answered by %q, the header says %q", by, said)
	}
	kind := "plain"
	if stream {
		kind = "stream"
	}
	return fmt.Sprintf("%-6s %d %-10s %d+%d/%d  %-18s %2s      %s", kind, c.res.Status, ending(t, c.res), first, second, len(attempts),
		strings.TrimPrefix(by, "config."), c.res.Header.Get("x-gateway-retry-attempt-count"), g.recorded(t, c, by))
}

// recorded tells how the exchange is in the log. Tokens are recorded once:
// as many as the provider that answered says it served.
func (g *matrix) recorded(t *testing.T, c cell, by string) string {
	t.Helper()
	text := fmt.Sprint(c.entry["status"])
	if e, failed := c.entry["error"].(map[string]any); failed {
		text += fmt.Sprintf(" %v %v", e["source"], e["code"])
	}
	usage, counted := c.entry["usage"].(map[string]any)
	if !counted {
		return text + ", no tokens"
	}
	if c.entry["usage_estimated"] == true {
		return text + ", tokens estimated"
	}
	model := c.first
	if by == "config.targets[1]" {
		model = c.second
	}
	served := g.Sim.Served().Models[model]
	uncounted := strings.Contains(c.first, "cut=") || strings.Contains(c.first, "huge=") // by the simulator, as it says them
	if got := fmt.Sprint(usage["completion_tokens"]); got != fmt.Sprint(served.Completion) && !uncounted {
		t.Errorf("%s tokens are recorded and %d were served by %s", got, served.Completion, model)
	}
	return text + fmt.Sprintf(", %v tokens", usage["completion_tokens"])
}

// ending is how the client's answer ended: a whole JSON body, or a stream that
// is done, ends in an error, or breaks off.
func ending(t *testing.T, res gatewaytest.Response) string {
	t.Helper()
	text := strings.ReplaceAll(strings.TrimSpace(string(res.Body)), "\r", "")
	events := strings.Split(text, "\n\n")
	last := strings.TrimPrefix(events[len(events)-1], "data: ")
	switch {
	case res.Err != nil:
		return "broken off"
	case !strings.HasPrefix(text, "data:") && !strings.HasPrefix(text, ":"):
		if !json.Valid(res.Body) {
			t.Errorf("the body is not JSON: %.200s", text)
		}
		return "json"
	case last == "[DONE]":
		return "done"
	case strings.HasPrefix(last, `{"error":`) && json.Valid([]byte(last)):
		return "error"
	}
	t.Errorf("a stream without an end: %.200q", last)
	return "?"
}

// sameBodies checks what providers saw: every call of a cell asked what the
// client had asked, with the target's own model, however often it was sent.
func (g *matrix) sameBodies(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	requests := g.Sim.Requests()
	if err := g.Sim.Wait(ctx, len(requests)); err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		var body struct {
			Model    string          `json:"model"`
			Messages json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Errorf("a provider got %q: %v", r.Body, err)
			continue
		}
		continued := bytes.Contains(body.Messages, []byte(`"assistant"`))
		if !strings.HasPrefix(body.Model, "m") || !continued && string(body.Messages) != asked {
			t.Errorf("a provider got %s", r.Body)
		}
		if continued && !bytes.HasPrefix(body.Messages, []byte(strings.TrimSuffix(asked, "]"))) {
			t.Errorf("a continuation does not begin with the conversation: %s", r.Body)
		}
	}
}
