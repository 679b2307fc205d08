package dataplane_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

func TestFeedbackOfHooksIsStoredAsGiven(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"fine"}}})
	config := guarded(`"before_request_hooks":[{"id":"h","checks":[{"id":"default.contains","parameters":{"words":["hi"],"operator":"none"}}],"on_fail":{"feedback":{"value":-2.5,"weight":3,"metadata":{"a":"b","n":12345678901234567890,"deep":{"list":[1,"x",null],"on":true}}}}}]`)
	res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config, "x-gateway-trace-id", "as-given")
	if res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	var list struct {
		Data []struct {
			Value, Weight float64
			Metadata      map[string]json.RawMessage
		}
	}
	waittest.Until(t, "the feedback is stored", func() bool {
		return json.Unmarshal(g.Get("/feedback?trace_id=as-given").Body, &list) == nil && len(list.Data) == 1
	})
	f := list.Data[0]
	got := map[string]string{}
	for _, name := range []string{"a", "n", "deep"} {
		got[name] = string(f.Metadata[name])
	}
	want := map[string]string{"a": `"b"`, "n": "12345678901234567890", "deep": `{"list":[1,"x",null],"on":true}`}
	if diff := cmp.Diff(want, got); diff != "" || f.Value != -2.5 || f.Weight != 3 {
		t.Errorf("value %v, weight %v, metadata: %s", f.Value, f.Weight, diff)
	}
	scores := g.Get("/analytics/graphs/feedbacks/scores")
	if res := scores.JSON(t); scores.Status != 200 || at(res, "data_points.0.score") != -2.5 {
		t.Errorf("scores: %d %s", scores.Status, scores.Body)
	}
	res = g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config",
		guarded(`"before_request_hooks":[{"id":"h","checks":[{"id":"default.contains","parameters":{"words":["hi"]}}],"on_fail":{"feedback":{"value":1e300}}}]`))
	if e := errorOf(t, string(res.Body)); res.Status != 400 || e["code"] != "AB01" {
		t.Errorf("a value that cannot be added up: %d %s", res.Status, res.Body)
	}
}
