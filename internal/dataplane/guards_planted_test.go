package dataplane_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// plantedModels is a provider whose models stream texts in pieces. Each request waits
// for the others of a hedge before it is answered.
type plantedModels struct {
	texts  map[string]string // by model
	pieces func(text string) []string
	breaks string // model whose connection breaks after its text

	mu      sync.Mutex
	last    string        // body of the last request
	waiting int           // requests that the next answer waits for; 0 for none
	all     chan struct{} // closed when they have come
}

func (p *plantedModels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in struct {
		Model  string
		Stream bool
	}
	json.Unmarshal(body, &in)
	p.await(r, string(body))
	if !in.Stream || strings.HasSuffix(r.URL.Path, "/responses") {
		(&textProvider{texts: []string{p.texts[in.Model]}, pieces: p.pieces}).respond(w, r.URL.Path, string(body))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, piece := range p.pieces(p.texts[in.Model]) {
		io.WriteString(w, chunk(piece))
		http.NewResponseController(w).Flush()
	}
	if in.Model == p.breaks {
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, finish+done)
}

// expect makes the next n requests wait for each other.
func (p *plantedModels) expect(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting, p.all = n, make(chan struct{})
}

func (p *plantedModels) await(r *http.Request, body string) {
	p.mu.Lock()
	p.last = body
	all := p.all
	if p.waiting--; p.waiting == 0 {
		close(all)
	}
	p.mu.Unlock()
	if all == nil {
		return
	}
	select {
	case <-all:
	case <-r.Context().Done():
	}
}

// leaks returns the beginning of the planted text that is in text, if it is long enough to
// tell, or nothing.
func leaks(text string) string {
	for n := len(planted); n >= 8; n-- {
		if strings.Contains(text, planted[:n]) {
			return planted[:n]
		}
	}
	return ""
}

// checkPlanted checks what a client got from a guardrail of guardsAgainstPlanted.
func checkPlanted(t *testing.T, client clientFormat, res gatewaytest.Response, want, where string) {
	t.Helper()
	h := client.readResponse(t, res)
	body, _, _ := strings.Cut(string(res.Body), `"hook_results"`) // which have the parameters of checks
	if found := leaks(h.text + "\n" + body); found != "" {
		t.Fatalf("%s: the client got %q in %.2000q", where, found, res.Body)
	}
	if want != "" && (res.Status != 200 || h.text != want || h.end != "done" && h.end != "complete") {
		t.Errorf("%s: status %d, text %q, end %s %s; want 200, %q", where, res.Status, h.text, h.end, h.message, want)
	}
	if want == "" && !(res.Status == 446 && h.end == "error body") && !(h.end == "error" && strings.Contains(h.message, "default.")) {
		t.Errorf("%s: status %d, end %s with %q; want a denial that names the check", where, res.Status, h.end, h.message)
	}
}

// Both targets of a hedge stream the planted text at the same time.
func TestPlantedTextNeverPassesAHedge(t *testing.T) {
	t.Parallel()
	text := "before it " + planted + " and after it"
	p := &plantedModels{texts: map[string]string{"a": text, "b": text}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for seed := range uint64(2) {
		p.pieces = cutAt(seed)
		for _, guard := range guardsAgainstPlanted {
			for _, mode := range []string{"fallback", "loadbalance"} {
				config := `{"output_guardrails":[` + guard.config + `],` + strings.Replace(oneLine(hedgeConfig(mode, "a", "b")), `"delay_ms":30`, `"delay_ms":1`, 1)[1:]
				for _, client := range clientFormats {
					p.expect(2)
					res := g.Do(client.ask(t, g, api.HeaderConfig, config, "m", true))
					checkPlanted(t, client, res, guard.want, fmt.Sprintf("%s, %s, %s, cut %d", guard.name, mode, client.name, seed))
				}
			}
		}
	}
}

// A stream breaks at every byte of the planted text, and another target continues it. If
// the complete text is denied before any of it has passed, that target answers instead.
func TestPlantedTextNeverPassesAContinuedStream(t *testing.T) {
	t.Parallel()
	const before, after = "before it ", " and after it"
	p := &plantedModels{breaks: "a"}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for cut := 0; cut <= len(planted); cut++ {
		p.pieces = cutAt(uint64(cut))
		p.texts = map[string]string{"a": before + planted[:cut], "b": planted[cut:] + after}
		for _, guard := range guardsAgainstPlanted {
			where := fmt.Sprintf("%s, broken after %d bytes", guard.name, cut)
			config := `{"output_guardrails":[` + guard.config + `],` + resumeConfig("a", "b")[1:]
			res := g.Do(clientFormats[0].ask(t, g, api.HeaderConfig, config, "m", true))
			if h := clientFormats[0].readResponse(t, res); guard.want == "" && h.end == "done" && h.text == p.texts["b"] && cut > 0 {
				continue
			}
			checkPlanted(t, clientFormats[0], res, guard.want, where)
			if guard.want != "" && !strings.Contains(p.last, `"content":"`+p.texts["a"]+`"`) {
				t.Errorf("%s: the second target was not asked to continue %q: %s", where, p.texts["a"], p.last)
			}
		}
	}
}

// A target continues no stream past guardrails of its own: those of the stream check it.
func TestStreamIsNotContinuedPastOtherGuardrails(t *testing.T) {
	t.Parallel()
	p := &plantedModels{breaks: "a", pieces: cutAt(1), texts: map[string]string{"a": "before it ", "b": planted}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for _, guard := range guardsAgainstPlanted {
		for _, first := range []string{"", `"output_guardrails":[{"default.notNull":{}}],`} {
			config := strings.Replace(resumeConfig("a", "b"), `{"provider":"@simulator","override_params":{"model":"a"}`, `{`+first+`"provider":"@simulator","override_params":{"model":"a"}`, 1)
			config = strings.Replace(config, `{"provider":"@simulator","override_params":{"model":"b"}`, `{"output_guardrails":[`+guard.config+`],"provider":"@simulator","override_params":{"model":"b"}`, 1)
			res := g.Do(clientFormats[0].ask(t, g, api.HeaderConfig, config, "m", true))
			h := clientFormats[0].readResponse(t, res)
			if leaks(h.text) != "" || h.text != "before it " || h.end != "error" {
				t.Errorf("%s: text %q, end %s: %s", guard.name, h.text, h.end, res.Body)
			}
			if said := fmt.Sprint(entryOf(t, g, res.Header.Get("x-gateway-trace-id"))["decisions"]); !strings.Contains(said, "other guardrails than the stream") {
				t.Errorf("%s: decisions %s do not say why", guard.name, said)
			}
		}
	}
}

// Two choices of a response arrive in turns, each with the planted text.
func TestPlantedTextNeverPassesInterleavedChoices(t *testing.T) {
	t.Parallel()
	const text = "before it " + planted + " and after it"
	var cut func(string) []string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(index int, delta, finish string) {
			fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":%d,"delta":{%s},"finish_reason":%s}]}`+"\n\n", index, delta, finish)
			http.NewResponseController(w).Flush()
		}
		pieces := [2][]string{cut(text), cut(text[1:])}
		for i := range max(len(pieces[0]), len(pieces[1])) {
			for index, list := range pieces {
				if i < len(list) {
					send(index, fmt.Sprintf(`"content":%q`, list[i]), "null")
				}
			}
		}
		send(0, "", `"stop"`)
		send(1, "", `"stop"`)
		io.WriteString(w, done)
	})})
	for seed := range uint64(12) {
		cut = cutAt(seed)
		for _, guard := range guardsAgainstPlanted {
			config := guarded(`"output_guardrails":[` + guard.config + `]`)
			for _, tt := range []struct{ path, body, list, text string }{
				{"/v1/chat/completions", `{"model":"m","n":2,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, "choices", "delta.content"},
				{"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"candidateCount":2}}`, "candidates", "content.parts.0.text"},
			} {
				req := cachedRequest(g, "/", tt.body, config)
				req.URL.Path, req.URL.RawQuery, _ = strings.Cut(tt.path, "?")
				res := g.Do(req)
				where := fmt.Sprintf("%s, %s, cut %d", guard.name, tt.list, seed)
				texts := choiceTexts(sseData(res.Body), tt.list, tt.text)
				if found := leaks(strings.Join(texts[:], "\n") + "\n" + string(res.Body)); found != "" {
					t.Fatalf("%s: the client got %q in %.2000q", where, found, res.Body)
				}
				if want := guard.want; want != "" && (texts != [2]string{want, want[1:]} || res.Status != 200) {
					t.Errorf("%s: status %d, texts %q", where, res.Status, texts)
				}
				if guard.want == "" && !strings.Contains(string(res.Body), "default.") {
					t.Errorf("%s: status %d, %.500q, want a denial", where, res.Status, res.Body)
				}
			}
		}
	}
}

