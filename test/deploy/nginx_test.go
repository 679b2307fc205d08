package deploy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// place is an address of its own for each process that needs a port known before: loopback
// addresses that no other program uses.
func place(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", 100+os.Getpid()>>8&63, os.Getpid()&255, n)
}

// front is nginx with deploy/compose/nginx.conf.
type front struct {
	folder, url string
	client      *http.Client
}

// startFront starts nginx in front of two nodes. Only the names of containers are replaced by
// addresses, so that there is nothing to resolve.
func startFront(t *testing.T) *front {
	t.Helper()
	f := &front{folder: t.TempDir(), url: "http://" + place(9) + ":8080"}
	text, err := os.ReadFile("../../deploy/compose/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf := string(text)
	for _, edit := range [][2]string{
		{" resolve;", ";"}, {"resolver 127.0.0.11 valid=5s;", ""}, {"node-a:", place(1) + ":"}, {"node-b:", place(2) + ":"}, {"listen 8080;", "listen " + place(9) + ":8080;"},
	} {
		if !strings.Contains(conf, edit[0]) {
			t.Fatalf("nginx.conf is without %q", edit[0])
		}
		conf = strings.ReplaceAll(conf, edit[0], edit[1])
	}
	conf = strings.Replace(conf, "http {", "http {\n    access_log off;", 1)
	name := filepath.Join(f.folder, "nginx.conf")
	if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-p", f.folder, "-c", name, "-g", "daemon off; pid nginx.pid; error_log stderr error; worker_processes 1;"}
	if out, err := exec.Command("nginx", append(args, "-t")...).CombinedOutput(); err != nil {
		t.Fatalf("nginx -t: %v\n%s", err, out)
	}
	cmd := exec.Command("nginx", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("nginx: %s", log.String())
		}
	})
	// Clients that keep no connection: each request may reach either node.
	f.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	waittest.Until(t, "nginx serves", func() bool { return status(f.url+"/health") == http.StatusOK })
	return f
}

// TestNoRequestIsLostWhileNodesRestart restarts two nodes one right after the other: nginx finds
// the node that is there at each moment, and a stream outlasts the node that it began on.
func TestNoRequestIsLostWhileNodesRestart(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile("../../deploy/compose/modelgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{
		"DATABASE_URL=" + storetest.Postgres(t), "REDIS_URL=" + quotatest.NewRedis(t).URL(),
		"MODELGATE_MASTER_KEY=the master key of a test of nodes", "MODELGATE_CONFIG=/data/modelgate.yaml",
	}
	var volumes [2]string
	var nodes [2]*gateway
	begin := func(i int) {
		nodes[i] = start(t, volumes[i], append(env, "MODELGATE_LISTEN="+place(i+1)+":8787")...)
	}
	for i := range nodes {
		volumes[i] = newVolume(t)
		if err := os.WriteFile(filepath.Join(volumes[i], "modelgate.yaml"), settings, 0o644); err != nil {
			t.Fatal(err)
		}
		begin(i)
	}
	f := startFront(t)
	provider := httptest.NewServer(simulator.New(simulator.Options{}))
	defer provider.Close()

	header := http.Header{"X-Gateway-Api-Key": {key}, "Authorization": {"Bearer sk"}, "X-Gateway-Provider": {"openai-compatible"}, "X-Gateway-Custom-Host": {provider.URL + "/v1"}}
	socket, resp, err := websocket.Dial(t.Context(), f.url+"/v1/realtime?model=m", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatalf("a WebSocket connection through nginx: %v, %v", resp, err)
	}
	socket.CloseNow()

	// Reads go on all the time. If a node closes a connection at the very moment at which nginx
	// sends a request on it, nginx sends a read again.
	ctx, end := context.WithCancel(t.Context())
	var reads, lost atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if got := f.read(); got == http.StatusOK {
				reads.Add(1)
			} else {
				lost.Add(1)
			}
		}
	}()
	chats := func(when string) {
		t.Helper()
		for range 10 {
			resp := ask(t, f.client, f.url, provider.URL, hello)
			if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d, %v: %s", when, resp.StatusCode, err, body)
			}
		}
	}
	for i := range nodes {
		chats("both nodes serve")
		stream := openStreams(t, f)
		nodes[i].process.Process.Signal(syscall.SIGTERM)
		waittest.Until(t, "the node drains", func() bool { return status(nodes[i].url+"/ready") != http.StatusOK })
		chats("one node drains")
		waittest.Until(t, "the node accepts no more connections", func() bool { return status(nodes[i].url+"/ready") == 0 })
		chats("one node is away")
		stream.finish(t)
		if err := waittest.Receive(t, nodes[i].ended, "the end of the node"); err != nil {
			t.Errorf("node %d ends with %v\n%s", i, err, nodes[i].errors)
		}
		begin(i)
	}
	chats("both nodes are new")
	end()
	waittest.Receive(t, done, "the last read")
	if reads.Load() == 0 || lost.Load() > 0 {
		t.Errorf("%d of %d reads were lost", lost.Load(), reads.Load())
	}
}

