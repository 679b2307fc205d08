package conformance

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// node writes a config or a target of these members.
func node(members ...string) string { return "{" + strings.Join(members, ",") + "}" }

// leaf writes a node that calls p, with further members.
func leaf(p *provider, more ...string) string {
	return node(append([]string{`"provider":"openai-compatible"`, `"api_key":"` + credential + `"`, `"custom_host":"` + p.url + `"`}, more...)...)
}

// tree writes a node with a strategy of these members, and its targets.
func tree(strategy string, targets ...string) string {
	return node(`"strategy":{`+strategy+`}`, `"targets":[`+strings.Join(targets, ",")+`]`)
}

// with adds members to a node.
func with(n string, more ...string) string {
	return strings.TrimSuffix(n, "}") + "," + strings.Join(more, ",") + "}"
}

const (
	single      = `"mode":"single"`
	fallback    = `"mode":"fallback"`
	loadbalance = `"mode":"loadbalance"`
)

// ask sends a chat completion with a config.
func (g *gateway) ask(t *testing.T, config string, more ...string) response {
	t.Helper()
	return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body,
		append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config}, more...)...)
}

// refusal is what answers says with an error status.
const refusal = `{"error":{"message":"said by the provider","type":"t","param":null,"code":"c"}}`

// withStatuses gives these statuses in turn and the last one for ever. A success is
// the canned response of the path.
func withStatuses(statuses ...int) behaviour {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, in received) {
		status := statuses[min(int(n.Add(1)), len(statuses))-1]
		if status == http.StatusOK {
			canned(w, r, in)
			return
		}
		says(status, "application/json", refusal)(w, r, in)
	}
}

// hits is how often p was called so far.
func (p *provider) hits() int { return len(p.requests()) }

// called fails the test unless the providers were called so often.
func called(t *testing.T, want []int, providers ...*provider) {
	t.Helper()
	got := make([]int, len(providers))
	for i, p := range providers {
		got[i] = p.hits()
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls of each provider = %v, want %v", got, want)
	}
}

// fleet starts a provider for each response.
func fleet(t *testing.T, say ...behaviour) []*provider {
	t.Helper()
	list := make([]*provider, len(say))
	for i, s := range say {
		list[i] = newProvider(t, s)
	}
	return list
}

func TestSingleTakesTheFirstTarget(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-024", "always", func(t *testing.T) {
		p := fleet(t, nil, nil)
		for range 5 {
			g.ask(t, tree(single, leaf(p[0]), leaf(p[1]))).wantOK(t)
		}
		called(t, []int{5, 0}, p...)
	})
	prove(t, "S-024", "even while its circuit is open", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		for range 3 {
			if got := g.ask(t, tree(single, leaf(p[0], `"cb_config":{"failure_threshold":1,"cooldown_interval":30000}`), leaf(p[1]))); got.status != 500 {
				t.Errorf("status %d, want the first target's 500", got.status)
			}
		}
		called(t, []int{3, 0}, p...)
	})
	prove(t, "S-024", "even when it fails", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		if got := g.ask(t, tree(single, leaf(p[0]), leaf(p[1]))); got.status != 500 {
			t.Errorf("status %d, want the target's 500", got.status)
		}
		called(t, []int{1, 0}, p...)
	})
}

// falseAlarm is a number of standard deviations that chance exceeds once in 1.7e9.
const falseAlarm = 6.2

// within fails the test unless got is within falseAlarm standard deviations of n
// draws at this share.
func within(t *testing.T, got, n int, share float64) {
	t.Helper()
	mean, sigma := float64(n)*share, math.Sqrt(float64(n)*share*(1-share))
	if d := math.Abs(float64(got) - mean); d > falseAlarm*sigma {
		t.Errorf("%d of %d calls, want %.0f ± %.0f", got, n, mean, falseAlarm*sigma)
	}
}

