package dataplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// generator draws requests and configs. Equal seeds draw the same ones.
type generator struct{ *rand.Rand }

func one[T any](g generator, of ...T) T { return of[g.IntN(len(of))] }

// leaf draws a config node that calls a target. Some fail: for an unknown provider,
// or a model that is not allowed.
func (g generator) leaf() map[string]any {
	leaf := map[string]any{"provider": one(g, "@simulator", "@simulator", "@messages", "@gemini", "@cohere", "@some", "@nobody")}
	if g.IntN(3) == 0 {
		leaf["override_params"] = one[any](g, map[string]any{"model": "sim-2"}, map[string]any{"model": "good"},
			map[string]any{"temperature": 0.25, "top_k": 3}, map[string]any{"max_tokens": 7}, map[string]any{"user": "u"})
	}
	switch g.IntN(6) {
	case 0:
		leaf["strict_vendora_compliance"] = g.IntN(2) == 0
	case 1:
		leaf["default_params"] = map[string]any{"seed": 4, "model": "sim-3"}
	case 2:
		leaf["drop_params"] = []string{"temperature", "metadata"}
	case 3:
		leaf["on_unsupported"] = one(g, "refuse", "drop")
	}
	return leaf
}

// node draws a config tree whose choice does not depend on chance.
func (g generator) node(depth int) map[string]any {
	if depth == 0 || g.IntN(3) == 0 {
		return g.leaf()
	}
	var targets []map[string]any
	for i := range 1 + g.IntN(3) {
		child := g.node(depth - 1)
		child["name"] = fmt.Sprint("t", i)
		targets = append(targets, child)
	}
	last := fmt.Sprint("t", len(targets)-1)
	switch g.IntN(4) {
	case 0:
		return map[string]any{"strategy": map[string]any{"mode": "fallback"}, "targets": targets}
	case 1:
		for _, child := range targets {
			child["weight"] = 0
		}
		targets[g.IntN(len(targets))]["weight"] = 1
		return map[string]any{"strategy": map[string]any{"mode": "loadbalance"}, "targets": targets}
	case 2:
		return map[string]any{"strategy": map[string]any{"mode": "single"}, "targets": targets[:1]}
	}
	return map[string]any{"targets": targets, "strategy": map[string]any{"mode": "conditional", "default": "t0", "conditions": []any{
		map[string]any{"query": map[string]any{"metadata.plan": map[string]any{"$eq": "pro"}}, "then": last},
	}}}
}

