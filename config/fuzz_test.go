package config_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"modelgate/config"
)

// FuzzParse looks for text that crashes Parse, that is refused without a fault
// or that is not read back as it was understood.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[`, `null`, leaf(`"name":"x"`),
		`{"provider":"openai","apiKey":"k","weight":1.50,"retry":{"attempts":9,"useRetryAfterHeader":true}}`,
		tree(`{"mode":"conditional","conditions":[{"query":{"metadata.a":{"$not":{"$regex":"a|b"}},"$or":[{"params.n":{"$gt":"1x"}},{"$not":{}}]},"then":"a"}],"default":"a"}`, named),
		tree(`{"mode":"fallback","onStatusCodes":[500,429,429]}`, tree(`{"mode":"loadbalance"}`, `{"provider":"@a","weight":0.1}`)),
		leaf(`"input_guardrails":["s",{"default.x":{"a":[]},"on_fail":{"feedback":{"value":-0.0}}}],"override_params":{"a":1e400}`),
		leaf(`"cb_config":{"failure_threshold":1e3,"cooldown_interval":30000.0000001},"cloud_b_service_account_json":{"k":"v"}`),
		`{"hedge":{"delay_ms":1},"deployments":[{}],"cache":{"mode":"x"},"hedge":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.Parse(text)
		if err != nil {
			faults, ok := errors.AsType[*config.Errors](err)
			if !ok || len(faults.Faults) == 0 || c != nil {
				t.Fatalf("Parse = %v, %v", c, err)
			}
			return
		}
		form := c.Reveal()
		again, err := config.Parse(form)
		if err != nil {
			t.Fatalf("%s is refused: %v", form, err)
		}
		if second := again.Reveal(); string(second) != string(form) {
			t.Fatalf("%s is read back as %s", form, second)
		}
		if !json.Valid(c.Canonical()) {
			t.Fatalf("the canonical form is not JSON: %s", c.Canonical())
		}
		for node := range again.All() {
			if !strings.HasPrefix(node.Path, "config") {
				t.Fatalf("path %q", node.Path)
			}
		}
	})
}

// FuzzQuery looks for queries and values that crash Match.
func FuzzQuery(f *testing.F) {
	f.Add([]byte(`{"params.a":{"$gte":"1e5","$ne":null}}`), []byte(`"1e5x"`))
	f.Add([]byte(`{"$not":{"params.a":{"$contains":"a"}}}`), []byte(`["a"]`))
	f.Add([]byte(`{"params.a":{"$regex":"^.$"}}`), []byte(`"\`))
	f.Fuzz(func(t *testing.T, text, field []byte) {
		q, err := config.ParseQuery(text)
		if err != nil {
			return
		}
		found := func(string) (json.RawMessage, bool) { return field, true }
		opposite := &config.Query{Op: config.Not, Queries: []*config.Query{q}}
		if q.Match(found, new(config.Work)) == opposite.Match(found, new(config.Work)) {
			t.Fatalf("%s and its opposite agree on %s", text, field)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(tree(`{"mode":"conditional","conditions":[{"query":{"metadata.plan":"paid"},"then":"a"}],"default":"b"}`, named+","+other))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
