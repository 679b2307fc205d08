package dataplane_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// targetScripts answers each model with a script of its own: events as they are, and
// whether the connection breaks behind them.
type targetScripts struct {
	mu     sync.Mutex
	script map[string]targetScript // guarded by mu, as is all below
	asked  []string                // models in the order of the requests
}

type targetScript struct {
	status int    // 0 is 200
	kind   string // content type, empty for a stream
	body   string
	cut    bool
}

func (s *targetScripts) set(script map[string]targetScript) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.asked = script, nil
}

func (s *targetScripts) models() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, " ")
}

func (s *targetScripts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct{ Model string }
	json.Unmarshal(body, &request)
	s.mu.Lock()
	script := s.script[request.Model]
	s.asked = append(s.asked, request.Model)
	s.mu.Unlock()
	w.Header().Set("Content-Type", cmp.Or(script.kind, "text/event-stream"))
	w.WriteHeader(cmp.Or(script.status, http.StatusOK))
	io.WriteString(w, script.body)
	http.NewResponseController(w).Flush()
	if script.cut {
		panic(http.ErrAbortHandler)
	}
}

// words returns events that say each a part of a text.
func words(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(chunk(part))
	}
	return b.String()
}

// resumeAmong falls back from each of these models to the next, also in the middle of
// a stream.
func resumeAmong(models ...string) string {
	var targets []string
	for _, m := range models {
		targets = append(targets, fmt.Sprintf(`{"provider":"@simulator","override_params":{"model":%q}}`, m))
	}
	return `{"strategy":{"mode":"fallback"},"stream_continuation":true,"targets":[` + strings.Join(targets, ",") + `]}`
}

func TestRepeatedTextOfAContinuationIsLeftOutUnlessItIsChance(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	const long = "0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 abcdefghi"
	for _, tt := range []struct {
		name        string
		first, next []string
		want        string
	}{
		{"seven bytes are chance", []string{"It is abcdefg"}, []string{"abcdefg and so on"}, "It is abcdefgabcdefg and so on"},
		{"eight bytes are not", []string{"It is abcdefgh"}, []string{"abcdefgh and so on"}, "It is abcdefgh and so on"},
		{"nine bytes", []string{"It is abcdefghi"}, []string{"abcdefghi and so on"}, "It is abcdefghi and so on"},
		{"eight bytes in small parts", []string{"It is ", "abcd", "efgh"}, []string{"a", "bcd", "efg", "h and ", "so on"}, "It is abcdefgh and so on"},
		{"eight bytes that end within a part", []string{"It is abcdefgh"}, []string{"abcde", "fgh and", " so on"}, "It is abcdefgh and so on"},
		{"nothing", []string{"It is abcdefgh"}, []string{" and so on"}, "It is abcdefgh and so on"},
		{"words that were sent before, but not last", []string{"abcdefgh It is"}, []string{"abcdefgh and so on"}, "abcdefgh It isabcdefgh and so on"},
		{"all of a short text", []string{"It is"}, []string{"It is so"}, "It is so"},
		{"a part of a short text", []string{"It is"}, []string{"is so"}, "It isis so"},
		{"a short text that goes on", []string{"It is"}, []string{" so"}, "It is so"},

		{"the last words of a long text", []string{long}, []string{"abcdefghi and so on"}, long + " and so on"},
		{"sixty-four bytes of a long text in small parts", []string{long}, append(strings.SplitAfter(long[len(long)-64:], " "), " and so on"), long + " and so on"},
		{"all of a long text", []string{long}, []string{long + " and so on"}, long + " and so on"},
		{"only what was sent", []string{"It is abcdefgh"}, []string{"abcdefgh"}, "It is abcdefgh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.set(map[string]targetScript{
				"a": {body: words(tt.first...), cut: true},
				"b": {body: words(tt.next...) + finish + done},
			})
			res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b"))
			if got := streamText(string(res.Body)); got != tt.want || s.models() != "a b" || !strings.HasSuffix(string(res.Body), done) {
				t.Errorf("text %q of %s, want %q of a b:\n%s", got, s.models(), tt.want, res.Body)
			}
		})
	}
}

