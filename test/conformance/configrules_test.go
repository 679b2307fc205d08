package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// explained asks what would become of a request with a config: of these members,
// or a chat completion. Nothing is sent.
func (g *gateway) explained(t *testing.T, config string, request ...string) map[string]any {
	t.Helper()
	if request == nil {
		request = []string{`"body":` + modelRoutes[0].body}
	}
	got := g.do(t, "POST", "/v1/explain", node(`"request":`+node(request...), `"config":`+config), "x-gateway-api-key", bootstrapKey)
	return got.wantOK(t).object(t)
}

// takes fails the test when the config is refused as invalid.
func (g *gateway) takes(t *testing.T, config string) {
	t.Helper()
	if e := g.explained(t, config); at(e, "error", "error", "code") == "AB01" || e["status"] == json.Number("400") {
		t.Errorf("%.300s is refused: %v", config, at(e, "error", "error", "message"))
	}
}

// refuses fails the test unless the config is refused as invalid, before
// anything is sent, with a message that names each of the paths.
func (g *gateway) refuses(t *testing.T, p *provider, config string, paths ...string) {
	t.Helper()
	if e := g.explained(t, config); at(e, "error", "error", "code") != "AB01" {
		t.Errorf("%.300s is explained with status %v, error %v", config, e["status"], e["error"])
		return // it is not sent, since it may name a provider on the net
	}
	p.forget()
	e := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-config", config)...).refused(t, http.StatusBadRequest)
	message, _ := e["message"].(string)
	if e["code"] != "AB01" || !strings.HasPrefix(message, "AB01") {
		t.Errorf("code %v, message %q, want both to begin with AB01", e["code"], message)
	}
	for _, path := range paths {
		if !strings.Contains(message, path+" ") && !strings.Contains(message, path+"[") {
			t.Errorf("message = %q, want one that names %s", message, path)
		}
	}
	p.wantNoRequests(t)
}

