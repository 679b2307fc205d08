package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// desk is a gateway with a saved prompt and a provider behind the entry @stored.
type desk struct {
	*gateway
	provider *provider
}

func newDesk(t *testing.T, say behaviour) *desk {
	t.Helper()
	p := newProvider(t, say)
	settings := strings.ReplaceAll("version: 1\nproviders:\n  - {slug: stored, provider: openai-compatible, custom_host: \"BASE\"}\n", "BASE", p.url)
	return &desk{launchFor(t, settings, "MODELGATE_TRUSTED_HOSTS=127.0.0.1"), p}
}

// save makes something and returns its slug.
func (d *desk) save(t *testing.T, path, body string) string {
	t.Helper()
	slug, _ := d.as(t, bootstrapKey, "POST", path, body).wantOK(t).object(t)["slug"].(string)
	if slug == "" {
		t.Fatalf("%s: nothing has a slug", path)
	}
	return slug
}

// greeting writes a prompt whose versions have different models.
func greeting(model string) string {
	return `"string":"[{\"role\":\"system\",\"content\":\"Be kind\"},{\"role\":\"user\",\"content\":\"Hello {{name}}{{missing}}\"}]","parameters":{"temperature":0.5,"max_tokens":9},"model":"` + model + `","virtual_key":"stored"`
}

// run runs a prompt and returns what reached the provider as well.
func (d *desk) run(t *testing.T, ref, body string, header ...string) (response, received) {
	t.Helper()
	d.provider.forget()
	got := d.do(t, "POST", "/v1/prompts/"+ref+"/completions", body, append([]string{"x-gateway-api-key", bootstrapKey}, header...)...).wantOK(t)
	return got, d.provider.only(t)
}

// wrong fails the test unless a prompt's request is refused for a parameter
// before anything is sent.
func (d *desk) wrong(t *testing.T, ref, body, param string) {
	t.Helper()
	d.provider.forget()
	d.as(t, bootstrapKey, "POST", "/v1/prompts/"+ref+"/completions", body).refusedFor(t, param)
	d.provider.wantNoRequests(t)
}

