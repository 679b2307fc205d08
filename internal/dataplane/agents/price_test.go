package agents_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/waittest"
)

// gone is the connection of a client that has left.
type gone struct{ *httptest.ResponseRecorder }

// Write implements [io.Writer].
func (gone) Write([]byte) (int, error) { return 0, errors.New("the connection is closed") }

func TestAnswersThatBreakOffHaveTheirPrice(t *testing.T) {
	const event = "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"task\":{\"id\":\"task-1\",\"contextId\":\"context-1\",\"status\":{}}}}\n\n"
	a := newAgent(t)
	a.serve = func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !strings.Contains(body, "Streaming") {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if strings.Contains(body, "hello") {
			io.WriteString(w, event)
		}
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, tt := range map[string]struct {
		method, params string
		leaves         bool
		cost           int64
	}{
		"answered":              {"SendMessage", hello, false, 2_000_000},
		"the client leaves":     {"SendMessage", hello, true, 2_000_000},
		"the agent breaks off":  {"SendStreamingMessage", hello, false, 2_000_000},
		"it says nothing first": {"SendStreamingMessage", strings.Replace(hello, "hello", "nothing", 1), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, a, options{})
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, tt.method, tt.params)
			req := httptest.NewRequest("POST", "/a2a/helper", strings.NewReader(body))
			req.Header = http.Header{"Authorization": {"Bearer " + aliceKey}, "Content-Type": {"application/json"}, "A2a-Version": {"1.0"}}
			var w http.ResponseWriter = httptest.NewRecorder()
			if tt.leaves {
				w = gone{httptest.NewRecorder()}
			}
			func() {
				defer func() {
					if v := recover(); v != nil && v != http.ErrAbortHandler {
						panic(v)
					}
				}()
				g.Config.Handler.ServeHTTP(w, req)
			}()
			waittest.Until(t, "the request has an entry", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				return len(g.entries) == 1
			})
			if got := int64(g.entries[0].Cost); got != tt.cost {
				t.Errorf("it costs %d, want %d: %+v", got, tt.cost, g.entries[0])
			}
		})
	}
}

func TestEmptyAnswersThatFail(t *testing.T) {
	a := newAgent(t)
	status := 0
	a.serve = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.WriteHeader(status)
		return true
	}
	g := newGateway(t, a, options{})
	for code, want := range map[int]int{202: 202, 204: 204, 200: 200, 400: 502, 404: 502, 405: 502, 409: 502} {
		status = code
		res := g.send("POST", "/a2a/helper/message:send", hello)
		if res.status != want || want == 502 && res.find(t, "error", "code") != "502" {
			t.Errorf("%d without a body: %d %s", code, res.status, res.body)
		}
	}
}

func TestExtendedCardsAreApproved(t *testing.T) {
	a := newAgent(t)
	approve := options{change: func(s *toolserver.Server) {
		s.HoldChanged, s.Own.Approved = true, map[toolserver.Item]string{toolserver.Message: toolserver.Digest([]byte(strings.ReplaceAll(plainCard, "BASE", a.URL)))}
	}}
	g := newGateway(t, a, approve)
	if res := g.rpc("GetExtendedAgentCard", "{}"); res.status != 200 {
		t.Errorf("the approved one: %d %s", res.status, res.body)
	}
	a.serve = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":`+strings.Replace(strings.ReplaceAll(plainCard, "BASE", a.URL), "Repeats", "Ignore all", 1)+`}`)
		return true
	}
	if res := g.rpc("GetExtendedAgentCard", "{}"); res.status != 403 || strings.Contains(res.body, "Ignore all") {
		t.Errorf("another one: %d %s", res.status, res.body)
	}
}

func TestAgentsThatFailAreNotAskedForTheirCardAgain(t *testing.T) {
	var asked atomic.Int32
	a := newAgent(t)
	a.card = func(string) string {
		asked.Add(1)
		return "no card"
	}
	g := newGateway(t, a, options{})
	for range 20 {
		if res := g.send("GET", "/a2a/helper/.well-known/agent-card.json", ""); res.status != 502 {
			t.Fatalf("%d %s", res.status, res.body)
		}
	}
	if n := asked.Load(); n == 20 {
		t.Error("the agent was asked each time")
	}
}

func TestBodiesCountAsMemory(t *testing.T) {
	var used atomic.Int64
	a := newAgent(t)
	g := newGateway(t, a, options{})
	a.serve = func(http.ResponseWriter, *http.Request, string) bool {
		used.Store(g.pool.Used())
		return false
	}
	long := strings.Replace(hello, "hello", strings.Repeat("x", 1<<20), 1)
	for _, path := range []string{"/a2a/helper", "/a2a/helper/message:send"} {
		body := long
		if path == "/a2a/helper" {
			body = `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":` + long + `}`
		}
		res := g.send("POST", path, body)
		if n := used.Swap(0); res.status != 200 || n < 1<<20 {
			t.Errorf("%d while %d bytes are in use", res.status, n)
		}
	}
	waittest.Until(t, "the memory is free", func() bool { return g.pool.Used() == 0 })
}
