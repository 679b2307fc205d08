package conformance

import (
	"slices"
	"strings"
	"testing"
)

// An image that a model drew is in a member of its message that only OpenRouter has.
func TestDrawnImagesReachTheNextModel(t *testing.T) {
	g, _ := start(t)
	const picture = "iVBORw0KGgo="
	drawn := turns(`{"role":"assistant","content":"here","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+picture+`"}}]}`, `{"role":"user","content":"bluer"}`)
	for id, path := range map[string][]string{"openai": {"image_url"}, "anthropic": {`"type":"image"`}, "google": {"inlineData"}, "bedrock": {`"image"`}} {
		prove(t, "M-203", "to "+id, func(t *testing.T) {
			sent, announced, got := g.sentTo(t, id, "/v1/chat/completions", drawn)
			if !strings.Contains(sent, picture) || !strings.Contains(sent, path[0]) || strings.Contains(sent, `"images"`) {
				t.Errorf("status %d, announced %q, sent %s; want the image in the provider's own form", got.status, announced, sent)
			}
			if user := strings.LastIndex(sent, "bluer"); strings.Count(sent, picture) != 1 || user < 0 {
				t.Errorf("sent %s; want the image once, and the next turn", sent)
			}
		})
	}
	prove(t, "M-203", "to a model without images", func(t *testing.T) {
		sent, announced, got := g.sentTo(t, "ollama", "/v1/chat/completions", strings.Replace(drawn, "data:image/png;base64,"+picture, "https://images.example.com/1", 1))
		if !strings.Contains(sent, "images.example.com") && !strings.Contains(announced, "image") && got.status != 400 {
			t.Errorf("status %d, announced %q, sent %s; want the image sent, announced or refused", got.status, announced, sent)
		}
	})
	prove(t, "M-203", "to the vendor of the member", func(t *testing.T) {
		if sent, _, _ := g.sentTo(t, "openrouter", "/v1/chat/completions", drawn); !strings.Contains(sent, `"images":[{"type":"image_url"`) {
			t.Errorf("sent %s, want the member as it was", sent)
		}
	})
}

func TestBetaFlagsReachTheirVendor(t *testing.T) {
	g, _ := start(t)
	const flags = "a-2025,b-2025"
	dropped := []string{`anthropic-beta;dropped="a-2025"`, `anthropic-beta;dropped="b-2025"`}
	bodies := map[string]string{"/v1/messages": turns(`{"role":"assistant","content":"y"}`, `{"role":"user","content":"z"}`), "/v1/chat/completions": modelRoutes[0].body}
	for _, tt := range []struct {
		name, path, id string
		more           []string
		sent           string
		announced      []string
	}{
		{"a client of the messages API", "/v1/messages", "anthropic", nil, flags, nil},
		{"a client of another API", "/v1/chat/completions", "anthropic", nil, flags, nil},
		{"next to the flags of an option", "/v1/messages", "anthropic", []string{"x-gateway-vendorb-beta", "own-1,a-2025"}, "own-1,a-2025,b-2025", nil},
		{"a provider of another format", "/v1/messages", "openai", nil, "", dropped},
		{"a provider of another format, a client of its own", "/v1/chat/completions", "openai", nil, "", dropped},
		{"a host without beta features", "/v1/messages", "google", nil, "", dropped},
	} {
		prove(t, "M-205", tt.name, func(t *testing.T) {
			p := newProvider(t, says(418, "application/json", `{"message":"enough"}`))
			got := g.do(t, "POST", tt.path, bodies[tt.path], of(tt.id, p, append([]string{"anthropic-beta", flags}, tt.more...)...)...)
			if sent := strings.Join(p.only(t).header.Values("anthropic-beta"), ","); sent != tt.sent {
				t.Errorf("the provider got the flags %q, want %q", sent, tt.sent)
			}
			announced := strings.Split(got.header.Get("x-gateway-params"), ", ")
			for _, want := range tt.announced {
				if !slices.Contains(announced, want) {
					t.Errorf("announced %q, want %s", announced, want)
				}
			}
			if tt.announced == nil && strings.Contains(strings.Join(announced, ","), "anthropic-beta;dropped") {
				t.Errorf("announced %q although the flags were sent", announced)
			}
		})
	}
	prove(t, "M-205", "flags of a client of another API part its cached responses", func(t *testing.T) {
		p := newProvider(t, says(200, "application/json", messagesResponse(false)))
		config := node(`"provider":"anthropic"`, `"api_key":"`+credential+`"`, `"custom_host":"`+p.url+`"`, `"cache":{"mode":"simple"}`)
		for _, tt := range []struct{ flags, status string }{{"a-2025", "MISS"}, {"b-2025", "MISS"}, {"a-2025", "HIT"}} {
			got := g.ask(t, config, "anthropic-beta", tt.flags).wantOK(t)
			g.entry(t, got) // it has ended, and its response is stored
			if status := got.header.Get("x-gateway-cache-status"); status != tt.status {
				t.Errorf("cache status with %s = %s, want %s", tt.flags, status, tt.status)
			}
		}
	})
	for _, tt := range []struct{ name, client, option, sent, announced string }{
		{"the version of the client", "2024-01-01", "", "2024-01-01", ""},
		{"no version", "", "", "2023-06-01", ""},
		{"a version that an option replaces", "2024-01-01", "2025-01-01", "2025-01-01", "anthropic-version;ignored"},
		{"the version that an option has too", "2025-01-01", "2025-01-01", "2025-01-01", ""},
	} {
		prove(t, "M-205", tt.name, func(t *testing.T) {
			p := newProvider(t, says(418, "application/json", `{"message":"enough"}`))
			var header []string
			if tt.client != "" {
				header = append(header, "anthropic-version", tt.client)
			}
			if tt.option != "" {
				header = append(header, "x-gateway-vendorb-version", tt.option)
			}
			got := g.do(t, "POST", "/v1/messages", bodies["/v1/messages"], of("anthropic", p, header...)...)
			if sent := p.only(t).header.Values("anthropic-version"); !slices.Equal(sent, []string{tt.sent}) {
				t.Errorf("the provider got the version %q, want %q", sent, tt.sent)
			}
			announced := got.header.Get("x-gateway-params")
			if strings.Contains(announced, "anthropic-version;ignored") != (tt.announced != "") {
				t.Errorf("announced %q, want %q", announced, tt.announced)
			}
		})
	}
}

func TestMembersThatNoFormatKnowsDoNotVanish(t *testing.T) {
	g, _ := start(t)
	const member = `"unmeant":"words of the client",`
	places := map[string]struct{ body, announced string }{
		"a message": {turns(`{"role":"assistant",`+member+`"content":"y"}`, `{"role":"user","content":"z"}`), "messages.unmeant;dropped"},
		"a part":    {turns(`{"role":"user","content":[{` + member + `"type":"text","text":"z"}]}`), "messages.content.unmeant;dropped"},
		"a call":    {turns(strings.Replace(callTurn("call_1", "{}"), `{"id":`, `{`+member+`"id":`, 1), resultTurn("call_1")), "messages.tool_calls.unmeant;dropped"},
		"a tool":    {strings.Replace(turns(`{"role":"user","content":"z"}`), `"max_tokens"`, strings.Replace(lookTool, `{"type":"function"`, `{`+member+`"type":"function"`, 1)+`,"max_tokens"`, 1), "tools.unmeant;dropped"},
	}
	for place, tt := range places {
		for _, id := range []string{"anthropic", "google", "bedrock", "cohere"} {
			prove(t, "M-208", place+" to "+id, func(t *testing.T) {
				sent, announced, got := g.sentTo(t, id, "/v1/chat/completions", tt.body)
				if !strings.Contains(sent, "unmeant") && !slices.Contains(strings.Split(announced, ", "), tt.announced) {
					t.Errorf("status %d, announced %q, sent %s; want %s", got.status, announced, sent, tt.announced)
				}
			})
		}
		prove(t, "M-208", place+" to a provider of the client's format", func(t *testing.T) {
			if sent, announced, _ := g.sentTo(t, "openai-compatible", "/v1/chat/completions", tt.body); sent != tt.body || strings.Contains(announced, "unmeant") {
				t.Errorf("announced %q, sent %s; want the body as it was", announced, sent)
			}
		})
		prove(t, "M-208", place+" with a config that refuses what is unsupported", func(t *testing.T) {
			p := newProvider(t, nil)
			config := node(`"provider":"anthropic"`, `"api_key":"`+credential+`"`, `"custom_host":"`+p.url+`"`, `"on_unsupported":"refuse"`)
			got := g.do(t, "POST", "/v1/chat/completions", tt.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", config)
			if e := got.refused(t, 400); e["code"] != "unsupported_parameter" {
				t.Errorf("refused with %v", e)
			}
			p.wantNoRequests(t)
		})
	}
}