func TestGroupsMakeAConfigValid(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	provider := func(id string) string { return `"provider":"` + id + `"` }
	const key, text = `"api_key":"k"`, `"x"`
	member := func(name, value string) string { return `"` + name + `":` + value }
	hook, guardrail := `[{"id":"h"}]`, `["g"]`
	target := node(provider("openai"), key)
	for _, tt := range []struct {
		of      string
		members []string
	}{
		{"S-052", []string{provider("openai"), key}},
		{"S-054", []string{provider("openai"), member("custom_host", `"`+p.url+`"`)}},
		{"S-055", []string{member("virtual_key", `"stored"`)}},
		{"S-056", []string{`"strategy":{"mode":"single"}`, `"targets":[` + target + `]`}},
		{"S-058", []string{`"cache":{"mode":"simple"}`}},
		{"S-059", []string{`"retry":{"attempts":0}`}},
		{"S-060", []string{member("prompt_id", text)}},
		{"S-061", []string{`"forward_headers":["X-A"]`}},
		{"S-062", []string{`"request_timeout":5000`}},
		{"S-063", []string{provider("cloud_a"), member("cloud_a_access_key_id", text), member("cloud_a_secret_access_key", text)}},
		{"S-064", []string{provider("cloud_b"), member("cloud_b_region", text), member("cloud_b_service_account_json", `{"a":1}`)}},
		{"S-065", []string{provider("cloud_b"), member("cloud_b_region", text), member("cloud_b_project_id", text)}},
		{"S-066", []string{provider("cloud_c"), member("cloud_c_deployment_name", text), member("cloud_c_deployment_type", `"serverless"`), member("cloud_c_region", text), member("cloud_c_api_version", text)}},
		{"S-067", []string{provider("cloud_c"), member("cloud_c_endpoint_name", text), member("cloud_c_deployment_type", `"managed"`)}},
		{"S-068", []string{member("after_request_hooks", hook)}},
		{"S-068", []string{member("before_request_hooks", hook)}},
		{"S-068", []string{member("input_guardrails", guardrail)}},
		{"S-068", []string{member("output_guardrails", guardrail)}},
	} {
		whole := node(tt.members...)
		prove(t, tt.of, "suffices: "+strings.NewReplacer(p.url, "HOST", "/", "|").Replace(whole), func(t *testing.T) {
			if e := g.explained(t, whole, `"body":`+modelRoutes[0].body, `"headers":{"x-gateway-provider":"openai","authorization":"Bearer k"}`); at(e, "error", "error", "code") == "AB01" {
				t.Errorf("refused: %v", at(e, "error", "error", "message"))
			}
		})
		for i := range tt.members {
			part := node(slices.Delete(slices.Clone(tt.members), i, i+1)...)
			of := tt.of
			if part == node(provider("openai")) {
				of += " S-053 S-083"
			}
			prove(t, of, "needed: "+tt.members[i]+" in "+strings.ReplaceAll(whole, "/", "|"), func(t *testing.T) {
				g.refuses(t, p, part)
			})
		}
	}
	for of, members := range map[string]string{
		"S-058": `"cache":{"mode":"simple"}`, "S-059": `"retry":{"attempts":1}`,
		"S-061": `"forward_headers":["X-A"]`, "S-062": `"request_timeout":5000`, "S-068": `"input_guardrails":[{"default.contains":{"words":["x"]}}]`,
	} {
		prove(t, of, "works with the provider of the headers", func(t *testing.T) {
			p.forget()
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-config", node(members))...).wantOK(t)
			if auth := p.only(t).header.Get("Authorization"); auth != "Bearer "+credential {
				t.Errorf("Authorization at the provider = %q, want the client's credential", auth)
			}
		})
	}
	for _, config := range []string{
		`{}`, `{"weight":1}`, `{"name":"x"}`, `{"api_key":"k"}`, `{"custom_host":"https://models.example.com"}`, `{"override_params":{"model":"m"}}`,
		`{"cb_config":{"failure_threshold":1,"cooldown_interval":30000}}`, `{"on_status_codes":[500]}`, `{"strict_vendora_compliance":true}`,
		`{"cloud_a_region":"x"}`, `{"vendora_project":"x"}`,
	} {
		prove(t, "S-051", config, func(t *testing.T) { g.refuses(t, p, config, "$") })
	}
	prove(t, "S-051 S-083", "each target needs a way to its provider", func(t *testing.T) {
		g.refuses(t, p, tree(fallback, leaf(p), node(`"retry":{"attempts":1}`), node(provider("openai")), node(`"weight":1`)),
			"$.targets[1]", "$.targets[2]", "$.targets[3]")
	})
	prove(t, "S-053", "@slug alone is one", func(t *testing.T) {
		g.takes(t, node(provider("@stored")))
		g.takes(t, tree(single, node(provider("@stored"))))
	})
	prove(t, "S-057", "strategy and targets need each other", func(t *testing.T) {
		g.refuses(t, p, leaf(p, `"strategy":{"mode":"single"}`), "$.strategy")
		g.refuses(t, p, leaf(p, `"targets":[`+target+`]`), "$.targets")
		g.refuses(t, p, tree(single, leaf(p, `"strategy":{"mode":"fallback"}`)), "$.targets[0].strategy")
		g.refuses(t, p, tree(single, leaf(p, `"targets":[`+target+`]`)), "$.targets[0].targets")
	})
}

// configRow is a config that is taken, or refused for its path.
type configRow struct{ of, config, path string }

