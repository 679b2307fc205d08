package security

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// repeated returns n elements, written by f, joined by commas.
func repeated(n int, f func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = f(i)
	}
	return strings.Join(parts, ",")
}

func always(text string) func(int) string { return func(int) string { return text } }

// conditional is a config with a condition for each query, and one target.
func conditional(target, queries string) string {
	return `{"strategy":{"mode":"conditional","default":"a","conditions":[{"query":{"$or":[` + queries + `]},"then":"a"}]},"targets":[{"name":"a",` + target + `}]}`
}

// manyTargets is a config of n targets in groups of fifty, whose root has the
// members.
func manyTargets(n int, root string) string {
	return `{` + root + `"strategy":{"mode":"fallback"},"targets":[` + repeated(n/50, always(`{"strategy":{"mode":"fallback"},"targets":[`+repeated(50, always(`{"provider":"@stored"}`))+`]}`)) + `]}`
}

// hostileConfigs are configs of at most 64 KB that would take far more memory
// than their text.
func hostileConfigs() []struct{ name, text, want string } {
	const stored = `"provider":"@stored"`
	query := func(pattern string) string { return fmt.Sprintf(`{"metadata.a":{"$regex":%q}}`, pattern) }
	parameters := `{` + repeated(3000, func(i int) string { return fmt.Sprintf(`"%d":0`, i) }) + `}`
	return []struct{ name, text, want string }{
		{"thousands of repetitions", conditional(stored, repeated(1500, always(query(".{1000}")))), "20000 instructions"},
		{"one pattern of many repetitions", conditional(stored, query(strings.Repeat(".{1000}", 500))), "20000 instructions"},
		{"repetitions that may be missing", conditional(stored, repeated(1000, always(query("(?:ab){0,500}")))), "20000 instructions"},
		{"repetitions in repetitions", conditional(stored, repeated(1000, always(query("(?:.{30}){30}")))), "20000 instructions"},
		{"large character classes", conditional(stored, repeated(500, always(query(strings.Repeat(`\pL`, 20))))), "20000 instructions"},
		{"a pattern longer than any", conditional(stored, query(strings.Repeat(`\pL`, 15_000))), "at most 4096"},
		{"thousands of targets", `{"strategy":{"mode":"fallback"},"targets":[` + repeated(68, always(`{"strategy":{"mode":"single"},"targets":[`+repeated(50, always(`{"provider":"@a"}`))+`]}`)) + `]}`, "8388608 bytes"},
		{"parameters of a thousand targets", manyTargets(1000, `"override_params":`+parameters+`,`), "8388608 bytes"},
		{"defaults of a thousand targets", manyTargets(1000, `"default_params":`+parameters+`,`), "8388608 bytes"},
		{"forwarded headers of a thousand targets", manyTargets(1000, `"forward_headers":[`+repeated(8000, always(`"a"`))+`],`), "8388608 bytes"},
		{"dropped paths of a thousand targets", manyTargets(1000, `"drop_params":[`+repeated(8000, always(`"a"`))+`],`), "8388608 bytes"},
	}
}