// request draws a path, a body for it with the text, and headers.
func (g generator) request(text string) (path, body string, headers map[string]string) {
	var more strings.Builder
	for _, field := range []string{`"temperature":0.5`, `"top_p":0.9`, `"seed":7`, `"metadata":{"a":"b"}`, `"stop":["x"]`, one(g, `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`, `"tools":[{"type":"custom","custom":{"name":"f"}}]`), `"response_format":{"type":"json_object"}`, `"logit_bias":{"1":1}`} {
		if g.IntN(4) == 0 {
			more.WriteString("," + field)
		}
	}
	model := one(g, "sim-1", "good", "bad", "@some/good", "@some/bad", "@nobody/m")
	switch g.IntN(5) {
	case 0:
		path, body = "/v1/messages", fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":%q}]}`, model, text)
	case 1:
		path, body = "/v1/responses", fmt.Sprintf(`{"model":%q,"input":%q}`, model, text)
	case 2:
		path, body = "/v1/embeddings", fmt.Sprintf(`{"model":%q,"input":[%q,"b"]}`, model, text)
	default:
		path, body = "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":%q}]%s}`, model, text, more.String())
	}
	if g.IntN(6) == 0 {
		body = strings.Replace(body, fmt.Sprintf(`"model":%q,`, model), "", 1)
	}
	headers = map[string]string{}
	if g.IntN(2) == 0 {
		headers["x-gateway-metadata"] = one(g, `{"plan":"pro"}`, `{"plan":"free"}`)
	}
	return path, body, headers
}

// TestDryRunPlansWhatServingSends explains and sends generated requests. Both must
// end alike, and the planned upstream request must be the one that the first
// provider received.
func TestDryRunPlansWhatServingSends(t *testing.T) {
	t.Parallel()
	sim := recorder.New(recorder.Options{Record: 4})
	upstream := httptest.NewServer(sim)
	defer upstream.Close()
	managed := func(slug, id, path string, rules *snapshot.ModelRules) snapshot.ManagedProvider {
		return snapshot.ManagedProvider{Slug: slug, Provider: id, Rules: rules, Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: upstream.URL + path}}
	}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: sim, Managed: []snapshot.ManagedProvider{
		managed("messages", "anthropic", "", nil),
		managed("gemini", "google", "", nil),
		managed("cohere", "cohere", "", nil),
		managed("some", "openai-compatible", "/v1", &snapshot.ModelRules{Models: provider.NewModelList(false, []string{"good"}, nil)}),
	}})
	const rounds = 400
	sent, refused := 0, 0
	for seed := range uint64(rounds) {
		draw := generator{rand.New(rand.NewPCG(seed, 20))}
		text := fmt.Sprintf("request %d.", seed)
		path, body, headers := draw.request(text)
		config, _ := json.Marshal(draw.node(2))
		headers["x-gateway-config"] = string(config)
		if planned, err := compareDryRun(g, sim, question{path, body, text, headers}); err != nil {
			t.Fatalf("seed %d: %v\n%s %s\nconfig %s", seed, err, path, body, config)
		} else if planned {
			sent++
		} else {
			refused++
		}
	}
	if sent < rounds/4 || refused < rounds/10 {
		t.Errorf("%d requests were sent and %d refused: the generator shows too little", sent, refused)
	}
}

// question is a request. Its text is in no other.
type question struct {
	path, body, text string
	headers          map[string]string
}

// requestsWith returns the recorded requests whose body has the text.
func requestsWith(sim *recorder.Recorder, text string) []recorder.Request {
	return slices.DeleteFunc(sim.Requests(), func(r recorder.Request) bool { return !bytes.Contains(r.Body, []byte(text)) })
}

// compareDryRun explains a request, sends it, and returns how the two differ.
// Planned reports whether the dry run ended with an upstream request.
func compareDryRun(g *gatewaytest.Gateway, sim *recorder.Recorder, q question) (planned bool, err error) {
	asked, _ := json.Marshal(map[string]any{"request": map[string]any{"path": q.path, "headers": q.headers, "body": json.RawMessage(q.body)}})
	res := g.Post("/explain", string(asked), "x-gateway-provider", "")
	if res.Status != http.StatusOK {
		return false, fmt.Errorf("explain returned %d: %s", res.Status, res.Body)
	}
	var plan struct {
		Status  int
		Error   json.RawMessage
		Attempt *struct {
			Method, URL string
			Body        any
		}
	}
	if err := json.Unmarshal(res.Body, &plan); err != nil {
		return false, err
	}
	sim.Reset()
	list := []string{"x-gateway-provider", ""}
	for name, value := range q.headers {
		list = append(list, name, value)
	}
	real := g.Post(strings.TrimPrefix(q.path, "/v1"), q.body, list...)
	if plan.Attempt == nil {
		if received := requestsWith(sim, q.text); len(received) != 0 || real.Status != plan.Status {
			return false, fmt.Errorf("planned as status %d %s, and is %d %s after %d upstream requests", plan.Status, plan.Error, real.Status, real.Body, len(received))
		}
		var want, got any
		json.Unmarshal(plan.Error, &want)
		json.Unmarshal(real.Body, &got)
		if !reflect.DeepEqual(got, want) {
			return false, fmt.Errorf("planned error %s, got %s", plan.Error, real.Body)
		}
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	received := requestsWith(sim, q.text)
	for n := 1; len(received) == 0; n++ { // the simulator records a request after its response
		if sim.Wait(ctx, n) != nil {
			return true, fmt.Errorf("planned %s, and nothing was sent: %d %s", plan.Attempt.URL, real.Status, real.Body)
		}
		received = requestsWith(sim, q.text)
	}
	first := received[0]
	var got any
	if err := json.Unmarshal(first.Body, &got); err != nil {
		return true, err
	}
	if first.Method != plan.Attempt.Method || first.URI != plan.Attempt.URL || !reflect.DeepEqual(got, plan.Attempt.Body) {
		wanted, _ := json.Marshal(plan.Attempt.Body)
		return true, fmt.Errorf("planned %s %s %s, and %s %s %s was sent", plan.Attempt.Method, plan.Attempt.URL, wanted, first.Method, first.URI, first.Body)
	}
	return true, nil
}
