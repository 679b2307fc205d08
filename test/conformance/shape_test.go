package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// at returns the element of a decoded JSON document at a path of names and
// indexes, nil where there is none.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// shape is a field that a response has to have, with its value as JSON.
type shape struct {
	of   string
	path []any
	want string
}

func has(of, want string, path ...any) shape { return shape{of, path, want} }

// TestFieldsOfResponsesArrive reads from the client's side every field that the
// specification names, from a provider that sends all of them.
func TestFieldsOfResponsesArrive(t *testing.T) {
	g, _ := start(t)
	for _, r := range []struct {
		modelRoute
		shapes []shape
	}{
		{modelRoutes[0], []shape{
			has("S-132", `"chatcmpl-1"`, "id"),
			has("S-133", `"stop"`, "choices", 0, "finish_reason"),
			has("S-133", `0`, "choices", 0, "index"),
			has("S-134", `"Hello"`, "choices", 0, "message", "content"),
			has("S-134", `"assistant"`, "choices", 0, "message", "role"),
			has("S-135", `"call_1"`, "choices", 0, "message", "tool_calls", 0, "id"),
			has("S-135", `"function"`, "choices", 0, "message", "tool_calls", 0, "type"),
			has("S-135", `"look"`, "choices", 0, "message", "tool_calls", 0, "function", "name"),
			has("S-135", `"{\"q\": 1}"`, "choices", 0, "message", "tool_calls", 0, "function", "arguments"),
			has("S-136", `{"arguments":"{\"q\": 1}","name":"look"}`, "choices", 0, "message", "function_call"),
			has("S-137", `[{"text":"Hello","type":"text"}]`, "choices", 0, "message", "content_blocks"),
			has("S-138 S-133", `{"bytes":[72,101],"logprob":-0.25,"token":"Hello","top_logprobs":[{"bytes":[72,105],"logprob":-1.5,"token":"Hi"},{"bytes":[72,101],"logprob":-2.5,"token":"Hey"}]}`, "choices", 0, "logprobs", "content", 0),
			has("S-139 S-044", `1700000001`, "created"),
			has("S-140", `"m-1"`, "model"),
			has("S-141", `"chat.completion"`, "object"),
			has("S-142", `"fp_1"`, "system_fingerprint"),
			has("S-143", `{"completion_tokens":2,"prompt_tokens":7,"total_tokens":9}`, "usage"),
		}},
		{modelRoutes[1], []shape{
			has("S-146", `"cmpl-1"`, "id"),
			has("S-146 S-044", `1700000002`, "created"),
			has("S-146", `"m-2"`, "model"),
			has("S-146", `"text_completion"`, "object"),
			has("S-146", `"fp_2"`, "system_fingerprint"),
			has("S-147", `"stop"`, "choices", 0, "finish_reason"),
			has("S-147", `0`, "choices", 0, "index"),
			has("S-147", `"one"`, "choices", 0, "text"),
			has("S-147", `{"text_offset":[0],"token_logprobs":[-0.5],"tokens":["one"],"top_logprobs":[{"one":-0.5}]}`, "choices", 0, "logprobs"),
			has("S-148", `{"completion_tokens":1,"prompt_tokens":3,"total_tokens":4}`, "usage"),
		}},
		{modelRoutes[2], []shape{
			has("S-150", `{"embedding":[0.1,-0.20],"index":0,"object":"embedding"}`, "data", 0),
			has("S-150", `{"embedding":[1,2],"index":1,"object":"embedding"}`, "data", 1),
			has("S-151", `"list"`, "object"),
			has("S-151", `"e-1"`, "model"),
			has("S-151", `{"prompt_tokens":5,"total_tokens":5}`, "usage"),
		}},
		{modelRoutes[3], []shape{
			has("S-152 S-044", `1700000003`, "created"),
			has("S-152 S-328", `"https://images.example.com/1?se=60m\u0026sig=a%2Fb"`, "data", 0, "url"),
			has("S-500", `"https://images.example.com/1?se=60m\u0026sig=a%2Fb"`, "data", 0, "url"),
			has("S-152", `"a cat, sitting"`, "data", 0, "revised_prompt"),
			has("S-152", `"aGVsbG8="`, "data", 1, "b64_json"),
		}},
	} {
		p := newProvider(t, nil)
		got := g.do(t, "POST", r.path, r.body, to(p)...).wantOK(t).object(t)
		for _, s := range r.shapes {
			prove(t, s.of, fmt.Sprint(r.path, " ", s.path), func(t *testing.T) {
				if v, err := json.Marshal(at(got, s.path...)); err != nil || string(v) != s.want {
					t.Errorf("%v = %s (%v), want %s", s.path, v, err, s.want)
				}
			})
		}
	}
	prove(t, "S-142", "in each chunk of a stream", func(t *testing.T) {
		p := newProvider(t, streams(strings.ReplaceAll(chatEvents, `"model":"m"`, `"model":"m","system_fingerprint":"fp_3"`)+done))
		got := g.do(t, "POST", chatStream.path, chatStream.body, to(p)...).wantOK(t)
		if n, all := strings.Count(string(got.body), `"system_fingerprint":"fp_3"`), strings.Count(string(got.body), `"object":"chat.completion.chunk"`); n == 0 || n != all {
			t.Errorf("the fingerprint is in %d of %d chunks: %s", n, all, got.body)
		}
	})
}