func TestHostileConfigsCostNoMemory(t *testing.T) {
	g, _ := start(t)
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	for _, tt := range hostileConfigs() {
		if len(tt.text) > 64<<10 {
			t.Fatalf("%s: the config has %d bytes, more than a header may have", tt.name, len(tt.text))
		}
		attack(t, "exhaustion", "config sent inline: "+tt.name, func(t *testing.T) {
			grown := g.peakMemory(t, func() {
				for range 5 {
					g.as(t, key, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", tt.text).refused(t, 400, "AB01", tt.want)
				}
			})
			if grown > 150<<20 {
				t.Errorf("memory grew by %d MB", grown>>20)
			}
		})
		attack(t, "exhaustion", "config saved: "+tt.name, func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/configs", fmt.Sprintf(`{"name":"c","workspace_id":"default","config":%s}`, tt.text)).refused(t, 400, "AB01", tt.want)
		})
	}
	attack(t, "exhaustion", "config explained: thousands of repetitions", func(t *testing.T) {
		r := g.as(t, key, "POST", "/v1/explain", `{"config":`+hostileConfigs()[0].text+`,"request":{"body":`+chatBody+`}}`).ok(t)
		if !strings.Contains(string(r.body), "20000 instructions") {
			t.Errorf("explain says %.300s, want the limit of instructions", r.body)
		}
	})
	attack(t, "exhaustion", "faults of a config multiply its text", func(t *testing.T) {
		r := g.as(t, key, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", `{`+repeated(6000, func(i int) string { return fmt.Sprintf(`"x%d":0`, i) })+`}`).refused(t, 400, "AB01", "further faults")
		if len(r.body) > 64<<10 {
			t.Errorf("the refusal has %d bytes", len(r.body))
		}
	})
}

// Every config is within its limits; together they would fill the memory.
func TestManyDifferentConfigsFillABoundedCache(t *testing.T) {
	g, _ := start(t)
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	large := conditional(`"provider":"@stored"`, repeated(15, always(`{"metadata.a":{"$regex":".{1000}"}}`)))
	for _, tt := range []struct {
		name   string
		header func(i int) []string
	}{
		{"different large configs", func(i int) []string {
			return []string{"x-gateway-config", strings.Replace(large, `"a"}]`, fmt.Sprintf(`"a"}],"on_status_codes":[%d]`, 400+i%100), 1) + strings.Repeat(" ", i/100)}
		}},
		{"one large config with different timeouts", func(i int) []string {
			return []string{"x-gateway-config", large, "x-gateway-request-timeout", fmt.Sprint(60_000 + i)}
		}},
		{"one small config with long lists of forwarded headers", func(i int) []string {
			return []string{"x-gateway-config", `{"provider":"@stored"}`, "x-gateway-forward-headers", strings.Repeat("a,", 60_000) + fmt.Sprint("h", i)}
		}},
	} {
		attack(t, "exhaustion", tt.name, func(t *testing.T) {
			grown := g.peakMemory(t, func() {
				for i := range 400 {
					if r := g.as(t, key, "POST", "/v1/chat/completions", chatBody, tt.header(i)...); r.status != 200 {
						t.Fatalf("request %d: status %d: %.300s", i, r.status, r.body)
					}
				}
			})
			t.Logf("memory grew by %d MB", grown>>20)
			if grown > 350<<20 {
				t.Errorf("memory grew by %d MB over 400 configs", grown>>20)
			}
		})
	}
}

// A condition is tested in bounded time, whatever its patterns and fields.
func TestConditionsTakeBoundedTime(t *testing.T) {
	g, _ := start(t)
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	long := `{"model":"gpt-4o","prompt":"` + strings.Repeat("x", 8<<20) + `"}`
	for _, tt := range []struct{ name, queries, body string }{
		{"many patterns on a long field", repeated(300, always(`{"params.prompt":{"$regex":"(?:x+x+)+y"}}`)), long},
		{"a large pattern on a long field", `{"params.prompt":{"$regex":"(?:x?){1000}y"}}`, long},
		{"many fields of a long body", repeated(2000, func(i int) string { return fmt.Sprintf(`{"params.f%d":1}`, i) }), long},
	} {
		attack(t, "exhaustion", "conditions: "+tt.name, func(t *testing.T) {
			began := time.Now()
			g.as(t, key, "POST", "/v1/completions", tt.body, "x-gateway-config", conditional(`"provider":"@stored"`, tt.queries)).refused(t, 400, "AB01", "200000000 steps", "conditions")
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	attack(t, "exhaustion", "conditions of ordinary size still work", func(t *testing.T) {
		g.as(t, key, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", conditional(`"provider":"@stored"`, repeated(200, always(`{"params.model":{"$regex":"^gpt-.*"}}`)))).ok(t)
	})
}

// Requests that hold large configs while their provider is silent are limited
// together.
func TestRequestsHoldBoundedConfigs(t *testing.T) {
	attack(t, "exhaustion", "large configs held by slow requests", func(t *testing.T) {
		const requests = 300
		full := make(chan struct{}) // closed with the first refusal
		slow := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-full:
			case <-r.Context().Done():
			}
			respondChat(w, r)
		})
		g := launch(t, options{})
		config := func(i int) string { // each counts as 2 MB, all of them as more than the 512 MB that are allowed
			return strings.Replace(conditional(`"provider":"openai-compatible","custom_host":"`+slow.url+`","api_key":"k"`, repeated(19, always(`{"metadata.a":{"$regex":".{1000}"}}`))), `"a"}]`, `"a"}]`+strings.Repeat(" ", i), 1)
		}
		var refused, served atomic.Int32
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() {
				r := g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", config(i), "x-gateway-request-timeout", "30000")
				switch {
				case r.status == http.StatusOK:
					served.Add(1)
				case strings.Contains(string(r.body), "config_memory_full") && refused.Add(1) == 1:
					close(full)
				}
			})
		}
		grown := g.peakMemory(t, wg.Wait)
		t.Logf("memory grew by %d MB; %d requests were refused and %d served", grown>>20, refused.Load(), served.Load())
		if grown > 900<<20 {
			t.Errorf("memory grew by %d MB", grown>>20)
		}
		if refused.Load() == 0 || served.Load() == 0 {
			t.Errorf("of %d requests at a time with large configs %d were refused and %d served, want some of both", requests, refused.Load(), served.Load())
		}
		g.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
	})
}