func TestLoadIsBalancedByWeight(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-025 S-090", "three quarters, one quarter and nothing", func(t *testing.T) {
		const n = 3000 // two thirds are 2000, and the bound is 2250 ± 147
		p := fleet(t, nil, nil, nil)
		config := tree(loadbalance, leaf(p[0], `"weight":0.75`), leaf(p[1], `"weight":0.25`), leaf(p[2], `"weight":0`))
		for range n {
			g.ask(t, config).wantOK(t)
		}
		within(t, p[0].hits(), n, 0.75)
		if sum := p[0].hits() + p[1].hits(); sum != n {
			t.Errorf("the weighted targets got %d calls, want all %d", sum, n)
		}
		p[2].wantNoRequests(t)
	})
	prove(t, "S-025 S-090", "a weight that is not given is one", func(t *testing.T) {
		const n = 1500 // a default of a half is 300 and one of two 750; the bound is 500 ± 113
		p := fleet(t, nil, nil)
		config := tree(loadbalance, leaf(p[0]), leaf(p[1], `"weight":2`))
		for range n {
			g.ask(t, config).wantOK(t)
		}
		within(t, p[0].hits(), n, 1.0/3)
	})
	prove(t, "S-090", "weights say nothing in a fallback", func(t *testing.T) {
		p := fleet(t, nil, nil)
		for range 20 {
			g.ask(t, tree(fallback, leaf(p[0], `"weight":0`), leaf(p[1], `"weight":9`))).wantOK(t)
		}
		called(t, []int{20, 0}, p...)
	})
	prove(t, "S-025 S-090", "a target that has targets has a weight", func(t *testing.T) {
		p := fleet(t, nil, nil)
		config := tree(loadbalance, with(tree(single, leaf(p[0])), `"weight":0`), leaf(p[1]))
		for range 20 {
			g.ask(t, config).wantOK(t)
		}
		called(t, []int{0, 20}, p...)
	})
	prove(t, "S-074", "status codes make no fallback of a balance", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		config := tree(loadbalance+`,"on_status_codes":[500]`, leaf(p[0], `"weight":1`, `"on_status_codes":[500]`), leaf(p[1], `"weight":0`))
		if got := g.ask(t, config); got.status != 500 {
			t.Errorf("status %d, want the drawn target's 500", got.status)
		}
		called(t, []int{1, 0}, p...)
	})
}

