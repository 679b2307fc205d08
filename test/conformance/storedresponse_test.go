package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestIncludeIsReadInEverySpelling(t *testing.T) {
	g, _ := start(t)
	for _, query := range []string{
		"include=file_search_call.results",
		"include=message.input_image.image_url&include=computer_call_output.output.image_url",
		"include[]=file_search_call.results&include[]=message.input_image.image_url",
		"include%5B%5D=file_search_call.results",
		"include[1]=file_search_call.results&include[0]=message.input_image.image_url",
		"include=file_search_call.results,message.input_image.image_url",
		"include=file_search_call.results%2Cmessage.input_image.image_url",
	} {
		prove(t, "S-375 S-376", query, func(t *testing.T) {
			p := newProvider(t, says(http.StatusOK, "application/json", storedResponse))
			g.do(t, "GET", "/v1/responses/resp_1?"+query, "", to(p)...).wantOK(t)
			if in := p.only(t); in.uri != "/v1/responses/resp_1?"+query {
				t.Errorf("the provider got %s, want the query as it was sent", in.uri)
			}
		})
	}
}

func TestStoredResponsesAreReadWithAKeyAlone(t *testing.T) {
	stored := strings.Replace(storedResponse, "STATUS", "incomplete", 1)
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		body := stored
		if r.Method == http.MethodPost {
			body = `{"id":"resp_1","object":"response","status":"completed","model":"m-1","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]}`
		}
		says(http.StatusOK, "application/json", body)(w, r, in)
	})
	g := launchFor(t, strings.NewReplacer("BASE", p.url, "DEFAULTED", hashOf(defaultedKey)).Replace(`
version: 1
providers:
  - {slug: first, provider: openai, custom_host: "BASE", api_key: "${FIRST_KEY}"}
configs:
  - {slug: pc-main, config: {provider: "@first"}}
keys:
  - {name: defaulted, sha256: DEFAULTED, config: pc-main}
`), "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "FIRST_KEY=sk-first-provider-key-0123456789")
	g.do(t, "POST", "/v1/responses", `{"model":"m-1","input":"hi"}`, "x-gateway-api-key", defaultedKey).wantOK(t)
	for name, key := range map[string]string{"with the key that created it": defaultedKey, "with another key of the workspace": bootstrapKey} {
		prove(t, "S-377 S-378", name, func(t *testing.T) {
			if got := g.do(t, "GET", "/v1/responses/resp_1", "", "x-gateway-api-key", key).wantOK(t); string(got.body) != stored {
				t.Errorf("the client got %s", got.body)
			}
		})
		prove(t, "S-378", "an unknown id, "+name, func(t *testing.T) {
			g.do(t, "GET", "/v1/responses/resp_2", "", "x-gateway-api-key", key).refused(t, http.StatusNotFound)
		})
		prove(t, "S-375", "an unknown value of include, "+name, func(t *testing.T) {
			g.do(t, "GET", "/v1/responses/resp_1?include=everything", "", "x-gateway-api-key", key).refusedFor(t, "include")
		})
	}
}

