package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// received is a request as it arrived at the provider.
type received struct {
	method string
	uri    string // the request target, byte for byte
	head   string // request line and header as sent, names in their spelling
	header http.Header
	body   []byte
}

// field returns a field of a JSON body as it was sent, "" when it is absent.
func (r received) field(t *testing.T, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(r.body, &members); err != nil {
		t.Fatalf("the provider got no JSON object: %v: %.200s", err, r.body)
	}
	return string(members[name])
}

// line returns the header line that begins with name, in exactly this spelling.
func (r received) line(name string) (value string, ok bool) {
	for line := range strings.SplitSeq(r.head, "\r\n") {
		if value, ok = strings.CutPrefix(line, name+":"); ok {
			return textproto.TrimString(value), true
		}
	}
	return "", false
}

// provider is a model provider that records what it is asked.
type provider struct {
	url  string // base address, ends in /v1
	root string // the same without /v1
	host string // host:port

	mu  sync.Mutex
	got []received // guarded by mu
}

// behaviour is what a provider says to one request. The body has been read.
type behaviour func(w http.ResponseWriter, r *http.Request, in received)

// newProvider starts a provider that ends with t. A nil response gives the canned
// one of the path.
func newProvider(t testing.TB, say behaviour) *provider {
	t.Helper()
	p, srv := startProvider(say)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return p
}

func startProvider(say behaviour) (*provider, *httptest.Server) {
	return serveOn(nil, say)
}

// serveOn starts a provider on a listener, nil for one of its own.
func serveOn(l net.Listener, say behaviour) (*provider, *httptest.Server) {
	if say == nil {
		say = canned
	}
	p := new(provider)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		// Nothing of a following request can have arrived: this one is not answered.
		head, _, _ := strings.Cut(r.Context().Value(connKey{}).(*recording).take(), "\r\n\r\n")
		in := received{r.Method, r.RequestURI, head, r.Header, body}
		p.mu.Lock()
		p.got = append(p.got, in)
		p.mu.Unlock()
		say(w, r, in)
	}))
	if l != nil {
		srv.Listener.Close()
		srv.Listener = l
	}
	srv.Listener = recordingListener{srv.Listener}
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	srv.Start()
	p.root, p.url = srv.URL, srv.URL+"/v1"
	p.host = strings.TrimPrefix(srv.URL, "http://")
	return p, srv
}

// requests returns what arrived so far.
func (p *provider) requests() []received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]received(nil), p.got...)
}

// only returns the one request that arrived, and forgets it.
func (p *provider) only(t *testing.T) received {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.got) != 1 {
		t.Fatalf("the provider got %d requests, want 1", len(p.got))
	}
	in := p.got[0]
	p.got = nil
	return in
}

// forget drops what arrived so far.
func (p *provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = nil
}

// wantNoRequests fails the test when anything arrived.
func (p *provider) wantNoRequests(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, in := range p.got {
		t.Errorf("the provider was called: %s %s", in.method, in.uri)
	}
	p.got = nil
}

type connKey struct{}

// recording is a connection that keeps the beginning of what it reads.
type recording struct {
	net.Conn
	mu   sync.Mutex
	kept bytes.Buffer // guarded by mu
}

const mostKept = 64 << 10

func (c *recording) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept.Len() < mostKept {
		c.kept.Write(b[:n])
	}
	return n, err
}

func (c *recording) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.kept.String()
	c.kept.Reset()
	return text
}

type recordingListener struct{ net.Listener }

func (l recordingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &recording{Conn: c}, nil
}

// says answers every request with the same status and body.
func says(status int, contentType, body string) behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ received) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// streams answers with these bytes as a stream of events.
func streams(text string) behaviour { return says(http.StatusOK, "text/event-stream", text) }

// canned answers each route of the specification with a response of its kind.
func canned(w http.ResponseWriter, r *http.Request, in received) {
	path, _, _ := strings.Cut(in.uri, "?")
	body := `{"object":"thing"}`
	for suffix, text := range cannedBodies {
		if strings.HasSuffix(path, suffix) {
			body = text
		}
	}
	says(http.StatusOK, "application/json", body)(w, r, in)
}

// cannedBodies hold every field that the specification names for the route,
// with spacing that nobody would write twice.
var cannedBodies = map[string]string{
	"/chat/completions": `{ "id":"chatcmpl-1","object" :"chat.completion","created":1700000001,"model":"m-1",
 "choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hello","content_blocks":[{"type":"text","text":"Hello"}],` +
		`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"look","arguments":"{\"q\": 1}"}}],"function_call":{"name":"look","arguments":"{\"q\": 1}"}},` +
		`"logprobs":{"content":[{"token":"Hello","logprob":-0.25,"bytes":[72,101],"top_logprobs":[{"token":"Hi","logprob":-1.5,"bytes":[72,105]},{"token":"Hey","logprob":-2.5,"bytes":[72,101]}]}]}}],
	"system_fingerprint":"fp_1","usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9},"extra_field":[1.0,1e2] }`,
	"/v1/completions": `{"id":"cmpl-1", "object":"text_completion","created":1700000002,"model":"m-2","system_fingerprint":"fp_2",
"choices":[{"text":"one","index":0,"finish_reason":"stop","logprobs":{"tokens":["one"],"token_logprobs":[-0.5],"top_logprobs":[{"one":-0.5}],"text_offset":[0]}}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`,
	"/embeddings":         `{"object":"list","model":"e-1","data":[{"object":"embedding","index":0,"embedding":[0.1,-0.20]},{"object":"embedding","index":1,"embedding":[1,2]}],"usage":{"prompt_tokens":5,"total_tokens":5}}`,
	"/images/generations": `{"created":1700000003,"data":[{"url":"https://images.example.com/1?se=60m&sig=a%2Fb","revised_prompt":"a cat, sitting"},{"b64_json":"aGVsbG8=","revised_prompt":"a cat"}]}`,
	"/models":             `{"object":"list","data":[{"id":"m-1","object":"model","created":1700000004,"owned_by":"someone"}]}`,
}