// TestPropertiesHaveTheirTypes proves each rule of the table of properties on
// both of its sides. The members are added to a node that is valid without them.
func TestPropertiesHaveTheirTypes(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	var rows []configRow
	row := func(of, members, path string) { rows = append(rows, configRow{of, leaf(p, members), path}) }
	each := func(of, name string, good, bad []string) {
		for _, v := range good {
			row(of, `"`+name+`":`+v, "")
		}
		for _, v := range bad {
			row(of, `"`+name+`":`+v, "$."+name)
		}
	}
	noText := []string{`7`, `true`, `["x"]`, `{"a":"x"}`, `null`}
	noNumber := []string{`"1"`, `true`, `[1]`, `null`}
	noInteger := append([]string{`1.5`}, noNumber...)
	noTruth := []string{`"true"`, `1`, `null`}
	noObject := []string{`"x"`, `7`, `["x"]`, `null`}

	for of, names := range map[string][]string{
		"S-080": {"name"},
		"S-087": {"prompt_id"},
		"S-106": {"resource_name", "deployment_id", "api_version"},
		"S-108": {"vendora_organization", "vendora_project"},
		"S-109": {"vendorb_beta"},
		"S-110": {"cloud_a_access_key_id", "cloud_a_secret_access_key", "cloud_a_region", "cloud_a_session_token"},
		"S-111": {"cloud_b_project_id", "cloud_b_region"},
		"S-113": {"cloud_c_region", "cloud_c_deployment_name", "cloud_c_endpoint_name", "cloud_c_api_version"},
		"S-114": {"cloud_c_entra_scope"},
	} {
		for _, name := range names {
			each(of, name, []string{`"x"`}, noText)
		}
	}
	each("S-092 S-507", "request_timeout", []string{`0`, `1`, `100`, `86400000`}, append([]string{`-1`}, noInteger...))
	each("S-105", "strict_vendora_compliance", []string{`true`, `false`}, noTruth)
	each("S-090", "weight", []string{`0`, `1`, `0.25`, `7`}, append([]string{`-1`, `-0.1`}, noNumber...))
	each("S-088", "override_params", []string{`{}`, `{"model":"m","deep":{"er":[null,1.0]}}`}, noObject)
	each("S-091", "on_status_codes", []string{`[]`, `[429,500]`}, []string{`["429"]`, `[429.5]`, `429`, `[true]`, `{}`})
	each("S-112", "cloud_b_service_account_json", []string{`{"type":"service_account"}`}, noObject)
	each("S-115", "cloud_c_deployment_type", []string{`"serverless"`, `"managed"`}, []string{`"dedicated"`, `"Managed"`, `""`, `7`, `null`})
	each("S-096", "cache", []string{`{"mode":"simple"}`, `{"mode":"semantic"}`}, []string{`true`, `"simple"`, `[]`, `null`})
	each("S-107", "deployments", []string{`[]`}, []string{`{}`, `"x"`, `null`})

	inside := func(of, where, before string, good, bad map[string]string) {
		for members := range good {
			row(of, fmt.Sprintf(where, before+members), "")
		}
		for members, path := range bad {
			row(of, fmt.Sprintf(where, before+members), path)
		}
	}
	inside("S-096", `"cache":{%s}`, ``, map[string]string{`"mode":"simple"`: ""}, map[string]string{
		``: "$.cache.mode", `"mode":"exact"`: "$.cache.mode", `"mode":1`: "$.cache.mode", `"max_age":60`: "$.cache.mode", `"mode":"simple","ttl":1`: "$.cache.ttl",
	})
	inside("S-097", `"cache":{"mode":"simple",%s}`, ``, map[string]string{`"max_age":1`: "", `"max_age":604800`: ""}, map[string]string{
		`"max_age":"60"`: "$.cache.max_age", `"max_age":1.5`: "$.cache.max_age", `"max_age":true`: "$.cache.max_age", `"max_age":null`: "$.cache.max_age",
	})
	inside("S-098", `"retry":{%s}`, ``, map[string]string{`"attempts":0`: "", `"attempts":5`: ""}, map[string]string{
		``: "$.retry.attempts", `"use_retry_after_headers":true`: "$.retry.attempts", `"attempts":1.5`: "$.retry.attempts", `"attempts":"3"`: "$.retry.attempts",
		`"attempts":true`: "$.retry.attempts", `"attempts":null`: "$.retry.attempts", `"attempts":-1`: "$.retry.attempts",
	})
	inside("S-099", `"retry":{"attempts":1,%s}`, ``, map[string]string{`"use_retry_after_headers":true`: "", `"use_retry_after_headers":false`: ""}, map[string]string{
		`"use_retry_after_headers":"true"`: "$.retry.use_retry_after_headers", `"use_retry_after_headers":1`: "$.retry.use_retry_after_headers", `"use_retry_after_headers":null`: "$.retry.use_retry_after_headers",
	})
	inside("S-100", `"retry":{"attempts":1,%s}`, ``, map[string]string{`"on_status_codes":[]`: "", `"on_status_codes":[429,500]`: ""}, map[string]string{
		`"on_status_codes":["500"]`: "$.retry.on_status_codes[0]", `"on_status_codes":500`: "$.retry.on_status_codes", `"on_status_codes":[500,null]`: "$.retry.on_status_codes[1]",
	})
	inside("S-102 S-505", `"cb_config":{"cooldown_interval":30000%s}`, ``, map[string]string{`,"failure_threshold":1`: "", `,"failure_threshold":2.5`: "", `,"failure_threshold":1000`: ""}, map[string]string{
		``: "$.cb_config.failure_threshold", `,"failure_threshold":0`: "$.cb_config.failure_threshold", `,"failure_threshold":0.5`: "$.cb_config.failure_threshold", `,"failure_threshold":0.999`: "$.cb_config.failure_threshold",
		`,"failure_threshold":-1`: "$.cb_config.failure_threshold", `,"failure_threshold":"3"`: "$.cb_config.failure_threshold", `,"failure_threshold":null`: "$.cb_config.failure_threshold",
	})
	inside("S-103 S-506", `"cb_config":{"failure_threshold":1%s}`, ``, map[string]string{`,"cooldown_interval":30000`: "", `,"cooldown_interval":30000.5`: "", `,"cooldown_interval":600000`: ""}, map[string]string{
		``: "$.cb_config.cooldown_interval", `,"cooldown_interval":29999`: "$.cb_config.cooldown_interval", `,"cooldown_interval":29999.9`: "$.cb_config.cooldown_interval",
		`,"cooldown_interval":0`: "$.cb_config.cooldown_interval", `,"cooldown_interval":"30000"`: "$.cb_config.cooldown_interval", `,"cooldown_interval":null`: "$.cb_config.cooldown_interval",
	})
	inside("S-104", `"cb_config":{"failure_threshold":1,"cooldown_interval":30000,%s}`, ``, map[string]string{`"failure_status_codes":[]`: "", `"failure_status_codes":[429,500]`: ""}, map[string]string{
		`"failure_status_codes":["500"]`: "$.cb_config.failure_status_codes[0]", `"failure_status_codes":[500.5]`: "$.cb_config.failure_status_codes[0]", `"failure_status_codes":500`: "$.cb_config.failure_status_codes",
	})
	const whole = `"deployment_id":"d","alias":"a","api_version":"v"`
	inside("S-107", `"deployments":[{%s}]`, ``, map[string]string{whole: "", whole + `,"is_default":true`: "", whole + `,"is_default":false`: ""}, map[string]string{
		`"alias":"a","api_version":"v"`:                     "$.deployments[0].deployment_id",
		`"deployment_id":"d","api_version":"v"`:             "$.deployments[0].alias",
		`"deployment_id":"d","alias":"a"`:                   "$.deployments[0].api_version",
		`"deployment_id":1,"alias":"a","api_version":"v"`:   "$.deployments[0].deployment_id",
		`"deployment_id":"d","alias":{},"api_version":"v"`:  "$.deployments[0].alias",
		`"deployment_id":"d","alias":"a","api_version":202`: "$.deployments[0].api_version",
		whole + `,"is_default":"yes"`:                       "$.deployments[0].is_default",
		whole + `,"region":"x"`:                             "$.deployments[0].region",
	})
	for _, r := range rows {
		prove(t, r.of, shown(p, r), func(t *testing.T) { g.checkRow(t, p, r) })
	}
}

