package dataplane_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// steppedModel sends a stream whose events the test releases.
type steppedModel struct {
	calls   atomic.Int64
	arrived chan struct{}
	step    chan string   // data of the next event; closed for the end
	left    chan struct{} // receives when the gateway leaves
}

func newSteppedModel() *steppedModel {
	return &steppedModel{arrived: make(chan struct{}, 100), step: make(chan string), left: make(chan struct{}, 100)}
}

func (m *steppedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.calls.Add(1)
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	m.arrived <- struct{}{}
	for {
		select {
		case data, ok := <-m.step:
			if !ok {
				return
			}
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			m.left <- struct{}{}
			return
		}
	}
}

const streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

func word(s string) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, s)
}

const stopWord = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

// openStream sends a request and returns its response without reading it.
func openStream(t *testing.T, g *gatewaytest.Gateway, ctx context.Context, config string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*stallTimer)
	t.Cleanup(cancel)
	res, err := http.DefaultTransport.RoundTrip(cachedRequest(g, "/chat/completions", streamBody, config).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// readTo reads until s has been read.
func readTo(t *testing.T, r io.Reader, s string) {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 1)
	for !strings.Contains(got.String(), s) {
		if _, err := r.Read(buf); err != nil {
			t.Fatalf("after %q: %v", got.String(), err)
		}
		got.Write(buf)
	}
}

// send lets the model send the data of an event.
func (m *steppedModel) send(t *testing.T, data string) {
	t.Helper()
	waittest.Send(t, m.step, data, "the model to take "+data)
}

// begin opens a stream and returns it once the model has sent its first word.
func (m *steppedModel) begin(t *testing.T, g *gatewaytest.Gateway, ctx context.Context, config string) *http.Response {
	opened := make(chan *http.Response, 1)
	go func() { opened <- openStream(t, g, ctx, config) }()
	receive(t, m.arrived, "the call")
	m.send(t, word("one"))
	return receive(t, opened, "the response")
}

// resettable returns a context for one request, and a function that resets its connection:
// what the gateway writes after that fails, however late it notices that the client left.
func resettable(t *testing.T) (ctx context.Context, leave func()) {
	t.Helper()
	var conn net.Conn
	ctx = httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { conn = i.Conn }})
	return ctx, func() {
		t.Helper()
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestASharedCallGoesOnWhileOneClientRemains(t *testing.T) {
	m := newSteppedModel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: m})
	ctx, leave := resettable(t)
	first := m.begin(t, g, ctx, simpleCache)
	readTo(t, first.Body, "one")
	second := openStream(t, g, t.Context(), simpleCache)
	readTo(t, second.Body, "one") // the beginning, which was sent before it came
	leave()
	m.send(t, word("two"))
	readTo(t, second.Body, "two")
	m.send(t, stopWord)
	m.send(t, "[DONE]")
	close(m.step)
	rest, err := io.ReadAll(second.Body)
	if err != nil || !strings.Contains(string(rest), "[DONE]") {
		t.Errorf("the second client got %q, %v", rest, err)
	}
	entry := g.Entry(gatewaytest.Response{Header: first.Header})
	if entry["status"] != 499.0 || entry["cache_status"] != "MISS" {
		t.Errorf("the client that left is recorded as %v, %v", entry["status"], entry["cache_status"])
	}
	shared := g.Entry(gatewaytest.Response{Header: second.Header})
	if shared["status"] != 200.0 || shared["cache_status"] != "HIT" || len(shared["attempts"].([]any)) != 0 {
		t.Errorf("the client that remained is recorded as %v, %v, %v", shared["status"], shared["cache_status"], shared["attempts"])
	}
	if third := cachedPost(g, "/chat/completions", streamBody, simpleCache); third.Header.Get(api.HeaderCacheStatus) != "HIT" || m.calls.Load() != 1 {
		t.Errorf("the response was not stored: %s after %d calls", third.Header.Get(api.HeaderCacheStatus), m.calls.Load())
	}
}

func TestACallEndsWithItsLastClient(t *testing.T) {
	m := newSteppedModel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: m})
	ctx, leave := context.WithCancel(t.Context())
	first := m.begin(t, g, ctx, simpleCache)
	second := openStream(t, g, ctx, simpleCache)
	readTo(t, second.Body, "one")
	leave()
	receive(t, m.left, "the gateway to leave")
	if entry := g.Entry(gatewaytest.Response{Header: first.Header}); entry["status"] != 499.0 {
		t.Errorf("recorded as %v", entry["status"])
	}
	go func() { // a further request makes its own call
		<-m.arrived
		m.step <- stopWord
		close(m.step)
	}()
	if res := cachedPost(g, "/chat/completions", streamBody, simpleCache); res.Header.Get(api.HeaderCacheStatus) != "MISS" || m.calls.Load() != 2 {
		t.Errorf("%s after %d calls", res.Header.Get(api.HeaderCacheStatus), m.calls.Load())
	}
}