// Events without repeated text go to the client byte for byte.
func TestAContinuationThatRepeatsNothingIsHandedOnAsItCame(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	role := `data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\r\n\r\n"
	second := role + "id: 7\r\n" + strings.ReplaceAll(words(" and", " so", " on"), "\n\n", "\r\n\r\n") + finish + done
	s.set(map[string]targetScript{"a": {body: words("It is so"), cut: true}, "b": {body: second}})
	res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b"))
	if want := words("It is so") + ": continued by config.targets[1]\n\n" + second; string(res.Body) != want {
		t.Errorf("the client got\n%q\nwant\n%q", res.Body, want)
	}
}

// Text is held back only for as long as it may repeat what was sent.
func TestAContinuationIsHeldBackNoLongerThanItMayRepeat(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
	heads := make(chan *http.Response, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b")))
		if err != nil {
			t.Error(err)
		}
		heads <- res
	}()
	first := u.next()
	first.events()
	first.send(chunk("It is"))
	res := receive(t, heads, "the response headers")
	defer res.Body.Close()
	r := bufferOf(res)
	event(t, r)
	first.finish() // without a finish reason
	next := u.next()
	next.events()
	next.send(chunk(" thus")) // as long as what was sent
	got := make(chan string, 2)
	go func() {
		for range 2 {
			got <- event(t, r)
		}
	}()
	receive(t, got, "the comment at the seam")
	if text := receive(t, got, "the begin of the continuation, while its provider pauses"); text != chunk(" thus") {
		t.Errorf("the client got %q, want %q", text, chunk(" thus"))
	}
	next.send(finish + done)
	next.finish()
	if rest, err := io.ReadAll(r); string(rest) != finish+done || err != nil {
		t.Errorf("the stream ends in %q, %v; want %q", rest, err, finish+done)
	}
}

func TestACompleteStreamIsNotContinued(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	for _, tt := range []struct {
		name   string
		script targetScript
	}{
		{"with its terminator", targetScript{body: words("It is so") + finish + done}},
		{"without its terminator", targetScript{body: words("It is so") + finish}},
		{"whose connection breaks behind its finish reason", targetScript{body: words("It is so") + finish, cut: true}},
		{"without a finish reason", targetScript{body: words("It is so") + done}},
		{"whose connection breaks behind its terminator", targetScript{body: words("It is so") + done, cut: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.set(map[string]targetScript{"a": tt.script, "b": {body: words("again") + finish + done}})
			res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b"))
			if got := string(res.Body); s.models() != "a" || streamText(got) != "It is so" || !strings.HasPrefix(got, tt.script.body) {
				t.Errorf("asked %s, want a alone; the client got\n%s", s.models(), got)
			}
		})
	}
}

func TestATargetThatCannotContinueIsSkipped(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	good := targetScript{body: words(" and so on") + finish + done}
	for _, tt := range []struct {
		name string
		next targetScript
	}{
		{"it refuses", targetScript{status: 500, kind: "application/json", body: `{"error":{"message":"down"}}`}},
		{"it answers without a stream", targetScript{kind: "application/json", body: chatBody}},
		{"it breaks at once", targetScript{cut: true}},
		{"it breaks at once, without an error", targetScript{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.set(map[string]targetScript{"a": {body: words("It is so"), cut: true}, "b": tt.next, "c": good})
			res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b", "c"))
			body := string(res.Body)
			if s.models() != "a b c" || streamText(body) != "It is so and so on" || !strings.HasSuffix(body, done) || strings.Count(body, ": continued by") != 1 {
				t.Errorf("asked %s, want a b c; the client got\n%s", s.models(), body)
			}
			e := g.Entry(res)
			if decisions := fmt.Sprint(e["decisions"]); len(e["attempts"].([]any)) != 3 || e["option_index"] != "config.targets[2]" ||
				!strings.Contains(decisions, "could not continue") || !strings.Contains(decisions, "after 8 bytes of text") {
				t.Errorf("recorded: attempts %v, by %v, decisions %v", e["attempts"], e["option_index"], decisions)
			}
		})
	}
}

// A continuation that breaks too is continued, with what both said.
func TestAContinuationThatBreaksIsContinued(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	s.set(map[string]targetScript{
		"a": {body: words("It is so"), cut: true},
		"b": {body: words("It is so and", " remains"), cut: true},
		"c": {body: words("and remains", " for ever") + finish + done},
	})
	res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b", "c"))
	if got := streamText(string(res.Body)); got != "It is so and remains for ever" || s.models() != "a b c" {
		t.Errorf("text %q of %s, want what three targets said once each:\n%s", got, s.models(), res.Body)
	}
	if decisions := fmt.Sprint(g.Entry(res)["decisions"]); !strings.Contains(decisions, "after 20 bytes of text") {
		t.Errorf("decisions %s, want the second seam after 20 bytes", decisions)
	}
}

// Longer texts are not kept, so nobody could go on with them.
func TestAVeryLongStreamIsNotContinued(t *testing.T) {
	t.Parallel()
	s := new(targetScripts)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: s})
	part := strings.Repeat("x", 64<<10)
	many := make([]string, 17) // a little over a megabyte
	for i := range many {
		many[i] = part
	}
	s.set(map[string]targetScript{"a": {body: words(many...), cut: true}, "b": {body: words("again") + finish + done}})
	res := g.Post("/chat/completions", streamChat, "x-gateway-provider", "", "x-gateway-config", resumeAmong("a", "b"))
	if body := string(res.Body); s.models() != "a" || strings.Contains(body, "[DONE]") || !strings.Contains(body, `"error"`) {
		t.Errorf("asked %s, want a alone and an error at the end: %q", s.models(), body[max(0, len(body)-200):])
	}
}