// TestTranslatedResponsesHaveEveryField reads from the responses protocol what a provider
// of another one says.
func TestTranslatedResponsesHaveEveryField(t *testing.T) {
	g, _ := start(t)
	x := byProvider("anthropic")
	const (
		plain = `{"model":"claude-sonnet-4-5","input":"hi"}`
		asked = `{"model":"claude-sonnet-4-5","input":"hi","instructions":"be brief","metadata":{"a":"b"},"tools":[{"type":"function","name":"look","parameters":{}}],"tool_choice":"required",` +
			`"parallel_tool_calls":false,"max_output_tokens":5000,"text":{"format":{"type":"text"}},"truncation":"auto","user":"u"}`
		warm = `{"model":"claude-sonnet-4-5","input":"hi","temperature":0.5}`
		top  = `{"model":"claude-sonnet-4-5","input":"hi","top_p":0.5}`
		deep = `{"model":"claude-sonnet-4-5","input":"hi","reasoning":{"effort":"low"},"max_output_tokens":5000}`
	)
	for _, r := range []struct {
		body   string
		shapes []shape
	}{
		{plain, []shape{
			has("S-193", `"response"`, "object"),
			has("S-195 S-240", `"completed"`, "status"),
			has("S-196", `"claude-x"`, "model"),
			has("S-197", `null`, "instructions"),
			has("S-203", `true`, "parallel_tool_calls"),
			has("S-205", `"message"`, "output", 1, "type"),
			has("S-205", `"assistant"`, "output", 1, "role"),
			has("S-205", `"completed"`, "output", 1, "status"),
			has("S-205", `"output_text"`, "output", 1, "content", 0, "type"),
			has("S-205", `"Hello"`, "output", 1, "content", 0, "text"),
			has("S-204", `"reasoning"`, "output", 0, "type"),
			has("S-204", `"function_call"`, "output", 2, "type"),
			has("S-207", `null`, "error"),
			has("S-208", `null`, "incomplete_details"),
			has("S-209", `null`, "previous_response_id"),
			has("S-211", `null`, "max_output_tokens"),
			has("S-212", `{"format":{"type":"text"}}`, "text"),
			has("S-213", `"disabled"`, "truncation"),
			has("S-214", `null`, "user"),
			has("S-215", `7`, "usage", "input_tokens"),
			has("S-215", `0`, "usage", "input_tokens_details", "cached_tokens"),
			has("S-215", `2`, "usage", "output_tokens"),
			has("S-215", `0`, "usage", "output_tokens_details", "reasoning_tokens"),
			has("S-215", `9`, "usage", "total_tokens"),
		}},
		{asked, []shape{
			has("S-197", `"be brief"`, "instructions"),
			has("S-198", `{"a":"b"}`, "metadata"),
			has("S-201", `"look"`, "tools", 0, "name"),
			has("S-202", `"required"`, "tool_choice"),
			has("S-203", `false`, "parallel_tool_calls"),
			has("S-211", `5000`, "max_output_tokens"),
			has("S-213", `"auto"`, "truncation"),
			has("S-214", `"u"`, "user"),
		}},
		{warm, []shape{has("S-199", `0.5`, "temperature")}},
		{top, []shape{has("S-200", `0.5`, "top_p")}},
		{deep, []shape{has("S-210", `"low"`, "reasoning", "effort")}},
	} {
		p := newProvider(t, speaks(true))
		got := g.do(t, "POST", "/v1/responses", r.body, x.to(p)...).wantOK(t).object(t)
		for _, s := range r.shapes {
			prove(t, s.of, fmt.Sprintf("%v is %s", s.path, s.want), func(t *testing.T) {
				if value := jsonText(at(got, s.path...)); value != s.want {
					t.Errorf("%v = %s, want %s: %s", s.path, value, s.want, jsonText(got))
				}
			})
		}
	}
	prove(t, "S-192 S-194 S-206", "it has an id and a time, and no output_text", func(t *testing.T) {
		p := newProvider(t, speaks(true))
		got := g.do(t, "POST", "/v1/responses", plain, x.to(p)...).wantOK(t).object(t)
		id, _ := got["id"].(string)
		created, err := strconv.Atoi(fmt.Sprint(got["created_at"]))
		if !strings.HasPrefix(id, "resp_") || err != nil || created < 1_700_000_000 {
			t.Errorf("id %v, created_at %v, want an id that begins with resp_ and Unix seconds", got["id"], got["created_at"])
		}
		if text, ok := got["output_text"]; ok {
			t.Errorf("output_text = %v; client libraries compute it", text)
		}
	})
	for _, tt := range []struct{ of, param, value string }{
		{"S-199", "temperature", "2.1"}, {"S-199", "temperature", "-0.1"}, {"S-200", "top_p", "1.1"}, {"S-202", "tool_choice", "1"},
		{"S-203", "parallel_tool_calls", "1"}, {"S-211", "max_output_tokens", "1.5"}, {"S-213", "truncation", `"long"`}, {"S-214", "user", "1"},
	} {
		prove(t, tt.of, tt.param+" "+tt.value+" is refused", func(t *testing.T) {
			p := newProvider(t, speaks(true))
			g.do(t, "POST", "/v1/responses", strings.Replace(plain, "{", `{"`+tt.param+`":`+tt.value+`,`, 1), x.to(p)...).refusedFor(t, tt.param)
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-208 S-474 S-195", "a response cut short by its limit says so", func(t *testing.T) {
		cut := strings.Replace(messagesResponse(false), "end_turn", "max_tokens", 1)
		p := newProvider(t, says(http.StatusOK, "application/json", cut))
		got := g.do(t, "POST", "/v1/responses", plain, x.to(p)...).wantOK(t).object(t)
		if got["status"] != "incomplete" || at(got, "incomplete_details", "reason") != "max_output_tokens" {
			t.Errorf("status %v with %v, want incomplete with the reason max_output_tokens", got["status"], got["incomplete_details"])
		}
	})
	prove(t, "S-207 S-473 S-195", "a response that fails on its way says so", func(t *testing.T) {
		begun, _, _ := strings.Cut(messagesStream, "event: content_block_stop")
		p := newProvider(t, streams(begun+"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broken\"}}\n\n"))
		body := string(g.do(t, "POST", "/v1/responses", strings.Replace(plain, "{", `{"stream":true,`, 1), x.to(p)...).body)
		for _, want := range []string{"event: response.failed", `"status":"failed"`, `"code":"server_error"`, "broken"} {
			if !strings.Contains(body, want) {
				t.Errorf("the stream has no %s: %s", want, body)
			}
		}
	})
	prove(t, "S-198 S-502", "metadata beyond the limits is refused", func(t *testing.T) {
		p := newProvider(t, speaks(true))
		long := strings.Repeat("k", 513)
		body := strings.Replace(plain, "{", `{"metadata":{"`+long+`":"`+long+`"},`, 1)
		g.do(t, "POST", "/v1/responses", body, x.to(p)...).refusedFor(t, "metadata")
		p.wantNoRequests(t)
	})
}