func TestFallbackGoesByStatus(t *testing.T) {
	g, _ := start(t)
	const unsaid = ""
	for _, tt := range []struct {
		of, name         string
		strategy, target string
		status           int
		falls            bool
	}{
		{"S-026", "any error without a list", unsaid, unsaid, 500, true},
		{"S-026", "a client's fault without a list", unsaid, unsaid, 400, true},
		{"S-026", "a success stays", unsaid, unsaid, 200, false},
		{"S-481 S-026", "a listed 429", `"on_status_codes":[429]`, unsaid, 429, true},
		{"S-481", "a 500 that is not listed", `"on_status_codes":[429]`, unsaid, 500, false},
		{"S-481", "one of several", `"on_status_codes":[429,503]`, unsaid, 503, true},
		{"S-481", "an empty list", `"on_status_codes":[]`, unsaid, 500, false},
		{"S-091", "listed in the target", unsaid, `"on_status_codes":[418]`, 418, true},
		{"S-091", "not listed in the target", unsaid, `"on_status_codes":[418]`, 500, false},
		{"S-091", "the target's list before the strategy's", `"on_status_codes":[500]`, `"on_status_codes":[418]`, 500, false},
		{"S-091", "an empty list of the target before the strategy's", `"on_status_codes":[500]`, `"on_status_codes":[]`, 500, false},
		{"S-091", "the target's list next to the strategy's", `"on_status_codes":[500]`, `"on_status_codes":[418]`, 418, true},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			p := fleet(t, withStatuses(tt.status), nil)
			strategy, first := fallback, leaf(p[0])
			if tt.strategy != unsaid {
				strategy += "," + tt.strategy
			}
			if tt.target != unsaid {
				first = with(first, tt.target)
			}
			got := g.ask(t, tree(strategy, first, leaf(p[1])))
			want, calls := tt.status, []int{1, 0}
			if tt.falls {
				want, calls = http.StatusOK, []int{1, 1}
			}
			if got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
			called(t, calls, p...)
		})
	}
	prove(t, "S-026", "a target that takes too long without a list", func(t *testing.T) {
		p := fleet(t, hang, nil)
		g.ask(t, tree(fallback, leaf(p[0], `"request_timeout":100`), leaf(p[1]))).wantOK(t)
		called(t, []int{1, 1}, p...)
	})
	for status, calls := range map[int][]int{418: {1, 1}, 500: {1, 0}} {
		prove(t, "S-091", fmt.Sprintf("%d, where the config of the fallback lists 418", status), func(t *testing.T) {
			p := fleet(t, withStatuses(status), nil)
			g.ask(t, with(tree(fallback, leaf(p[0]), leaf(p[1])), `"on_status_codes":[418]`))
			called(t, calls, p...)
		})
	}
	const own = `"on_status_codes":[418]`
	for name, config := range map[string]func(first, second string) string{
		"a target with targets": func(first, second string) string { return tree(fallback, with(tree(single, first), own), second) },
		"a fallback that may hedge": func(first, second string) string {
			return with(tree(fallback, with(first, own), second), `"hedge":{"delay_ms":50000}`)
		},
		"a fallback inside a single": func(first, second string) string { return tree(single, tree(fallback, with(first, own), second)) },
	} {
		for status, calls := range map[int][]int{418: {1, 1}, 500: {1, 0}} {
			prove(t, "S-091", fmt.Sprintf("%d, where %s lists 418", status, name), func(t *testing.T) {
				p := fleet(t, withStatuses(status), nil)
				g.ask(t, config(leaf(p[0]), leaf(p[1])))
				called(t, calls, p...)
			})
		}
	}
	prove(t, "S-026", "a provider that is not there", func(t *testing.T) {
		p := fleet(t, nil)
		gone, srv := startProvider(nil)
		srv.Close()
		got := g.ask(t, tree(fallback, leaf(gone), leaf(p[0]))).wantOK(t)
		if index := got.header.Get("x-gateway-last-used-option-index"); index != "config.targets[1]" {
			t.Errorf("x-gateway-last-used-option-index = %q, want config.targets[1]", index)
		}
	})
	prove(t, "S-026", "a stream goes elsewhere before it began", func(t *testing.T) {
		p := fleet(t, withStatuses(503), streams("data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
		got := g.do(t, "POST", chatStream.path, chatStream.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", tree(fallback, leaf(p[0]), leaf(p[1]))).wantOK(t)
		if !strings.HasSuffix(string(got.body), "data: [DONE]\n\n") || strings.Contains(string(got.body), "said by") {
			t.Errorf("the stream is %q", got.body)
		}
	})
	prove(t, "S-486 S-026", "when all fail, the last response is the response", func(t *testing.T) {
		last := strings.Replace(refusal, "said by the provider", "said last", 1)
		p := fleet(t, withStatuses(500), withStatuses(503), says(418, "application/json", last))
		got := g.ask(t, tree(fallback, leaf(p[0]), leaf(p[1]), leaf(p[2])))
		e := at(got.object(t), "error")
		if got.status != 418 || at(e, "message") != "said last" || at(e, "code") != "c" || at(e, "source") != "provider" {
			t.Errorf("status %d, error %v, want the third target's", got.status, e)
		}
		called(t, []int{1, 1, 1}, p...)
		if tries, _ := g.entry(t, got)["attempts"].([]any); len(tries) != 3 {
			t.Errorf("recorded attempts = %v, want three", tries)
		}
	})
	prove(t, "S-486", "when the last one sends no response, its failure is the response", func(t *testing.T) {
		p := newProvider(t, withStatuses(500))
		gone, srv := startProvider(nil)
		srv.Close()
		got := g.ask(t, tree(fallback, leaf(p), leaf(gone)))
		got.refused(t, http.StatusBadGateway)
		if index := got.header.Get("x-gateway-last-used-option-index"); index != "config.targets[1]" {
			t.Errorf("x-gateway-last-used-option-index = %q, want config.targets[1]", index)
		}
	})
}

func TestTreesNest(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-048 S-078", "a fallback of a balance of a single", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		config := tree(fallback, tree(loadbalance, tree(single, leaf(p[0]))), leaf(p[1]))
		got := g.ask(t, config).wantOK(t)
		called(t, []int{1, 1}, p...)
		if index := got.header.Get("x-gateway-last-used-option-index"); index != "config.targets[1]" {
			t.Errorf("x-gateway-last-used-option-index = %q", index)
		}
	})
	for _, depth := range []int{1, 4, 16} {
		prove(t, "S-078 S-048", fmt.Sprintf("%d levels of targets", depth), func(t *testing.T) {
			p := fleet(t, nil)
			got := g.ask(t, nested(depth, leaf(p[0]))).wantOK(t)
			if index, want := got.header.Get("x-gateway-last-used-option-index"), "config"+strings.Repeat(".targets[0]", depth); index != want {
				t.Errorf("x-gateway-last-used-option-index = %q, want %q", index, want)
			}
		})
	}
	prove(t, "S-048", "conditions inside a fallback", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil, nil)
		choice := tree(`"mode":"conditional","conditions":[{"query":{"metadata.plan":"pro"},"then":"b"}],"default":"a"`,
			leaf(p[1], `"name":"a"`), leaf(p[2], `"name":"b"`))
		g.ask(t, tree(fallback, leaf(p[0]), choice), "x-gateway-metadata", `{"plan":"pro"}`).wantOK(t)
		called(t, []int{1, 0, 1}, p...)
	})
}

