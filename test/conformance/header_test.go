package conformance

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestForwardedHeaders(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	chat := modelRoutes[0]
	const odd = "x-ODD-heaDER_1"
	value := "  \tKeep THIS:  a=\"b\";, é \t "
	own := []string{odd, strings.TrimSpace(value), "X-Second", "two", "X-Unnamed", "stays"}
	config := func(names string) []string {
		return append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config",
			`{"provider":"openai-compatible","api_key":"` + credential + `","custom_host":"` + p.url + `","forward_headers":` + names + `}`}, own...)
	}
	for _, tt := range []struct {
		of, name, path, body string
		header               []string
	}{
		{"S-093 S-094", "named in a config", chat.path, chat.body, config(`["` + odd + `","X-Second"]`)},
		{"S-449 S-094", "named in a header, by commas", chat.path, chat.body, to(p, append(own, "x-gateway-forward-headers", odd+", X-Second")...)},
		{"S-449 S-094", "named in a header, as JSON", chat.path, chat.body, to(p, append(own, "x-gateway-forward-headers", `["`+odd+`", "X-Second"]`)...)},
		{"S-449 S-094", "named on pass-through", "/v1/things", `{}`, to(p, append(own, "x-gateway-forward-headers", odd+",X-Second")...)},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			p.forget()
			g.do(t, "POST", tt.path, tt.body, tt.header...).wantOK(t)
			in := p.only(t)
			if got, ok := in.line(odd); !ok || got != strings.TrimSpace(value) {
				t.Errorf("%s = %q (%t), want %q in this spelling; the provider got:\n%s", odd, got, ok, strings.TrimSpace(value), in.head)
			}
			if got, ok := in.line("X-Second"); !ok || got != "two" {
				t.Errorf("X-Second = %q (%t), want two", got, ok)
			}
			if n := strings.Count(strings.ToLower(in.head), strings.ToLower("\n"+odd)); n != 1 {
				t.Errorf("the header arrived %d times, want once:\n%s", n, in.head)
			}
			if _, ok := in.line("X-Unnamed"); ok && tt.path == chat.path {
				t.Errorf("an unnamed header arrived:\n%s", in.head)
			}
		})
	}
	prove(t, "S-093", "one that is sent twice", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, chat.body, append(config(`["X-Second"]`), "X-Second", "three")...).wantOK(t)
		if got := p.only(t).header["X-Second"]; !slices.Equal(got, []string{"two", "three"}) {
			t.Errorf("X-Second = %q, want both values", got)
		}
	})
	for _, r := range modelRoutes {
		prove(t, "S-095 S-420", "headers that nobody named stay here on "+r.path, func(t *testing.T) {
			p.forget()
			g.do(t, "POST", r.path, r.body, to(p, "X-Custom", "c-1", "X-Forwarded-For", "10.1.2.3", "Openai-Beta", "x", "Accept-Language", "de",
				"User-Agent", "agent-of-the-client", "Cookie", "session=secret", "Accept-Encoding", "x-odd-coding", "X-Api-Key", "another-key")...).wantOK(t)
			in := p.only(t)
			for _, word := range []string{"c-1", "10.1.2.3", "Openai-Beta", "Accept-Language", "agent-of-the-client", "session=secret", "x-odd-coding", "another-key"} {
				if strings.Contains(in.head, word) {
					t.Errorf("%q arrived at the provider:\n%s", word, in.head)
				}
			}
		})
	}
	prove(t, "S-094", "a header with two values arrives with both, in order", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, chat.body, to(p, "X-Several", "b", "X-Several", "a, c", "x-gateway-forward-headers", "X-Several")...).wantOK(t)
		if got := p.only(t).header["X-Several"]; !slices.Equal(got, []string{"b", "a, c"}) {
			t.Errorf("X-Several at the provider = %q, want b and then a, c", got)
		}
	})
	prove(t, "S-093 S-449", "a name that the request lacks is skipped", func(t *testing.T) {
		p.forget()
		g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-forward-headers", "X-Absent")...).wantOK(t)
		p.only(t)
	})
	for _, names := range []string{`["a"`, `[1]`, `not a name`, "x-gateway-api-key", "Host", "Connection"} {
		prove(t, "S-449", strings.ReplaceAll(names, "/", "")+" can't be forwarded", func(t *testing.T) {
			p.forget()
			got := g.do(t, "POST", chat.path, chat.body, to(p, "x-gateway-forward-headers", names)...)
			got.refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
	for _, names := range []string{`"X-One"`, `[7]`, `{"a":1}`} {
		prove(t, "S-093", "forward_headers "+names+" is refused", func(t *testing.T) {
			p.forget()
			g.do(t, "POST", chat.path, chat.body, config(names)...).refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func TestTraces(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	key := []string{"x-gateway-api-key", bootstrapKey}
	for _, r := range append(slices.Clone(modelRoutes), modelRoute{path: "/v1/things", body: `{}`}) {
		prove(t, "S-037 S-437", "a trace id on "+r.path+" is returned and recorded", func(t *testing.T) {
			id := "trace of " + r.path
			got := g.do(t, "POST", r.path, r.body, to(p, "x-gateway-trace-id", id)...).wantOK(t)
			if back := got.header.Get("x-gateway-trace-id"); back != id {
				t.Errorf("x-gateway-trace-id of the response = %q, want %q", back, id)
			}
			if e := g.entry(t, got); e["trace_id"] != id {
				t.Errorf("recorded trace_id = %v, want %q", e["trace_id"], id)
			}
		})
	}
	prove(t, "S-437", "two requests of one trace are found together", func(t *testing.T) {
		ids := map[any]bool{}
		for range 2 {
			got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-trace-id", "pair-1")...).wantOK(t)
			ids[g.entry(t, got)["id"]] = true
		}
		g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-trace-id", "pair-2")...).wantOK(t)
		found, _ := g.do(t, "GET", "/v1/logs?trace_id=pair-1", "", key...).wantOK(t).object(t)["data"].([]any)
		if len(found) != 2 || !ids[at(found[0], "id")] || !ids[at(found[1], "id")] {
			t.Errorf("the log of the trace has %d entries, want the two", len(found))
		}
		tree := g.do(t, "GET", "/v1/logs/traces/pair-1", "", key...).wantOK(t).object(t)
		spans, _ := tree["tree"].([]any)
		if fmt.Sprint(tree["spans"]) != "2" || len(spans) != 2 || !ids[at(spans[0], "id")] || !ids[at(spans[1], "id")] {
			t.Errorf("the trace = %v, want the two spans", tree)
		}
	})
	prove(t, "S-438", "a trace id is made for each request that has none", func(t *testing.T) {
		seen := map[string]bool{}
		for _, r := range append(slices.Clone(modelRoutes), modelRoutes[0], modelRoute{path: modelRoutes[0].path, body: `{`}, modelRoute{path: "/v1/things", body: `{}`}) {
			got := g.do(t, "POST", r.path, r.body, to(p)...)
			id := got.header.Get("x-gateway-trace-id")
			if !uuid.MatchString(id) || seen[id] {
				t.Errorf("x-gateway-trace-id = %q, want a fresh UUID", id)
			}
			seen[id] = true
			if e := g.entry(t, got); e["trace_id"] != id {
				t.Errorf("recorded trace_id = %v, want %q", e["trace_id"], id)
			}
		}
	})
	for name, refused := range map[string]func(*testing.T) response{
		"with an unknown key": func(t *testing.T) response {
			return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", "unknown")
		},
		"with another method": func(t *testing.T) response { return g.do(t, "PATCH", "/v1/things", `{}`, to(p)...) },
		"without a provider":  func(t *testing.T) response { return g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, key...) },
	} {
		prove(t, "S-438", "a request that is refused "+name+" has a trace id, too", func(t *testing.T) {
			got := refused(t)
			if id := got.header.Get("x-gateway-trace-id"); got.status < 400 || !uuid.MatchString(id) {
				t.Errorf("status %d, x-gateway-trace-id %q, want a refusal with a UUID", got.status, id)
			}
		})
	}
	prove(t, "S-037", "a trace of W3C Trace Context is taken for one", func(t *testing.T) {
		const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "traceparent", "00-"+trace+"-"+span+"-01")...).wantOK(t)
		e := g.entry(t, got)
		if got.header.Get("x-gateway-trace-id") != trace || e["trace_id"] != trace || e["parent_span_id"] != span {
			t.Errorf("returned %q, recorded %v below %v, want %s below %s", got.header.Get("x-gateway-trace-id"), e["trace_id"], e["parent_span_id"], trace, span)
		}
	})
	prove(t, "S-437", "x-gateway-trace-id names the trace before W3C Trace Context, which still names the parent", func(t *testing.T) {
		const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-trace-id", "mine", "traceparent", "00-"+trace+"-"+span+"-01")...).wantOK(t)
		e := g.entry(t, got)
		if got.header.Get("x-gateway-trace-id") != "mine" || e["trace_id"] != "mine" || e["parent_span_id"] != span {
			t.Errorf("returned %q, recorded %v below %v, want mine below %s", got.header.Get("x-gateway-trace-id"), e["trace_id"], e["parent_span_id"], span)
		}
	})
	prove(t, "S-287", "span id, parent and name are recorded", func(t *testing.T) {
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-span-id", "s-1", "x-gateway-parent-span-id", "s-0", "x-gateway-span-name", "first step")...).wantOK(t)
		e := g.entry(t, got)
		if e["span_id"] != "s-1" || e["parent_span_id"] != "s-0" || e["span_name"] != "first step" {
			t.Errorf("recorded %v, %v, %v, want s-1, s-0, first step", e["span_id"], e["parent_span_id"], e["span_name"])
		}
	})
}

func TestMetadata(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, nil)
	key := []string{"x-gateway-api-key", bootstrapKey}
	for _, r := range append(slices.Clone(modelRoutes), modelRoute{path: "/v1/things", body: `{}`}) {
		prove(t, "S-038 S-439", "metadata on "+r.path+" is recorded and found", func(t *testing.T) {
			team := "Team " + r.path
			got := g.do(t, "POST", r.path, r.body, to(p, "x-gateway-metadata", `{"team":"`+team+`","_user":"u-1","_environment":"test"}`)...).wantOK(t)
			e := g.entry(t, got)
			if at(e, "metadata", "team") != team || at(e, "metadata", "_user") != "u-1" || at(e, "metadata", "_environment") != "test" {
				t.Errorf("recorded metadata = %v", e["metadata"])
			}
			found, _ := g.do(t, "GET", "/v1/logs?metadata.team="+strings.ReplaceAll(team, " ", "%20"), "", key...).wantOK(t).object(t)["data"].([]any)
			if len(found) != 1 || at(found[0], "id") != e["id"] {
				t.Errorf("the log of %q has %d entries, want the one", team, len(found))
			}
		})
	}
	for _, value := range []string{`team=a`, `["a"]`, `"a"`, `{"a":`, `7`, `null`, `{"a":"` + strings.Repeat("x", 513) + `"}`} {
		prove(t, "S-439", fmt.Sprintf("%.20s", value)+" is refused", func(t *testing.T) {
			p.forget()
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-metadata", value)...).refusedFor(t, "x-gateway-metadata")
			p.wantNoRequests(t)
		})
	}
	for _, value := range []string{`{}`, `{"a":"` + strings.Repeat("x", 512) + `"}`} {
		prove(t, "S-439", fmt.Sprintf("%.20s", value)+" is taken", func(t *testing.T) {
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-metadata", value)...).wantOK(t)
		})
	}
	prove(t, "S-284", "the user of the body is recorded, unless the metadata has one", func(t *testing.T) {
		body := `{"model":"m","messages":[{"role":"user","content":"x"}],"user":"from the body"}`
		for _, body := range []string{body, strings.Replace(body, `{"model"`, `{"stream":true,"model"`, 1)} {
			if e := g.entry(t, g.do(t, "POST", "/v1/chat/completions", body, to(p)...).wantOK(t)); at(e, "metadata", "_user") != "from the body" {
				t.Errorf("%s: recorded metadata = %v", body, e["metadata"])
			}
		}
		if e := g.entry(t, g.do(t, "POST", "/v1/chat/completions", body, to(p, "x-gateway-metadata", `{"_user":"from the header"}`)...).wantOK(t)); at(e, "metadata", "_user") != "from the header" {
			t.Errorf("recorded metadata = %v", e["metadata"])
		}
	})
	prove(t, "S-288", "the cache namespace and the refresh decide about the cache", func(t *testing.T) {
		p := newProvider(t, saying("fine"))
		for i, tt := range []struct {
			header []string
			calls  int // of the provider so far
		}{
			{nil, 1}, {nil, 1},
			{[]string{"x-gateway-cache-namespace", "n"}, 2}, {[]string{"x-gateway-cache-namespace", "n"}, 2}, {[]string{"x-gateway-cache-namespace", "m"}, 3},
			{[]string{"x-gateway-cache-force-refresh", "false"}, 3}, {[]string{"x-gateway-cache-force-refresh", "true"}, 4},
		} {
			got := g.ask(t, leaf(p, `"cache":{"mode":"simple"}`), tt.header...).wantOK(t)
			g.entry(t, got) // it has ended, and its response is stored
			if n := p.hits(); n != tt.calls {
				t.Errorf("request %d with %v: the provider was called %d times so far, want %d", i+1, tt.header, n, tt.calls)
			}
		}
	})
	prove(t, "S-288", "metadata, cache namespace and refresh are taken together", func(t *testing.T) {
		p.forget()
		got := g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-metadata", `{"a":"b"}`, "x-gateway-cache-namespace", "n", "x-gateway-cache-force-refresh", "true")...).wantOK(t)
		if at(g.entry(t, got), "metadata", "a") != "b" || string(p.only(t).body) != modelRoutes[0].body {
			t.Error("the metadata was not recorded or the body was changed")
		}
	})
}

// hang waits without a response until the gateway disconnects.
func hang(_ http.ResponseWriter, r *http.Request, _ received) { <-r.Context().Done() }

// hangInBody sends part of a response body, then waits.
func hangInBody(w http.ResponseWriter, r *http.Request, _ received) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(`{"id":`))
	http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestRequestTimeouts(t *testing.T) {
	g, _ := start(t)
	const limit = 300 * time.Millisecond
	header := []string{"x-gateway-request-timeout", "300"}
	config := func(p *provider) []string {
		return []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config",
			`{"provider":"openai","api_key":"k","custom_host":"` + p.url + `","request_timeout":300}`}
	}
	for _, tt := range []struct {
		of, name string
		say      behaviour
		route    modelRoute
		config   bool
	}{
		{"S-447 S-507", "chat", hang, modelRoutes[0], false},
		{"S-447 S-507", "a chat stream", hang, chatStream, false},
		{"S-447", "embeddings", hang, modelRoutes[2], false},
		{"S-447", "a response that stops in its body", hangInBody, modelRoutes[0], false},
		{"S-447", "pass-through", hang, modelRoute{path: "/v1/things", body: `{}`}, false},
		{"S-507", "a limit in a config", hang, modelRoutes[0], true},
	} {
		t.Run(tt.of+" "+tt.name, func(t *testing.T) {
			covers(t, tt.of)
			t.Parallel()
			p := newProvider(t, tt.say)
			headers := to(p, header...)
			if tt.config {
				headers = config(p)
			}
			began := time.Now()
			got := g.do(t, "POST", tt.route.path, tt.route.body, headers...)
			took := time.Since(began)
			e := got.refused(t, http.StatusRequestTimeout)
			if took < limit || took > 30*time.Second {
				t.Errorf("the response came after %v, want soon after %v", took, limit)
			}
			if !strings.Contains(e["message"].(string), "300") {
				t.Errorf("message = %q, want one that names the limit", e["message"])
			}
		})
	}
	prove(t, "S-447", "a stream that has begun ends in an error", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request, _ received) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"first"},"finish_reason":null}]}`)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		got := g.do(t, "POST", chatStream.path, chatStream.body, to(p, "x-gateway-request-timeout", "2000")...)
		if body := string(got.body); got.status != 200 || !strings.Contains(body, "first") || !strings.Contains(body, `"code":"timeout"`) || strings.Contains(body, "[DONE]") {
			t.Errorf("status %d: %s; want the text so far, an error and no terminator", got.status, body)
		}
	})
	prove(t, "S-447 S-448", "targets with longer timeouts share the limit", func(t *testing.T) {
		p := fleet(t, hang, hang)
		began := time.Now()
		got := g.ask(t, tree(fallback, leaf(p[0], `"request_timeout":50000`), leaf(p[1])), "x-gateway-request-timeout", "300")
		took := time.Since(began)
		got.refused(t, http.StatusRequestTimeout)
		if took < limit || took > 30*time.Second {
			t.Errorf("the response came after %v, want soon after %v", took, limit)
		}
		called(t, []int{1, 0}, p...)
	})
	prove(t, "S-447 S-507", "a response within the limit arrives", func(t *testing.T) {
		p := newProvider(t, nil)
		for _, value := range []string{"1000", "20000", "86400000"} {
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-request-timeout", value)...).wantOK(t)
		}
	})
	for _, value := range []string{"abc", "1.5", "-5", "300ms", "1e3", "", "99999999999999999999"} {
		prove(t, "S-447", fmt.Sprintf("%q is refused", value), func(t *testing.T) {
			p := newProvider(t, nil)
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p, "x-gateway-request-timeout", value)...).refusedFor(t, "x-gateway-request-timeout")
			p.wantNoRequests(t)
		})
	}
	for _, value := range []string{`1.5`, `"300"`, `true`} {
		prove(t, "S-507", "request_timeout "+value+" in a config is refused", func(t *testing.T) {
			p := newProvider(t, nil)
			g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, "x-gateway-api-key", bootstrapKey, "x-gateway-config",
				`{"provider":"openai","api_key":"k","custom_host":"`+p.url+`","request_timeout":`+value+`}`).refused(t, http.StatusBadRequest)
			p.wantNoRequests(t)
		})
	}
}