func TestSavedPrompts(t *testing.T) {
	d := newDesk(t, nil)
	slug := d.save(t, "/v1/prompts", `{"name":"Greeting",`+greeting("m1")+`}`)
	prove(t, "S-009 S-335 S-145 S-345", "a prompt answers with status, headers and a chat completion", func(t *testing.T) {
		got, sent := d.run(t, slug, `{"variables":{"name":"you"}}`)
		body := got.object(t)
		if _, ok := body["headers"].(map[string]any); body["status"] != "success" || !ok {
			t.Errorf("status %v, headers %v", body["status"], body["headers"])
		}
		var inner struct{ Body json.RawMessage }
		if err := json.Unmarshal(got.body, &inner); err != nil || string(inner.Body) != cannedBodies["/chat/completions"] {
			t.Errorf("body %.200s, want the provider's byte for byte", inner.Body)
		}
		if body["object"] != "chat.completion" || at(body, "choices") == nil || sent.uri != "/v1/chat/completions" {
			t.Errorf("the other members: %v; sent to %s", body["object"], sent.uri)
		}
		if kind, id := at(body, "headers", "content-type"), at(body, "headers", "x-gateway-request-id"); kind != "application/json" || id != got.header.Get("x-gateway-request-id") {
			t.Errorf("the headers in it are %v, want those of the response", body["headers"])
		}
	})
	prove(t, "S-339", "variables are filled in, and what is missing is empty", func(t *testing.T) {
		const hostile = `a "b" \\ {{name}} </x>` + "\n"
		value, _ := json.Marshal(hostile)
		_, sent := d.run(t, slug, `{"variables":{"name":`+string(value)+`,"other":"x"}}`)
		var body struct{ Messages []struct{ Content string } }
		if err := json.Unmarshal(sent.body, &body); err != nil || len(body.Messages) != 2 || body.Messages[1].Content != "Hello "+hostile {
			t.Errorf("the provider was sent %s: %v", sent.body, err)
		}
		if sent.field(t, "variables") != "" {
			t.Errorf("the variables went on: %s", sent.body)
		}
	})
	prove(t, "S-339", "every variable is filled in, and only an object has variables", func(t *testing.T) {
		two := d.save(t, "/v1/prompts", `{"name":"Two",`+strings.Replace(greeting("m"), "{{missing}}", " and {{other}}", 1)+`}`)
		for _, variables := range []string{`{"name":"you","other":"me"}`, `{"other":"me","name":"you"}`} {
			if _, sent := d.run(t, two, `{"variables":`+variables+`}`); !strings.Contains(sent.field(t, "messages"), `"Hello you and me"`) {
				t.Errorf("with %s the provider was sent %s", variables, sent.body)
			}
		}
		for _, variables := range []string{`["name"]`, `7`, `true`} {
			d.wrong(t, two, `{"variables":`+variables+`}`, "variables")
		}
	})
	prove(t, "S-340", "a value that is not a string is refused", func(t *testing.T) {
		for _, value := range []string{`1`, `true`, `null`, `["a"]`, `{"a":"b"}`} {
			d.wrong(t, slug, `{"variables":{"name":`+value+`}}`, "variables")
		}
		d.wrong(t, slug, `{"variables":"name"}`, "variables")
		d.wrong(t, slug, `{"variables":{"name":"you","other":1}}`, "variables.other")
	})
	prove(t, "S-342", "parameters at the root win", func(t *testing.T) {
		_, sent := d.run(t, slug, `{"temperature":1.5,"top_p":0.25,"model":"m9"}`)
		for name, want := range map[string]string{"temperature": "1.5", "top_p": "0.25", "model": `"m9"`, "max_tokens": "9"} {
			if got := sent.field(t, name); got != want {
				t.Errorf("%s = %s, want %s", name, got, want)
			}
		}
		stored := strings.Replace(greeting("m"), `"max_tokens":9`, `"stop":["a"],"response_format":{"type":"text"}`, 1)
		listing := d.save(t, "/v1/prompts", `{"name":"Listing",`+stored+`,"tools":[{"type":"function","function":{"name":"old"}}]}`)
		given := map[string]string{"stop": `["b","c"]`, "response_format": `{"type":"json_object"}`, "tools": `[{"type":"function","function":{"name":"new"}}]`}
		for name, value := range given {
			if _, sent := d.run(t, listing, `{"`+name+`":`+value+`}`); sent.field(t, name) != value {
				t.Errorf("with %s the provider was sent %s", value, sent.body)
			}
		}
		if _, sent := d.run(t, slug, `{"temperature":0,"max_tokens":null}`); sent.field(t, "temperature") != "0" || sent.field(t, "max_tokens") != "9" {
			t.Errorf("with a temperature of 0 and max_tokens of null the provider was sent %s", sent.body)
		}
	})
	prove(t, "S-343", "parameters inside of something else are refused", func(t *testing.T) {
		d.wrong(t, slug, `{"parameters":{"temperature":1}}`, "parameters")
		d.wrong(t, slug, `{"hyperparameters":{"temperature":1}}`, "hyperparameters")
	})
	prove(t, "S-344 S-495", "the ranges of chat hold", func(t *testing.T) {
		for name, values := range map[string][]string{"temperature": {"-0.1", "2.1", `"1"`}, "top_p": {"1.1"}, "n": {"0", "129"}, "max_tokens": {`"x"`},
			"frequency_penalty": {"2.1", "-2.1"}, "presence_penalty": {"2.1", "-2.1"}, "stop": {`["a","b","c","d","e"]`}, "logit_bias": {`{"1":101}`}, "top_logprobs": {"3"}, "tool_choice": {`"sometimes"`}} {
			for _, v := range values {
				d.wrong(t, slug, `{"`+name+`":`+v+`}`, name)
			}
		}
		d.run(t, slug, `{"temperature":0}`)
		d.run(t, slug, `{"temperature":2}`)
		hot := d.save(t, "/v1/prompts", `{"name":"Hot",`+strings.Replace(greeting("m"), "0.5", "3", 1)+`}`)
		d.wrong(t, hot, `{}`, "temperature")
	})
	prove(t, "S-009 S-026 S-027 S-035", "a config's tree serves it", func(t *testing.T) {
		p := fleet(t, withStatuses(503), nil, nil)
		config := tree(`"mode":"conditional","conditions":[{"query":{"metadata.plan":"pro"},"then":"b"}],"default":"a"`,
			leaf(p[2], `"name":"a"`), with(tree(fallback, leaf(p[0]), leaf(p[1])), `"name":"b"`, `"forward_headers":["x-own"]`))
		d.do(t, "POST", "/v1/prompts/"+slug+"/completions", `{}`, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config,
			"x-gateway-metadata", `{"plan":"pro"}`, "x-own", "v").wantOK(t)
		called(t, []int{1, 1, 0}, p...)
	})
	prove(t, "S-341", "stream is true or false, and false by default", func(t *testing.T) {
		d.wrong(t, slug, `{"stream":"true"}`, "stream")
		d.wrong(t, slug, `{"stream":1}`, "stream")
		if _, sent := d.run(t, slug, `{}`); sent.field(t, "stream") != "" {
			t.Errorf("stream = %s", sent.field(t, "stream"))
		}
		streaming := d.save(t, "/v1/prompts", `{"name":"Streaming",`+strings.Replace(greeting("m"), `"temperature":0.5`, `"stream":true`, 1)+`}`)
		for _, body := range []string{`{}`, `{"stream":false}`, `{"stream":null}`} {
			if got, sent := d.run(t, streaming, body); sent.field(t, "stream") == "true" || got.object(t)["status"] != "success" {
				t.Errorf("%s: a prompt that is stored with stream true was sent as %s and answered with %s", body, sent.body, got.body)
			}
		}
	})
}