func TestLogProbabilitiesOfAnotherProtocolArrive(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-138", "a provider of another protocol", func(t *testing.T) {
		const body = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello you"}]},"finishReason":"STOP","index":0,"logprobsResult":{` +
			`"topCandidates":[{"candidates":[{"token":"Hello","logProbability":-0.25},{"token":"Hi","logProbability":-1.5},{"token":"Hey","logProbability":-2.5}]},` +
			`{"candidates":[{"token":" you","logProbability":-0.5},{"token":" me","logProbability":-3}]}],` +
			`"chosenCandidates":[{"token":"Hello","logProbability":-0.25},{"token":" you","logProbability":-0.5}]}}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"totalTokenCount":3}}`
		const ask = `"model":"gemini-2.5-flash","logprobs":true,"top_logprobs":3,"messages":[{"role":"user","content":"x"}]}`
		want := []string{"Hello -0.25", "= Hello -0.25", "= Hi -1.5", "= Hey -2.5", " you -0.5", "=  you -0.5", "=  me -3"}
		check := func(list any) {
			t.Helper()
			if got := tokens(list); !slices.Equal(got, want) {
				t.Errorf("tokens and alternatives %q, want %q", got, want)
			}
		}
		p := newProvider(t, says(200, "application/json", body))
		check(at(g.do(t, "POST", "/v1/chat/completions", `{`+ask, of("google", p)...).wantOK(t).object(t), "choices", 0, "logprobs", "content"))
		p = newProvider(t, says(200, "text/event-stream", "data: "+body+"\r\n\r\n"))
		stream := g.do(t, "POST", "/v1/chat/completions", `{"stream":true,`+ask, of("google", p)...).wantOK(t).body
		var streamed []any
		for line := range strings.SplitSeq(string(stream), "\n") {
			var chunk any
			json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &chunk)
			list, _ := at(chunk, "choices", 0, "logprobs", "content").([]any)
			streamed = append(streamed, list...)
		}
		check(streamed)
	})
}

// tokens lists the tokens of log probabilities, each followed by its alternatives.
func tokens(list any) (out []string) {
	for _, e := range list.([]any) {
		out = append(out, fmt.Sprint(at(e, "token"), " ", at(e, "logprob")))
		if at(e, "top_logprobs") != nil {
			for _, other := range tokens(at(e, "top_logprobs")) {
				out = append(out, "= "+other)
			}
		}
	}
	return out
}

