package attempt_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/model/catalog"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/testing/pipelinetest"
	"modelgate/internal/upstream"
)

// pipes is a listener whose connections are pipes within the program, so that a
// provider can be played on the clock of a test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{} // closed by end
	end   func()
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { p.end(); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rtLedger keeps its records, and refuses intents while full is set.
type rtLedger struct {
	mu          sync.Mutex
	full        error
	intents     []reqlog.Intent
	settlements []reqlog.Settlement
}

func (l *rtLedger) RecordIntent(_ context.Context, i reqlog.Intent) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil {
		return l.full
	}
	l.intents = append(l.intents, i)
	return nil
}

func (l *rtLedger) RecordSettlement(s reqlog.Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settlements = append(l.settlements, s)
}

// rtProvider is a gateway's pipeline whose provider is a handler.
type rtProvider struct {
	t      *testing.T
	engine *attempt.Engine
	ledger rtLedger
	prices *catalog.PriceBook
}

// rtServe plays the provider with a handler. The test may run on a clock of
// its own.
func rtServe(t *testing.T, h http.HandlerFunc) *rtProvider {
	t.Helper()
	done := make(chan struct{})
	p := pipes{make(chan net.Conn), done, sync.OnceFunc(func() { close(done) })}
	client := upstream.New(upstream.Options{Dial: p.dial, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }})
	srv := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.Serve(p)
	}()
	out := &rtProvider{t: t}
	out.engine = &attempt.Engine{Client: client, Bounds: exchange.Bounds{Pool: bytepool.New(0), MaxEvent: 1 << 20, MaxDecoded: 1 << 26}, Ledger: &out.ledger}
	t.Cleanup(func() {
		client.Close()
		srv.Close()
		<-served
		if n := out.engine.Bounds.Pool.Used(); n != 0 {
			t.Errorf("%d bytes of bodies are still lent", n)
		}
	})
	return out
}

// send sends a chat request through a config of one target. What read does with
// the response comes before it is closed; nil reads it to its end.
func (p *rtProvider) send(ctx context.Context, text, body string, read func(*exchange.Response) error, change ...func(*pipelinetest.Request)) (x *pipelinetest.Request, err error) {
	p.t.Helper()
	root, err := config.Parse([]byte(text))
	if err != nil {
		p.t.Fatalf("%s: %v", text, err)
	}
	spec := *pipelinetest.Spec
	spec.BaseURL = "http://quirky.example.com/v1"
	spec.Paths = map[api.Operation]string{api.Chat: "/chat/completions", api.Images: "/images/generations", api.AudioSpeech: "/audio/speech"}
	x = pipelinetest.NewRequest()
	x.Dialect, x.Limiting.Prices = api.DialectChat, p.prices
	x.Received.Header.Set("Content-Type", "application/json")
	x.Resolve = func(*config.Config) (*provider.Target, error) {
		return provider.NewTarget(&spec, provider.Settings{Key: secret.New("provider-key")})
	}
	if x.Received.Body, err = p.engine.Bounds.Pool.ReadAll(strings.NewReader(body), int64(len(body)), 1<<20); err != nil {
		p.t.Fatal(err)
	}
	defer x.Received.Body.Release()
	defer x.Unchanged(p.t)
	pipelinetest.SetBody(p.t, x, body)
	if v, ok := x.Received.Doc.Find("model"); ok {
		x.Model, _ = v.Text()
	}
	x.Stream = strings.Contains(body, `"stream":true`)
	for _, f := range change {
		f(x)
	}
	c := pipeline.Compiler{Engine: p.engine, State: new(routing.State)}
	res, err := x.Handle(ctx, c.Compile(root, routing.Key(root)))
	if err != nil {
		return x, err
	}
	defer res.Close()
	if read == nil {
		read = rtRead
	}
	return x, read(res)
}

// rtPassed makes x a request that passes through.
func rtPassed(x *pipelinetest.Request) { x.Operation, x.Received.Path = api.Proxy, "/any/path" }

// rtRead reads a response to its end.
func rtRead(res *exchange.Response) error {
	switch {
	case res.Events != nil:
		for {
			if _, err := res.Events.Next(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	case res.Body != nil:
		_, err := io.Copy(io.Discard, res.Body)
		return err
	}
	return nil
}

const (
	rtHello        = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	rtStream       = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	rtResponseBody = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11}}`
	rtChunk        = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"
	rtFinish       = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// rtRespond answers with a status, a media type and parts, each flushed.
func rtRespond(status int, media string, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		for _, part := range parts {
			io.WriteString(w, part)
			http.NewResponseController(w).Flush()
		}
	}
}

var errFull = errors.New("the disk is full")

func rtCode(err error) string {
	if err == nil {
		return ""
	}
	return apierr.From(err).CodeOrDefault()
}