func TestSavedPromptsStream(t *testing.T) {
	const events = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	d := newDesk(t, streams(events))
	slug := d.save(t, "/v1/prompts", `{"name":"Greeting",`+greeting("m1")+`}`)
	prove(t, "S-346 S-472", "in events that end in [DONE], without an envelope", func(t *testing.T) {
		got, sent := d.run(t, slug, `{"stream":true}`)
		if string(got.body) != events || got.header.Get("Content-Type") != "text/event-stream" || sent.field(t, "stream") != "true" {
			t.Errorf("stream at the provider = %s, content type %q, body %q; want true, text/event-stream and the provider's events",
				sent.field(t, "stream"), got.header.Get("Content-Type"), got.body)
		}
	})
}

func TestVersionsOfPrompts(t *testing.T) {
	d := newDesk(t, nil)
	slug := d.save(t, "/v1/prompts", `{"name":"Greeting",`+greeting("m1")+`}`)
	put := func(t *testing.T, body string) response {
		t.Helper()
		return d.as(t, bootstrapKey, "PUT", "/v1/prompts/"+slug, body)
	}
	model := func(t *testing.T, ref string) string {
		t.Helper()
		_, sent := d.run(t, ref, `{}`)
		return sent.field(t, "model")
	}
	prove(t, "S-336 S-337 S-338", "none is the published one, others are named", func(t *testing.T) {
		put(t, `{`+greeting("m2")+`}`).wantOK(t)
		for ref, want := range map[string]string{slug: "m1", slug + "@latest": "m2", slug + "@1": "m1", slug + "@2": "m2"} {
			if got := model(t, ref); got != `"`+want+`"` {
				t.Errorf("%s runs %s, want %s", ref, got, want)
			}
		}
		d.as(t, bootstrapKey, "PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":2}`).wantOK(t)
		if got := model(t, slug); got != `"m2"` {
			t.Errorf("after publishing it runs %s", got)
		}
		d.as(t, bootstrapKey, "PUT", "/v1/prompts/"+slug+"/makeDefault", `{"version":1}`).wantOK(t)
	})
	prove(t, "S-338", "one that is not there is not found", func(t *testing.T) {
		d.provider.forget()
		for _, ref := range []string{slug + "@99", slug + "@0", slug + "@production", "pp-none"} {
			d.as(t, bootstrapKey, "POST", "/v1/prompts/"+ref+"/completions", `{}`).refused(t, http.StatusNotFound)
		}
		d.provider.wantNoRequests(t)
	})
	prove(t, "S-400 S-524", "patch is true or false", func(t *testing.T) {
		for _, value := range []string{`"true"`, `1`, `null`, `{}`} {
			if got := put(t, `{"patch":`+value+`,"model":"x"}`); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "AB01") {
				t.Errorf("patch %s: status %d: %.200s", value, got.status, got.body)
			}
		}
	})
	prove(t, "S-401 S-402 S-524", "patch fills what is missing from the newest version, published or not", func(t *testing.T) {
		put(t, `{"string":"newest","parameters":{"top_p":1},"model":"m3","metadata":{"a":1}}`).wantOK(t)
		put(t, `{"patch":true,"parameters":{"temperature":1}}`).wantOK(t)
		got := d.as(t, bootstrapKey, "GET", "/v1/prompts/"+slug+"@latest", "").wantOK(t).object(t)
		metadata, _ := got["template_metadata"].(map[string]any)
		if got["string"] != "newest" || got["model"] != "m3" || fmt.Sprint(got["parameters"]) != "map[temperature:1]" || metadata["a"] != json.Number("1") || got["prompt_version"] != json.Number("4") {
			t.Errorf("patched: %v", got)
		}
		if got := d.as(t, bootstrapKey, "GET", "/v1/prompts/"+slug, "").object(t); got["prompt_version"] != json.Number("1") {
			t.Errorf("published is version %v, want 1", got["prompt_version"])
		}
	})
	prove(t, "S-401 S-402", "a patch of one field keeps each of the others", func(t *testing.T) {
		for i, tt := range []struct{ set, want string }{
			{`"model":"m4"`, `newest map[temperature:1] m4 map[a:1]`},
			{`"string":"other"`, `other map[temperature:1] m4 map[a:1]`},
			{`"metadata":{"b":2}`, `other map[temperature:1] m4 map[b:2]`},
			{`"parameters":{"top_p":0.5}`, `other map[top_p:0.5] m4 map[b:2]`},
		} {
			put(t, `{"patch":true,`+tt.set+`}`).wantOK(t)
			got := d.as(t, bootstrapKey, "GET", "/v1/prompts/"+slug+"@latest", "").wantOK(t).object(t)
			if now := fmt.Sprint(got["string"], got["parameters"], got["model"], got["template_metadata"]); strings.ReplaceAll(now, " ", "") != strings.ReplaceAll(tt.want, " ", "") || got["prompt_version"] != json.Number(fmt.Sprint(5+i)) {
				t.Errorf("after %s version %v is %s, want %s", tt.set, got["prompt_version"], now, tt.want)
			}
		}
	})
	prove(t, "S-403", "without patch nothing is filled", func(t *testing.T) {
		for _, body := range []string{`{"parameters":{}}`, `{"parameters":{},"model":"m"}`, `{"patch":false,"string":"x","model":"m"}`, `{"string":"x","parameters":{}}`} {
			d.as(t, bootstrapKey, "PUT", "/v1/prompts/"+slug, body).told(t, 400, "AB01")
		}
		if got := d.as(t, bootstrapKey, "GET", "/v1/prompts/"+slug+"@latest", "").object(t); got["prompt_version"] != json.Number("8") {
			t.Errorf("the newest is version %v, want 8", got["prompt_version"])
		}
	})
	prove(t, "S-401", "a patch keeps tools, functions, the choice among them, the provider and how the template is read", func(t *testing.T) {
		const kept = `"functions":[{"name":"f"}],"tools":[{"type":"function","function":{"name":"g"}}],"tool_choice":"auto","virtual_key":"stored","is_raw_template":1`
		put(t, `{"string":"[{\"role\":\"user\",\"content\":\"hi\"}]","parameters":{},"model":"m",`+kept+`}`).wantOK(t)
		put(t, `{"patch":true,"model":"m9"}`).wantOK(t)
		got := d.as(t, bootstrapKey, "GET", "/v1/prompts/"+slug+"@latest", "").wantOK(t).object(t)
		now := map[string]any{"model": got["model"]}
		for _, name := range []string{"functions", "tools", "tool_choice", "virtual_key", "is_raw_template"} {
			now[name] = got[name]
		}
		want := map[string]any{}
		if err := json.Unmarshal([]byte(`{"model":"m9",`+kept+`}`), &want); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(now) != fmt.Sprint(want) {
			t.Errorf("patched %v, want %v", now, want)
		}
	})
}

func TestAConfigRunsAStoredPrompt(t *testing.T) {
	d := newDesk(t, nil)
	slug := d.save(t, "/v1/prompts", `{"name":"Greeting",`+greeting("m1")+`}`)
	const body = `{"model":"mine","messages":[{"role":"user","content":"own"}],"temperature":0.1,"top_p":0.9,"variables":{"name":"you"}}`
	ask := func(t *testing.T, config string) response {
		t.Helper()
		d.provider.forget()
		return d.do(t, "POST", "/v1/chat/completions", body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config)
	}
	for name, config := range map[string]string{
		"alone": node(`"prompt_id":"` + slug + `"`), "in a target": tree(single, node(`"prompt_id":"`+slug+`@1"`)), "with a provider": node(`"prompt_id":"`+slug+`"`, `"provider":"@stored"`),
	} {
		prove(t, "S-087 S-060", "its settings make the request, "+name, func(t *testing.T) {
			ask(t, config).wantOK(t)
			sent := d.provider.only(t)
			for field, want := range map[string]string{"model": `"m1"`, "temperature": "0.5", "max_tokens": "9", "top_p": "0.9", "variables": "",
				"messages": `[{"role":"system","content":"Be kind"},{"role":"user","content":"Hello you"}]`} {
				if got := sent.field(t, field); got != want {
					t.Errorf("%s = %s, want %s", field, got, want)
				}
			}
		})
	}
	prove(t, "S-087", "targets do not inherit it", func(t *testing.T) {
		ask(t, node(`"prompt_id":"`+slug+`"`, `"strategy":{"mode":"single"}`, `"targets":[{"provider":"@stored"}]`)).wantOK(t)
		if got := d.provider.only(t).field(t, "model"); got != `"mine"` {
			t.Errorf("model = %s", got)
		}
	})
	prove(t, "S-087", "an unknown prompt is reported", func(t *testing.T) {
		ask(t, node(`"prompt_id":"pp-none"`)).refused(t, http.StatusNotFound)
		ask(t, node(`"prompt_id":"`+slug+`@9"`)).refused(t, http.StatusNotFound)
		d.provider.wantNoRequests(t)
	})
	prove(t, "S-060", "works with the provider of the headers", func(t *testing.T) {
		bare := d.save(t, "/v1/prompts", `{"name":"Bare","string":[{"role":"user","content":"x"}],"parameters":{}}`)
		p := newProvider(t, nil)
		d.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-config", node(`"prompt_id":"`+bare+`"`))...).wantOK(t)
		if auth := p.only(t).header.Get("Authorization"); auth != "Bearer "+credential {
			t.Errorf("Authorization at the provider = %q, want the client's credential", auth)
		}
	})
}

func TestPromptsAreSeenAndWrittenAsTheOrganisationSays(t *testing.T) {
	h := populate(t)
	slug, _ := h.root(t, "POST", "/v1/prompts", `{"name":"Greeting","string":"Hello","parameters":{},"model":"m"}`)["slug"].(string)
	reads := [][3]string{
		{"GET", "/v1/prompts", ""}, {"GET", "/v1/prompts/" + slug, ""}, {"GET", "/v1/prompts/" + slug + "/versions", ""}, {"GET", "/v1/prompts/" + slug + "/versions/1", ""},
		{"GET", "/v1/prompts/partials", ""}, {"GET", "/v1/prompts/partials/NEW", ""}, {"GET", "/v1/prompts/partials/NEW/versions", ""},
		{"GET", "/v1/labels", ""}, {"GET", "/v1/labels/NEW", ""}, {"GET", "/v1/collections", ""}, {"GET", "/v1/collections/NEW", ""},
	}
	writes := [][3]string{
		{"PUT", "/v1/prompts/" + slug, `{"name":"Other"}`}, {"PUT", "/v1/prompts/" + slug + "/makeDefault", `{"version":1}`},
		{"PUT", "/v1/prompts/" + slug + "/versions/1", `{"label_id":null}`}, {"DELETE", "/v1/prompts/NEW", ""}, {"POST", "/v1/prompts", `{"name":"x","string":"y","workspace_id":"default"}`},
		{"POST", "/v1/prompts/partials", `{"name":"x","string":"y","workspace_id":"default"}`}, {"PUT", "/v1/prompts/partials/NEW", `{"name":"Other"}`},
		{"PUT", "/v1/prompts/partials/NEW/makeDefault", `{"version":1}`}, {"DELETE", "/v1/prompts/partials/NEW", ""},
		{"POST", "/v1/labels", `{"name":"own-NUMBER","workspace_id":"default"}`}, {"PUT", "/v1/labels/NEW", `{"description":"x"}`}, {"DELETE", "/v1/labels/NEW", ""},
		{"POST", "/v1/collections", `{"name":"x","workspace_id":"default"}`}, {"PUT", "/v1/collections/NEW", `{"name":"Other"}`}, {"DELETE", "/v1/collections/NEW", ""},
	}
	made := 0
	// fresh returns a path with the id of a new object for NEW.
	fresh := func(t *testing.T, path string) string {
		t.Helper()
		family, rest, ok := strings.Cut(path, "/NEW")
		if !ok {
			return path
		}
		body := map[string]string{"/v1/prompts": `{"name":"New","string":"Hello","parameters":{},"model":"m"}`, "/v1/prompts/partials": `{"name":"New","string":"Hello"}`,
			"/v1/labels": fmt.Sprintf(`{"name":"new-%d"}`, made), "/v1/collections": `{"name":"New"}`}[family]
		return family + "/" + fmt.Sprint(h.root(t, "POST", family, body)["id"]) + rest
	}
	check := func(t *testing.T, who string, calls [][3]string, may bool) {
		t.Helper()
		want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[may]
		for _, call := range calls {
			made++
			path := fresh(t, call[1])
			if got := h.as(t, h.sessions[who], call[0], path, strings.Replace(call[2], "NUMBER", fmt.Sprint(made), 1)); got.status != want {
				t.Errorf("%s %s by the %s: status %d, want %d: %.200s", call[0], path, who, got.status, want, got.body)
			}
		}
	}
	for _, tt := range []struct {
		of, who, name string
		calls         [][3]string
		standard      bool
	}{
		{"S-462 S-531", "member", "membersViewPrompts", reads, true},
		{"S-463 S-531", "member", "membersWritePrompts", writes, false},
		{"S-464 S-531", "manager", "managersViewPrompts", reads, true},
		{"S-465 S-531", "manager", "managersWritePrompts", writes, true},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			h.set(t, "", "")
			check(t, tt.who, tt.calls, tt.standard)
			for _, on := range []bool{false, true} {
				h.set(t, fmt.Sprintf("%q:%t", tt.name, on), "")
				check(t, tt.who, tt.calls, on)
				check(t, "admin", tt.calls, true)
			}
		})
	}
	prove(t, "S-463 S-531", "running one is the scopes' business", func(t *testing.T) {
		h.set(t, `"membersViewPrompts":false`, "")
		body := `{"model":"m","stream":false}`
		got := h.do(t, "POST", "/v1/prompts/"+slug+"/completions", body, "x-gateway-api-key", h.keys["member"], "x-gateway-provider", "openai-compatible",
			"x-gateway-custom-host", h.provider.url, "Authorization", "Bearer "+credential)
		got.wantOK(t)
		if got := h.as(t, h.keys["member"], "POST", "/v1/prompts/"+slug+"/render", `{}`); got.status != http.StatusForbidden {
			t.Errorf("render without its scope: status %d", got.status)
		}
	})
}