// nested puts n below so many levels of targets.
func nested(depth int, n string) string {
	for range depth {
		n = tree(single, n)
	}
	return n
}

func TestConditionsChooseByName(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	// choose answers the name of the target that a condition led to.
	choose := func(t *testing.T, query, metadata, body string, more ...string) string {
		t.Helper()
		p.forget()
		config := tree(`"mode":"conditional","conditions":[{"query":`+query+`,"then":"yes"}],"default":"no"`,
			leaf(p, `"name":"no"`, `"override_params":{"user":"no"}`), leaf(p, `"name":"yes"`, `"override_params":{"user":"yes"}`))
		g.do(t, "POST", "/v1/chat/completions", `{"model":"gpt-9-mini","messages":[{"role":"user","content":"x"}]`+body+`}`,
			append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", config, "x-gateway-metadata", metadata}, more...)...).wantOK(t)
		word, _ := strconv.Unquote(p.only(t).field(t, "user"))
		return word
	}
	const plan = `{"plan":"pro","age":"25"}`
	for _, tt := range []struct {
		query, metadata, body string
		want                  string
	}{
		{`{"metadata.plan":{"$eq":"pro"}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$eq":"pro"}}`, `{"plan":"free"}`, ``, "no"},
		{`{"metadata.plan":{"$eq":"pro"}}`, `{}`, ``, "no"},
		{`{"metadata.plan":"pro"}`, plan, ``, "yes"},
		{`{"metadata.plan":"free"}`, plan, ``, "no"},
		{`{"metadata.plan":{"$ne":"free"}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$ne":"pro"}}`, plan, ``, "no"},
		{`{"metadata.plan":{"$in":["team","pro"]}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$in":["team","free"]}}`, plan, ``, "no"},
		{`{"metadata.plan":{"$nin":["team","free"]}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$nin":["team","pro"]}}`, plan, ``, "no"},
		{`{"metadata.gone":{"$ne":"pro"}}`, plan, ``, "yes"},
		{`{"metadata.gone":{"$nin":["team","pro"]}}`, plan, ``, "yes"},
		{`{"metadata.gone":{"$in":["team","pro"]}}`, plan, ``, "no"},
		{`{"metadata.age":{"$gt":24}}`, plan, ``, "yes"},
		{`{"metadata.age":{"$gt":25}}`, plan, ``, "no"},
		{`{"metadata.plan":{"$regex":"^p.o$"}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$regex":"^o"}}`, plan, ``, "no"},
		{`{"params.max_tokens":{"$gt":100}}`, `{}`, `,"max_tokens":101`, "yes"},
		{`{"params.max_tokens":{"$gt":100}}`, `{}`, `,"max_tokens":100`, "no"},
		{`{"params.max_tokens":{"$gte":100}}`, `{}`, `,"max_tokens":100`, "yes"},
		{`{"params.max_tokens":{"$gte":100}}`, `{}`, `,"max_tokens":99`, "no"},
		{`{"params.max_tokens":{"$lt":100}}`, `{}`, `,"max_tokens":99`, "yes"},
		{`{"params.max_tokens":{"$lt":100}}`, `{}`, `,"max_tokens":100`, "no"},
		{`{"params.max_tokens":{"$lte":100}}`, `{}`, `,"max_tokens":100`, "yes"},
		{`{"params.max_tokens":{"$lte":100}}`, `{}`, `,"max_tokens":101`, "no"},
		{`{"params.max_tokens":{"$lte":100}}`, `{}`, ``, "no"},
		{`{"params.max_tokens":{"$eq":100}}`, `{}`, `,"max_tokens":100`, "yes"},
		{`{"params.max_tokens":{"$eq":"100"}}`, `{}`, `,"max_tokens":100`, "no"},
		{`{"params.model":{"$regex":"^gpt-.*-mini$"}}`, `{}`, ``, "yes"},
		{`{"params.model":{"$regex":"^claude"}}`, `{}`, ``, "no"},
		{`{"params.model":{"$in":["gpt-9-mini","gpt-9"]}}`, `{}`, ``, "yes"},
		{`{"params.temperature":0.5}`, `{}`, `,"temperature":0.50`, "yes"},
		{`{"params.stream":false}`, `{}`, `,"stream":false`, "yes"},
		{`{"params.response_format.type":"json_object"}`, `{}`, `,"response_format":{"type":"json_object"}`, "yes"},
		{`{"params.response_format.type":"json_object"}`, `{}`, `,"response_format":{"type":"text"}`, "no"},
		{`{"$and":[{"metadata.plan":"pro"},{"metadata.age":"25"}]}`, plan, ``, "yes"},
		{`{"$and":[{"metadata.plan":"pro"},{"metadata.age":"26"}]}`, plan, ``, "no"},
		{`{"$or":[{"metadata.plan":"free"},{"metadata.age":"25"}]}`, plan, ``, "yes"},
		{`{"$or":[{"metadata.plan":"free"},{"metadata.age":"26"}]}`, plan, ``, "no"},
		{`{"$or":[{"$and":[{"metadata.plan":"pro"},{"metadata.age":"9"}]},{"params.model":{"$regex":"mini"}}]}`, plan, ``, "yes"},
		{`{"metadata.plan":"pro","params.model":"other"}`, plan, ``, "no"},
		{`{"metadata.plan":"pro","params.model":"gpt-9-mini"}`, plan, ``, "yes"},
		{`{"$or":[{"metadata.plan":"pro"}],"metadata.age":"26"}`, plan, ``, "no"},
		{`{"metadata.age":{"$gte":20,"$lt":25}}`, plan, ``, "no"},
		{`{"metadata.age":{"$gte":20,"$lt":26}}`, plan, ``, "yes"},
		{`{"metadata.plan":{"$regex":"pro","$ne":"pro"}}`, plan, ``, "no"},
	} {
		prove(t, "S-077", strings.ReplaceAll(tt.query, "/", "|")+" with "+tt.metadata+tt.body, func(t *testing.T) {
			if got := choose(t, tt.query, tt.metadata, tt.body); got != tt.want {
				t.Errorf("the request went to %q, want %q", got, tt.want)
			}
		})
	}
	prove(t, "S-027", "metadata picks the target", func(t *testing.T) {
		if got := choose(t, `{"metadata.plan":"pro"}`, plan, ""); got != "yes" {
			t.Errorf("the request went to %q, want yes", got)
		}
		if got := choose(t, `{"metadata.plan":"pro"}`, `{"plan":"free"}`, ""); got != "no" {
			t.Errorf("the request went to %q, want no", got)
		}
	})
	for query, want := range map[string]string{
		`{"headers.X-Plan":"pro"}`:                                "yes",
		`{"headers.x-plan":{"$in":["free"]}}`:                     "no",
		`{"headers.x-absent":"pro"}`:                              "no",
		`{"headers.x-gateway-api-key":{"$regex":"."}}`:            "no",
		`{"url.pathname":"/v1/chat/completions"}`:                 "yes",
		`{"url.pathname":{"$regex":"^/v1/embeddings"}}`:           "no",
		`{"params.messages":{"$exists":true}}`:                    "yes",
		`{"headers.x-plan":"pro","metadata.plan":{"$ne":"free"}}`: "yes",
	} {
		prove(t, "S-027", strings.ReplaceAll(query, "/", "|")+" of headers and address", func(t *testing.T) {
			if got := choose(t, query, plan, "", "x-PLAN", "pro"); got != want {
				t.Errorf("the request went to %q, want %q", got, want)
			}
		})
	}
	for _, name := range []string{"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "x-gateway-api-key", "x-gateway-config"} {
		prove(t, "S-027", "the credential in "+name+" is not tested", func(t *testing.T) {
			more := []string{name, "secret"}
			if strings.HasPrefix(name, "x-gateway-") { // every request has it
				more = nil
			}
			if got := choose(t, `{"headers.`+name+`":{"$regex":"."}}`, plan, "", more...); got != "no" {
				t.Errorf("the request went to %q, want no", got)
			}
		})
	}
	prove(t, "S-027", "all values of a header are tested together", func(t *testing.T) {
		if got := choose(t, `{"headers.x-plan":"free, pro"}`, plan, "", "x-plan", "free", "x-plan", "pro"); got != "yes" {
			t.Errorf("the request went to %q, want yes", got)
		}
	})
	for _, tt := range []struct{ query, want string }{{"?tier=gold", "yes"}, {"?tier=tin", "no"}, {"", "no"}} {
		prove(t, "S-027", "the query "+tt.query+" of the address", func(t *testing.T) {
			p.forget()
			config := tree(`"mode":"conditional","conditions":[{"query":{"url.query.tier":"gold"},"then":"yes"}],"default":"no"`,
				leaf(p, `"name":"no"`, `"override_params":{"user":"no"}`), leaf(p, `"name":"yes"`, `"override_params":{"user":"yes"}`))
			g.do(t, "POST", modelRoutes[0].path+tt.query, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config).wantOK(t)
			if got := p.only(t).field(t, "user"); got != strconv.Quote(tt.want) {
				t.Errorf("the request went to %s, want %s", got, tt.want)
			}
		})
	}
	prove(t, "S-076", "the first of several conditions that hold counts", func(t *testing.T) {
		p.forget()
		names := []string{leaf(p, `"name":"a"`, `"override_params":{"user":"a"}`), leaf(p, `"name":"b"`, `"override_params":{"user":"b"}`)}
		strategy := `"mode":"conditional","conditions":[{"query":{"metadata.plan":"none"},"then":"a"},{"query":{"metadata.age":"25"},"then":"b"},{"query":{"metadata.plan":"pro"},"then":"a"}],"default":"a"`
		g.ask(t, tree(strategy, names...), "x-gateway-metadata", plan).wantOK(t)
		if got := p.only(t).field(t, "user"); got != `"b"` {
			t.Errorf("the request went to %s, want b", got)
		}
	})
	for _, key := range []string{"_user", "_prompt", "_organisation", "_environment"} {
		prove(t, "S-441", key+" is recorded, found and tested by conditions", func(t *testing.T) {
			value := "special" + key
			metadata := `{"` + key + `":"` + value + `"}`
			if got := choose(t, `{"metadata.`+key+`":"`+value+`"}`, metadata, ""); got != "yes" {
				t.Errorf("the request went to %q, want yes", got)
			}
			got := g.ask(t, leaf(p), "x-gateway-metadata", metadata).wantOK(t)
			e := g.entry(t, got)
			if at(e, "metadata", key) != value {
				t.Errorf("recorded metadata = %v", e["metadata"])
			}
			found, _ := g.do(t, "GET", "/v1/logs?metadata."+key+"="+value, "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["data"].([]any)
			ids := make([]any, len(found))
			for i, one := range found {
				ids[i] = at(one, "id")
			}
			if !slices.Contains(ids, e["id"]) {
				t.Errorf("the log with %s lacks the request: %v", metadata, ids)
			}
			if none, _ := g.do(t, "GET", "/v1/logs?metadata."+key+"=other", "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)["data"].([]any); len(none) != 0 {
				t.Errorf("the log of another %s has %d entries", key, len(none))
			}
		})
	}
}