// choiceTexts returns what the first two choices of a stream add up to.
func choiceTexts(events []any, list, text string) (texts [2]string) {
	for _, e := range events {
		choices, _ := at(e, list).([]any)
		for _, c := range choices {
			index, _ := at(c, "index").(float64)
			if index == 0 || index == 1 {
				texts[int(index)] += str(at(c, text))
			}
		}
	}
	return texts
}

// A response that was cached without a guardrail is not replayed to requests with one,
// whether it is part of their config, saved, changed since or a default, and a cached
// response with one is replayed as it left it.
func TestPlantedTextNeverPassesTheCache(t *testing.T) {
	t.Parallel()
	p := &textProvider{texts: []string{"before it " + planted + " and after it"}}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	const cached = `"cache":{"mode":"simple"}`
	check := func(config, want, where string) {
		t.Helper()
		for _, client := range clientFormats {
			for _, stream := range []bool{false, true} {
				where := fmt.Sprintf("%s, %s, stream %t", where, client.name, stream)
				for range 2 {
					res := g.Do(client.ask(t, g, api.HeaderConfig, config, "m", stream))
					checkPlanted(t, client, res, want, where)
					if want != "" && res.Header.Get(api.HeaderCacheStatus) == "HIT" {
						where += ", hit"
					}
				}
				if want != "" && !strings.HasSuffix(where, ", hit") && !(client.name == "invoke" && stream) { // which is not cached
					t.Errorf("%s: not replayed", where)
				}
			}
		}
	}
	store := func(config string) {
		for _, client := range clientFormats {
			for _, stream := range []bool{false, true} {
				if res := g.Do(client.ask(t, g, api.HeaderConfig, config, "m", stream)); client.readResponse(t, res).text != p.texts[0] {
					t.Fatalf("%s: status %d, %s", client.name, res.Status, res.Body)
				}
			}
		}
	}
	store(guarded(cached))
	for _, guard := range guardsAgainstPlanted {
		check(guarded(cached+`,"output_guardrails":[`+guard.config+`]`), guard.want, guard.name)
	}
	const deny = `"checks":[{"id":"default.contains","parameters":{"operator":"none","words":["` + planted + `"]}}],"actions":{"deny":%t}`
	saved := g.Post("/guardrails", `{"name":"g","workspace_id":"default",`+fmt.Sprintf(deny, false)+`}`).JSON(t)
	id := str(saved["id"])
	config := guarded(cached + `,"output_guardrails":["` + id + `"]`)
	waittest.Until(t, "the guardrail is there", func() bool {
		return g.Post("/chat/completions", plainChat, api.HeaderProvider, "", api.HeaderConfig, config).Status == 200
	})
	store(config)
	if res := g.Do(g.Request("PUT", "/guardrails/"+id, `{`+fmt.Sprintf(deny, true)+`}`)); res.Status != 200 {
		t.Fatalf("PUT: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the change holds", func() bool {
		return g.Post("/chat/completions", plainChat, api.HeaderProvider, "", api.HeaderConfig, config).Status == 446
	})
	check(config, "", "saved and changed")
	if res := g.Do(g.Request("PUT", "/admin/workspaces/default", `{"defaults":{"output_guardrails":["`+id+`"]}}`)); res.Status != 200 {
		t.Fatalf("PUT: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the default holds", func() bool {
		return g.Post("/chat/completions", plainChat, api.HeaderProvider, "", api.HeaderConfig, guarded(cached)).Status == 446
	})
	check(guarded(cached), "", "a default")
}

// A target whose response is denied is followed by the next one, of which alone the client hears.
func TestPlantedTextNeverPassesAFallback(t *testing.T) {
	t.Parallel()
	p := &plantedModels{}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p})
	for seed := range uint64(4) {
		p.pieces = cutAt(seed)
		for _, second := range []string{"a clean text", "again " + planted} {
			p.texts = map[string]string{"a": planted + " at once", "b": second}
			for _, guard := range guardsAgainstPlanted {
				if guard.want != "" {
					continue
				}
				config := `{"output_guardrails":[` + guard.config + `],` + oneLine(`"strategy":{"mode":"fallback"},"targets":[
					{"provider":"@simulator","override_params":{"model":"a"}},{"provider":"@simulator","override_params":{"model":"b"}}]}`)
				for _, client := range clientFormats {
					for _, stream := range []bool{false, true} {
						want := second
						if leaks(second) != "" {
							want = ""
						}
						res := g.Do(client.ask(t, g, api.HeaderConfig, config, "m", stream))
						checkPlanted(t, client, res, want, fmt.Sprintf("%s, %s, stream %t, %q, cut %d", guard.name, client.name, stream, second, seed))
					}
				}
			}
		}
	}
}