// read sends a request that changes nothing, and returns its status, 0 for none.
func (f *front) read() int {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Bound)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/v1/models", nil)
	if err != nil {
		return 0
	}
	req.Header.Set("X-Gateway-Api-Key", key)
	resp, err := f.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// streams are two streams, one on each node if nginx takes turns, and on any otherwise.
type streams struct {
	last  chan struct{}
	lines []*bufio.Reader
}

func openStreams(t *testing.T, f *front) *streams {
	t.Helper()
	s := &streams{last: make(chan struct{})}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"begun"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-s.last:
		case <-r.Context().Done():
		}
		io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(provider.Close)
	for range 4 {
		resp := ask(t, f.client, f.url, provider.URL, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
		lines := bufio.NewReader(resp.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "begun") {
			t.Fatalf("status %d, %q, %v", resp.StatusCode, line, err)
		}
		s.lines = append(s.lines, lines)
	}
	return s
}

// finish lets the streams end, and checks that they end well.
func (s *streams) finish(t *testing.T) {
	t.Helper()
	close(s.last)
	for _, lines := range s.lines {
		if rest, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			t.Errorf("a stream ends with %q, %v", rest, err)
		}
	}
}

// nginx takes the file that the document shows, with and without its lines for WebSocket
// connections. Only places of this machine are others.
func TestNginxOfTheDocumentIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```nginx\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("the document has %d blocks, want the file and the lines for WebSocket connections", len(blocks))
	}
	file, _, _ := strings.Cut(blocks[0], "```")
	lines, _, _ := strings.Cut(blocks[1], "```")
	mapping, headers, ok := strings.Cut(lines, "\n")
	before := `proxy_set_header Connection "";`
	if !ok || !strings.Contains(file, before) {
		t.Fatalf("the lines are %q, and the file has no line %q", lines, before)
	}
	folder := t.TempDir()
	certificate, secret := storetest.NewAuthority(t, "test").Issue(t, "gateway.example.com")
	for name, text := range map[string]string{"gateway.pem": certificate, "gateway.key": secret} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	places := strings.NewReplacer("/etc/ssl/", folder+"/", "listen 443", "listen "+place(8)+":8443")
	for _, conf := range []string{file, mapping + "\n" + strings.Replace(file, before, headers, 1)} {
		name := filepath.Join(folder, "nginx.conf")
		if err := os.WriteFile(name, []byte("pid nginx.pid; events {}\nhttp {\n"+places.Replace(conf)+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("nginx", "-p", folder, "-c", name, "-e", "stderr", "-t").CombinedOutput(); err != nil {
			t.Errorf("nginx -t: %v\n%s\n%s", err, out, conf)
		}
	}
}