func TestACallMayFinishForTheCacheWhenItsClientLeaves(t *testing.T) {
	const config = `{"provider":"@simulator","cache":{"mode":"simple","on_disconnect":"finish_and_cache"}}`
	m := newSteppedModel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: m})
	ctx, leave := resettable(t)
	first := m.begin(t, g, ctx, config)
	readTo(t, first.Body, "one")
	leave()
	m.send(t, stopWord)
	close(m.step)
	if entry := g.Entry(gatewaytest.Response{Header: first.Header}); entry["status"] != 499.0 {
		t.Errorf("recorded as %v", entry["status"])
	}
	res := cachedPost(g, "/chat/completions", streamBody, config)
	if res.Header.Get(api.HeaderCacheStatus) != "HIT" || m.calls.Load() != 1 || !strings.Contains(string(res.Body), "one") {
		t.Errorf("%s after %d calls: %s", res.Header.Get(api.HeaderCacheStatus), m.calls.Load(), res.Body)
	}
}

// The provider's stream has ended by the time that a guardrail denies it.
func TestASharedStreamThatIsDeniedEndsInTheDenial(t *testing.T) {
	config := guarded(`"cache":{"mode":"simple"},"output_guardrails":[` + denyPlantedInWindows + `]`)
	for _, client := range clientFormats {
		if client.name == "invoke" { // whose streams are not cached
			continue
		}
		t.Run(client.name, func(t *testing.T) {
			m := newSteppedModel()
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: m})
			opened := make(chan *http.Response, 2)
			open := func() {
				res, err := http.DefaultTransport.RoundTrip(client.ask(t, g, api.HeaderConfig, config, "m", true))
				if err != nil {
					t.Error(err)
				}
				opened <- res
			}
			go open()
			receive(t, m.arrived, "the call")
			m.send(t, word("before "))
			both := []*http.Response{receive(t, opened, "the response")}
			go open()
			both = append(both, receive(t, opened, "the shared response"))
			m.send(t, word(planted)+"\n\ndata: "+stopWord+"\n\ndata: [DONE]")
			close(m.step)
			for i, res := range both {
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				checkPlanted(t, client, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body}, "", fmt.Sprintf("client %d", i))
			}
			if n := m.calls.Load(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestAFailedCallIsNotShared(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 100)
	var calls atomic.Int64
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		arrived <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/json")
		if n == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"error":{"message":"slow down"}}`)
			return
		}
		fmt.Fprintf(w, `{"id":"c%d","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`, n)
	})})
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	statuses := make(chan int, 10)
	var wg sync.WaitGroup
	ask := func() { wg.Go(func() { statuses <- cachedPost(g, "/chat/completions", body, simpleCache).Status }) }
	ask()
	receive(t, arrived, "the call")
	for range 4 {
		ask()
	}
	awaitInFlight(t, g, 5)
	close(release)
	wg.Wait()
	close(statuses)
	count := make(map[int]int)
	for s := range statuses {
		count[s]++
	}
	if count[429] != 1 || count[200] != 4 {
		t.Errorf("statuses %v, want the failure for one client only", count)
	}
}

func TestASlowClientHoldsUpNobody(t *testing.T) {
	m := newSteppedModel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: m, Settings: "cache: {max_response: 64 KB}\n"})
	slow := m.begin(t, g, t.Context(), simpleCache) // it reads nothing more for now
	quick := openStream(t, g, t.Context(), simpleCache)
	read := make(chan error, 1)
	var size atomic.Int64
	go func() {
		n, err := io.Copy(io.Discard, quick.Body)
		size.Store(n)
		read <- err
	}()
	long := word(strings.Repeat("x", 32<<10))
	const events = 1000 // more than the buffers of a connection
	for range events {
		waittest.Send(t, m.step, long, "the model to take a long event")
	}
	m.send(t, stopWord)
	m.send(t, "[DONE]")
	close(m.step)
	if err := receive(t, read, "the quick client"); err != nil || size.Load() < events*32<<10 {
		t.Errorf("the quick client got %d bytes, %v", size.Load(), err)
	}
	rest, _ := io.ReadAll(slow.Body)
	if !strings.Contains(string(rest), "slow_client") {
		t.Errorf("the slow client got %d bytes that end in %q", len(rest), rest[max(0, len(rest)-200):])
	}
	if res := g.Entry(gatewaytest.Response{Header: quick.Header}); res["status"] != 200.0 {
		t.Errorf("the quick client is recorded as %v", res["status"])
	}
}

func TestACallBegunBeforeAnInvalidationIsNotSharedAfterIt(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 2)
	model := new(countingModel)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		model.ServeHTTP(w, r)
	})})
	ask := func() gatewaytest.Response {
		return cachedPost(g, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, simpleCache)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { g.Entry(ask()) }) // the response is stored before its entry
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Error("the later request waits for the response of the earlier one, which is invalid")
		}
		if res := g.Post("/cache/invalidate", `{}`, api.HeaderProvider, ""); res.Status != 200 {
			t.Errorf("invalidation: %d %s", res.Status, res.Body)
		}
	}
	close(release)
	wg.Wait()
	if got := ask().Header.Get(api.HeaderCacheStatus); got != "MISS" {
		t.Errorf("a request after both invalidations: %s, want MISS", got)
	}
}