// TestTheSimulatorRespondsInForm holds against a provider that was not written
// for this suite: `modelgate simulate`.
func TestTheSimulatorRespondsInForm(t *testing.T) {
	g, _ := start(t)
	p := &provider{url: simulate(t) + "/v1"}
	chat := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...).wantOK(t).object(t)
	text := g.do(t, "POST", modelRoutes[1].path, modelRoutes[1].body, to(p)...).wantOK(t).object(t)
	vectors := g.do(t, "POST", modelRoutes[2].path, modelRoutes[2].body, to(p)...).wantOK(t).object(t)
	image := g.do(t, "POST", modelRoutes[3].path, modelRoutes[3].body, to(p)...).wantOK(t).object(t)
	unixSeconds := regexp.MustCompile(`^\d{10}$`)
	for _, tt := range []struct {
		of, name string
		doc      map[string]any
	}{{"S-139 S-044", "chat", chat}, {"S-146 S-044", "text", text}, {"S-152 S-044", "image", image}} {
		prove(t, tt.of, tt.name+" says when in ten digits", func(t *testing.T) {
			if created := fmt.Sprint(tt.doc["created"]); !unixSeconds.MatchString(created) {
				t.Errorf("created = %s, want Unix seconds", created)
			}
		})
	}
	for _, tt := range []struct {
		of, name string
		doc      map[string]any
	}{{"S-143", "chat", chat}, {"S-148", "text", text}} {
		prove(t, tt.of, tt.name+" tokens add up", func(t *testing.T) {
			var n [3]int64
			for i, name := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
				number, _ := at(tt.doc, "usage", name).(json.Number)
				v, err := number.Int64()
				if err != nil || v <= 0 {
					t.Errorf("usage.%s = %v, want a positive integer", name, number)
				}
				n[i] = v
			}
			if n[0]+n[1] != n[2] {
				t.Errorf("usage = %v, want the total to be the sum", n)
			}
		})
	}
	prove(t, "S-150 S-151", "two inputs give two vectors in order", func(t *testing.T) {
		if at(vectors, "data", 1, "index") != json.Number("1") || at(vectors, "data", 1, "object") != "embedding" || vectors["object"] != "list" {
			t.Errorf("embeddings = %.300v", vectors)
		}
	})
	prove(t, "S-133 S-134", "the message is the assistant's", func(t *testing.T) {
		if at(chat, "choices", 0, "message", "role") != "assistant" || at(chat, "choices", 0, "finish_reason") != "stop" {
			t.Errorf("chat = %.300v", chat)
		}
	})
}

func TestMessagesReachTheProviderWhole(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-144", "system and user, with every other field", func(t *testing.T) {
		p := newProvider(t, nil)
		messages := `[ {"role":"system","content":"be brief","name":"s"},{"role":"user","content":[{"type":"text","text":"h\u00e9"},{"type":"image_url","image_url":{"url":"data:,"}}],"odd":{"deep":[1.50]}}, {"role":"assistant","content":null,"refusal":null} ]`
		g.do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":`+messages+`,"unknown_parameter":[1.0]}`, to(p)...).wantOK(t)
		in := p.only(t)
		if got := in.field(t, "messages"); got != messages {
			t.Errorf("messages at the provider = %s, want %s", got, messages)
		}
		if got := in.field(t, "unknown_parameter"); got != "[1.0]" {
			t.Errorf("unknown_parameter at the provider = %s, want [1.0]", got)
		}
	})
}

func TestParametersThatAreNotSentAreNotMadeUp(t *testing.T) {
	g, _ := start(t)
	for of, r := range map[string]modelRoute{"S-282": modelRoutes[0], "S-301 S-304": modelRoutes[1]} {
		prove(t, of, r.path, func(t *testing.T) {
			p := newProvider(t, nil)
			g.do(t, "POST", r.path, r.body, to(p)...).wantOK(t)
			if in := p.only(t); string(in.body) != r.body {
				t.Errorf("the provider got %s, want %s", in.body, r.body)
			}
		})
	}
	prove(t, "S-293", "a prompt of null becomes the end-of-text token", func(t *testing.T) {
		p := newProvider(t, nil)
		g.do(t, "POST", "/v1/completions", `{"model":"m", "prompt": null}`, to(p)...).wantOK(t)
		if got := p.only(t).field(t, "prompt"); got != `"<|endoftext|>"` {
			t.Errorf("prompt at the provider = %s", got)
		}
	})
	for of, body := range map[string]string{
		"S-275": `{"model":"m","messages":[{"role":"user","content":"x"}],"thinking":{"type":"enabled","budget_tokens":9}}`,
		"S-307": `{"model":"m","prompt":"x","suffix":"y"}`,
	} {
		prove(t, of, "a provider that knows it not answers with its own error", func(t *testing.T) {
			p := newProvider(t, says(400, "application/json", `{"error":{"message":"no such thing","type":"invalid_request_error","param":"p","code":"c"}}`))
			path := "/v1/completions"
			if of == "S-275" {
				path = "/v1/chat/completions"
			}
			got := g.do(t, "POST", path, body, to(p)...)
			e := at(got.object(t), "error")
			if got.status != 400 || at(e, "message") != "no such thing" || at(e, "source") != "provider" {
				t.Errorf("status %d, body %s, want the provider's 400 marked as its own", got.status, got.body)
			}
		})
	}
	prove(t, "S-274", "reasoning that a provider sends arrives", func(t *testing.T) {
		body := `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x","reasoning_content":"because"}}]}`
		p := newProvider(t, says(200, "application/json", body))
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-strict-vendora-compliance", "false")...).wantOK(t)
		if string(got.body) != body {
			t.Errorf("answer = %s, want %s", got.body, body)
		}
	})
}