// shown names a row by the members that matter.
func shown(p *provider, r configRow) string {
	verdict := " is refused"
	if r.path == "" {
		verdict = " is taken"
	}
	own := strings.TrimSuffix(leaf(p), "}")
	return strings.ReplaceAll(strings.ReplaceAll(r.config, own+",", "{"), "/", "|") + verdict
}

// checkRow fails the test unless the row's config is accepted, or refused for its
// path.
func (g *gateway) checkRow(t *testing.T, p *provider, r configRow) {
	t.Helper()
	if r.path == "" {
		g.takes(t, r.config)
		return
	}
	g.refuses(t, p, r.config, r.path)
}

// wide writes a conditional config with n targets.
func wide(n int) string {
	targets := slices.Repeat([]string{`{"virtual_key":"stored"}`}, n-1)
	return tree(`"mode":"conditional","conditions":[{"query":{},"then":"a"}],"default":"a"`, append(targets, `{"virtual_key":"stored","name":"a"}`)...)
}

// TestStrategiesHaveTheirRules proves what a strategy and its targets may be.
func TestStrategiesHaveTheirRules(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	a, b := leaf(p, `"name":"a"`), leaf(p, `"name":"b"`)
	conditional := func(members string) string { return tree(`"mode":"conditional"`+members, a, b) }
	const query, choice = `{"metadata.x":"1"}`, `{"query":{"metadata.x":"1"},"then":"a"}`
	const conditions, otherwise = `,"conditions":[` + choice + `]`, `,"default":"b"`
	for _, r := range []configRow{
		{"S-069", with(node(`"strategy":{}`), `"targets":[`+a+`]`), "$.strategy.mode"},
		{"S-069", with(node(`"strategy":"single"`), `"targets":[`+a+`]`), "$.strategy"},
		{"S-069", with(node(`"strategy":["single"]`), `"targets":[`+a+`]`), "$.strategy"},
		{"S-069", with(node(`"strategy":null`), `"targets":[`+a+`]`), "$.strategy"},
		{"S-070", tree(single, a), ""},
		{"S-070", tree(loadbalance, a), ""},
		{"S-070", tree(fallback, a), ""},
		{"S-070", conditional(conditions + otherwise), ""},
		{"S-070", tree(`"mode":"latency"`, a), ""},
		{"S-070", tree(`"mode":"cost"`, a), ""},
		{"S-070", tree(`"mode":"random"`, a), "$.strategy.mode"},
		{"S-070", tree(`"mode":"Fallback"`, a), "$.strategy.mode"},
		{"S-070", tree(`"mode":""`, a), "$.strategy.mode"},
		{"S-070", tree(`"mode":1`, a), "$.strategy.mode"},
		{"S-070", tree(`"mode":null`, a), "$.strategy.mode"},
		{"S-071", conditional(`,"conditions":[{"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-071", conditional(`,"conditions":[{"query":` + query + `}]` + otherwise), "$.strategy.conditions[0].then"},
		{"S-071", conditional(`,"conditions":[{"query":"x","then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-071", conditional(`,"conditions":[{"query":[],"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-071", conditional(`,"conditions":[{"query":` + query + `,"then":1}]` + otherwise), "$.strategy.conditions[0].then"},
		{"S-071", conditional(`,"conditions":["x"]` + otherwise), "$.strategy.conditions[0]"},
		{"S-071", conditional(`,"conditions":` + choice + otherwise), "$.strategy.conditions"},
		{"S-071", conditional(`,"conditions":[` + choice + `,{"query":{},"then":"a","else":"b"}]` + otherwise), "$.strategy.conditions[1].else"},
		{"S-072", conditional(conditions + `,"default":1`), "$.strategy.default"},
		{"S-072", conditional(conditions + `,"default":["b"]`), "$.strategy.default"},
		{"S-072", conditional(conditions + `,"default":null`), "$.strategy.default"},
		{"S-072", tree(`"mode":"conditional"`+conditions+`,"default":1`, a, leaf(p, `"name":"1"`)), "$.strategy.default"},
		{"S-072", tree(`"mode":"conditional"`+conditions+`,"default":true`, a, leaf(p, `"name":"true"`)), "$.strategy.default"},
		{"S-072", tree(single+`,"default":7`, a), "$.strategy.default"},
		{"S-072", tree(single+`,"default":null`, a), "$.strategy.default"},
		{"S-073", tree(fallback+`,"on_status_codes":[429,500]`, a), ""},
		{"S-073", tree(fallback+`,"on_status_codes":[]`, a), ""},
		{"S-073", tree(fallback+`,"on_status_codes":["500"]`, a), "$.strategy.on_status_codes[0]"},
		{"S-073", tree(fallback+`,"on_status_codes":[500.5]`, a), "$.strategy.on_status_codes[0]"},
		{"S-073", tree(fallback+`,"on_status_codes":500`, a), "$.strategy.on_status_codes"},
		{"S-073", tree(fallback+`,"on_status_codes":[429,null]`, a), "$.strategy.on_status_codes[1]"},
		{"S-074", tree(loadbalance+`,"on_status_codes":[500]`, a), ""},
		{"S-074", tree(single+`,"on_status_codes":[500]`, a), ""},
		{"S-075", conditional(otherwise), "$.strategy.conditions"},
		{"S-075", conditional(`,"conditions":[]` + otherwise), "$.strategy.conditions"},
		{"S-075", conditional(conditions), "$.strategy.default"},
		{"S-076", conditional(`,"conditions":[{"query":` + query + `,"then":"c"}]` + otherwise), "$.strategy.conditions[0].then"},
		{"S-076", conditional(conditions + `,"default":"c"`), "$.strategy.default"},
		{"S-076", tree(`"mode":"conditional","conditions":[{"query":`+query+`,"then":"inner"}]`+otherwise, with(tree(single, leaf(p, `"name":"inner"`)), `"name":"a"`), b), "$.strategy.conditions[0].then"},
		{"S-076", conditional(conditions + `,"default":"A"`), "$.strategy.default"},
		{"S-076", tree(fallback, a, b, a), "$.targets[2].name"},
		{"S-077", conditional(`,"conditions":[{"query":{"metadata.x":{"$like":"a"}},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-077", conditional(`,"conditions":[{"query":{"$nor":[` + query + `]},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query.$nor"},
		{"S-077", conditional(`,"conditions":[{"query":{"plan":"pro"},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query.plan"},
		{"S-077", conditional(`,"conditions":[{"query":{"metadata.x":{"$in":"a"}},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-077", conditional(`,"conditions":[{"query":{"metadata.x":{"$gt":"ten"}},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-077", conditional(`,"conditions":[{"query":{"metadata.x":{"$regex":"(?=a)"}},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query"},
		{"S-077", conditional(`,"conditions":[{"query":{"$and":` + query + `},"then":"a"}]` + otherwise), "$.strategy.conditions[0].query.$and"},
		{"S-078", tree(single, `"x"`), "$.targets[0]"},
		{"S-078", tree(single, a, `7`), "$.targets[1]"},
		{"S-078", tree(single, `null`), "$.targets[0]"},
		{"S-078", with(node(`"strategy":{"mode":"single"}`), `"targets":`+a), "$.targets"},
		{"S-078", nested(4, leaf(p)), ""},
		{"S-078", nested(16, leaf(p)), ""},
		{"S-078", nested(17, leaf(p)), "$" + strings.Repeat(".targets[0]", 16) + ".targets"},
		{"S-079", tree(fallback), "$.targets"},
		{"S-079", tree(single, tree(fallback)), "$.targets[0].targets"},
		{"S-079", tree(fallback, slices.Repeat([]string{leaf(p)}, 100)...), ""},
		{"S-079", tree(fallback, slices.Repeat([]string{leaf(p)}, 101)...), "$.targets"},
		{"S-078", tree(fallback, leaf(p), tree(fallback, slices.Repeat([]string{leaf(p)}, 50)...)), ""},
		{"S-078", tree(fallback, leaf(p), tree(fallback, slices.Repeat([]string{leaf(p)}, 51)...)), "$.targets[1].targets"},
		{"S-078", wide(1000), ""},
		{"S-078", wide(1001), "$.targets"},
		{"S-090", tree(loadbalance, with(a, `"weight":0`), with(b, `"weight":0`)), "$.targets"},
	} {
		prove(t, r.of, fmt.Sprintf("%.200s", shown(p, r)), func(t *testing.T) { g.checkRow(t, p, r) })
	}
}

func TestUnlistedPropertiesAreRefused(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, r := range []configRow{
		{"S-049", leaf(p, `"colour":"red"`), "$.colour"},
		{"S-049", leaf(p, `"retyr":{"attempts":1}`), "$.retyr"},
		{"S-049", leaf(p, `"Retry":{"attempts":1}`), "$.Retry"},
		{"S-049", leaf(p, `"authorization":"x"`), "$.authorization"},
		{"S-049", leaf(p, `"":1`), "$"},
		{"S-049", leaf(p, `"requestTimeout":500`), ""},
		{"S-050", tree(single, leaf(p, `"colour":"red"`)), "$.targets[0].colour"},
		{"S-050", tree(fallback, leaf(p), tree(single, leaf(p, `"colour":"red"`))), "$.targets[1].targets[0].colour"},
		{"S-050", tree(single+`,"colour":"red"`, leaf(p)), "$.strategy.colour"},
		{"S-050", leaf(p, `"retry":{"attempts":1,"delay":5}`), "$.retry.delay"},
		{"S-050", leaf(p, `"cb_config":{"failure_threshold":1,"cooldown_interval":30000,"colour":1}`), "$.cb_config.colour"},
		{"S-050", leaf(p, `"cache":{"mode":"simple","colour":1}`), "$.cache.colour"},
		{"S-050", leaf(p, `"deployments":[{"deployment_id":"d","alias":"a","api_version":"v","colour":1}]`), "$.deployments[0].colour"},
		{"S-050", leaf(p, `"hedge":{"delay_ms":9,"colour":1}`), "$.hedge.colour"},
		{"S-050", leaf(p, `"before_request_hooks":[{"id":"h","colour":1}]`), "$.before_request_hooks[0].colour"},
		{"S-050", leaf(p, `"after_request_hooks":[{"id":"h","colour":1}]`), "$.after_request_hooks[0].colour"},
		{"S-050", leaf(p, `"before_request_hooks":[{"id":"h","checks":[{"id":"c","parameters":{},"colour":1}]}]`), "$.before_request_hooks[0].checks[0].colour"},
		{"S-050", leaf(p, `"before_request_hooks":[{"id":"h","on_fail":{"colour":1}}]`), "$.before_request_hooks[0].on_fail.colour"},
		{"S-050", leaf(p, `"before_request_hooks":[{"id":"h","on_fail":{"feedback":{"value":1,"colour":1}}}]`), "$.before_request_hooks[0].on_fail.feedback.colour"},
		{"S-050", tree(`"mode":"loadbalance","sticky":{"enabled":true,"hash_fields":["metadata.u"],"colour":1}`, leaf(p)), "$.strategy.sticky.colour"},
		{"S-050", tree(`"mode":"conditional","conditions":[{"query":{"metadata.u":"x"},"then":"a","colour":1}],"default":"a"`, leaf(p, `"name":"a"`)), "$.strategy.conditions[0].colour"},
		{"S-050", leaf(p, `"override_params":{"colour":"red"}`), ""},
	} {
		prove(t, r.of, shown(p, r), func(t *testing.T) { g.checkRow(t, p, r) })
	}
	prove(t, "S-479", "every fault is reported at once", func(t *testing.T) {
		g.refuses(t, p, tree(`"mode":"fallbak"`, leaf(p, `"retry":{"attempts":"x"}`), leaf(p, `"colour":1`), leaf(p, `"weight":-1`)),
			"$.strategy.mode", "$.targets[0].retry.attempts", "$.targets[1].colour", "$.targets[2].weight")
	})
	prove(t, "S-479", "no credential is repeated", func(t *testing.T) {
		got := g.ask(t, leaf(p, `"colour":"`+credential+`"`))
		got.refused(t, http.StatusBadRequest)
		if strings.Contains(string(got.body), credential) {
			t.Errorf("the refusal repeats the credential: %s", got.body)
		}
	})
	for name, config := range map[string]string{
		"cut short":        `{"provider":`,
		"no number":        leaf(p, `"weight":NaN`),
		"a duplicate name": leaf(p, `"weight":1`, `"weight":2`),
		"one name in two":  leaf(p, `"request_timeout":1`, `"requestTimeout":2`),
		"text behind":      leaf(p) + `{}`,
		"more than 64 KB":  leaf(p, `"override_params":{"x":"`+strings.Repeat("x", 64<<10)+`"}`),
		"an open escape":   `{"provider":"\`,
	} {
		prove(t, "S-479 S-045", name, func(t *testing.T) {
			e := g.ask(t, config).refused(t, http.StatusBadRequest)
			if message, _ := e["message"].(string); e["code"] != "AB01" || !strings.HasPrefix(message, "AB01") {
				t.Errorf("code %v, message %q, want both to begin with AB01", e["code"], message)
			}
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-045", "less than 64 KB", func(t *testing.T) {
		p.forget()
		g.ask(t, leaf(p, `"override_params":{"x":"`+strings.Repeat("x", 63<<10)+`"}`)).wantOK(t)
		p.only(t)
	})
}
