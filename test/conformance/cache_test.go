package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// numbered answers each call with another text, in the form of the path.
func numbered() behaviour {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, in received) {
		text := fmt.Sprint("answer ", n.Add(1))
		path, _, _ := strings.Cut(in.uri, "?")
		switch {
		case strings.Contains(string(in.body), `"stream":true`):
			const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%s}]}`
			says(200, "text/event-stream", fmt.Sprintf(chunk+"\n\n"+chunk+"\n\ndata: [DONE]\n\n", text, "null", "", `"stop"`))(w, r, in)
		case strings.HasSuffix(path, "/chat/completions"):
			saying(text)(w, r, in)
		case strings.HasSuffix(path, "/completions"):
			says(200, "application/json", `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"text":"`+text+`","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)(w, r, in)
		case strings.HasSuffix(path, "/embeddings"):
			says(200, "application/json", `{"object":"list","model":"`+text+`","data":[{"object":"embedding","index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`)(w, r, in)
		default:
			says(200, "application/json", `{"created":1,"data":[{"url":"https://images.example.com/1","revised_prompt":"`+text+`"}]}`)(w, r, in)
		}
	}
}

// cachedRoute asks the same again and again of one route.
type cachedRoute struct {
	t          *testing.T
	g          *gateway
	path, body string
	config     string
}

// says fails the test unless a request has this cache status and this answer of the
// provider.
func (c *cachedRoute) says(status string, number int, header ...string) {
	c.t.Helper()
	got := c.g.do(c.t, "POST", c.path, c.body, append([]string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", c.config}, header...)...).wantOK(c.t)
	c.g.entry(c.t, got) // it has ended, and its response is stored
	if want := fmt.Sprintf(`"answer %d"`, number); got.header.Get("x-gateway-cache-status") != status || !strings.Contains(string(got.body), want) {
		c.t.Errorf("%s %v: %s %s, want %s and %s", c.path, header, got.header.Get("x-gateway-cache-status"), got.body, status, want)
	}
}

// TestEqualRequestsAreAnsweredFromTheCache proves simple mode and the controls of the cache.
func TestEqualRequestsAreAnsweredFromTheCache(t *testing.T) {
	d := newDesk(t, nil)
	slug := d.save(t, "/v1/prompts", `{"name":"Greeting",`+greeting("m1")+`}`)
	const refresh, namespace = "x-gateway-cache-force-refresh", "x-gateway-cache-namespace"
	for _, r := range append(modelRoutes[:len(modelRoutes):len(modelRoutes)], modelRoute{path: "/v1/prompts/" + slug + "/completions", body: `{"variables":{"name":"you"}}`}) {
		name := strings.Replace(r.path, slug, "ID", 1)
		// begin returns the route with a provider and entries of its own.
		begin := func(t *testing.T) (*cachedRoute, *provider) {
			p := newProvider(t, numbered())
			return &cachedRoute{t, d.gateway, r.path, r.body, leaf(p, `"cache":{"mode":"simple"}`)}, p
		}
		prove(t, "S-031", "an equal request to "+name+" does not reach the provider", func(t *testing.T) {
			c, p := begin(t)
			c.says("MISS", 1)
			c.says("HIT", 1)
			c.says("HIT", 1)
			other := *c
			other.body = strings.NewReplacer(`"hi"`, `"ho"`, "once", "twice", "two", "three", "a cat", "a dog", "you", "me").Replace(c.body)
			other.says("MISS", 2)
			called(t, []int{2}, p)
		})
		prove(t, "S-039 S-442 S-443", "a refresh on "+name+" replaces what is stored", func(t *testing.T) {
			c, p := begin(t)
			c.says("MISS", 1)
			c.says("REFRESH", 2, refresh, "true")
			c.says("HIT", 2)
			c.says("REFRESH", 3, refresh, "true")
			c.says("HIT", 3)
			called(t, []int{3}, p)
		})
		prove(t, "S-039 S-445", "namespaces part the responses of "+name, func(t *testing.T) {
			c, p := begin(t)
			c.says("MISS", 1)
			c.says("MISS", 2, namespace, "a")
			c.says("MISS", 3, namespace, "b")
			c.says("HIT", 2, namespace, "a")
			c.says("HIT", 3, namespace, "b")
			c.says("HIT", 1)
			c.says("MISS", 4, namespace, "A")
			called(t, []int{4}, p)
		})
	}

	c := &cachedRoute{g: d.gateway, path: modelRoutes[0].path, body: modelRoutes[0].body}
	begin := func(t *testing.T) *provider {
		p := newProvider(t, numbered())
		c.t, c.config = t, leaf(p, `"cache":{"mode":"simple"}`)
		return p
	}
	prove(t, "S-442 S-445", "a refresh replaces the response of its namespace alone", func(t *testing.T) {
		p := begin(t)
		c.says("MISS", 1)
		c.says("MISS", 2, namespace, "a")
		c.says("REFRESH", 3, namespace, "a", refresh, "true")
		c.says("HIT", 1)
		c.says("HIT", 3, namespace, "a")
		called(t, []int{3}, p)
	})
	prove(t, "S-442 S-443", "a refresh replaces a stream", func(t *testing.T) {
		p := begin(t)
		stream := *c
		stream.body = strings.Replace(c.body, "{", `{"stream":true,`, 1)
		stream.says("MISS", 1)
		stream.says("HIT", 1)
		stream.says("REFRESH", 2, refresh, "true")
		stream.says("HIT", 2)
		called(t, []int{2}, p)
	})
	prove(t, "S-444", "a refresh that is false has no effect", func(t *testing.T) {
		p := begin(t)
		c.says("MISS", 1, refresh, "false")
		c.says("HIT", 1, refresh, "false")
		c.says("HIT", 1)
		called(t, []int{1}, p)
	})
	for _, value := range []string{"yes", "1", "on"} {
		prove(t, "S-444", fmt.Sprintf("a refresh that is %q", value), func(t *testing.T) {
			p := newProvider(t, numbered())
			d.ask(t, leaf(p, `"cache":{"mode":"simple"}`), refresh, value).refusedFor(t, refresh)
			p.wantNoRequests(t)
		})
	}
	prove(t, "S-446", "metadata and further headers do not part a namespace", func(t *testing.T) {
		p := begin(t)
		c.says("MISS", 1, namespace, "a", "x-gateway-metadata", `{"_user":"one"}`)
		c.says("HIT", 1, namespace, "a", "x-gateway-metadata", `{"_user":"two","team":"x"}`)
		c.says("HIT", 1, namespace, "a", "x-gateway-trace-id", "another", "x-own", "v", "User-Agent", "another")
		c.says("HIT", 1, namespace, "a")
		called(t, []int{1}, p)
	})
	prove(t, "S-446 S-445", "without a namespace metadata parts the responses", func(t *testing.T) {
		p := begin(t)
		c.says("MISS", 1, "x-gateway-metadata", `{"_user":"one"}`)
		c.says("MISS", 2, "x-gateway-metadata", `{"_user":"two"}`)
		c.says("HIT", 1, "x-gateway-metadata", `{"_user":"one"}`)
		called(t, []int{2}, p)
	})
}
