package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/server"
	"modelgate/internal/simulator"
	"modelgate/internal/snapshot"
)

// hello is the first line of a target: where it serves.
type hello struct {
	Addr string `json:"addr"`
}

// Target runs the process of one target: args are its name and the address to which it
// forwards. It writes its own address to out, obeys the commands in in, one per line, and
// returns at the end of in.
func Target(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("name a target, such as %s, %s or %s", simulatorJob, ReverseProxy, Modelgate)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := childControl{out: json.NewEncoder(out)}
	defer o.close()
	var upstreamAddr, redis string
	if len(args) > 1 {
		upstreamAddr = args[1]
	}
	if len(args) > 2 {
		redis = args[2]
	}
	switch args[0] {
	case simulatorJob:
		o.gate = new(gate)
		sim := simulator.New(simulator.Options{Tokens: responseTokens})
		return o.serve(ctx, in, o.gate.wrap(sim))
	case ReverseProxy:
		return o.serve(ctx, in, fullDuplex(plainProxy(upstreamAddr)))
	case Handler:
		return o.serve(ctx, in, fullDuplex(&plainHandler{upstreamAddr, plainTransport()}))
	case Bare:
		h, err := newBareHandler(ctx, upstreamAddr)
		if err != nil {
			return err
		}
		return o.serve(ctx, in, fullDuplex(h))
	case Modelgate, Unrecorded, FullBodies, Limits, SharedLimits:
		return o.serveGateway(ctx, in, args[0], upstreamAddr, redis)
	}
	return fmt.Errorf("there is no target %q", args[0])
}

// serve answers with h until in ends.
func (o *childControl) serve(ctx context.Context, in io.Reader, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go srv.Serve(l)
	defer srv.Close()
	return o.obey(ctx, in, l.Addr())
}

// redisVariable is the environment variable with the address of Redis, which a
// settings file may not contain.
const redisVariable = "BENCH_REDIS_URL"

// gatewaySettings are the settings of the gateways that have any.
var gatewaySettings = map[string]string{
	FullBodies:   "logs: {level: full}\n",
	SharedLimits: "limits: {counters: {store: redis, url: '${" + redisVariable + "}', deadline: 5s, on_store_down: closed}}\n",
}

// serveGateway runs the real gateway on a temporary data folder: with the key
// check, and with every exchange recorded unless its name says otherwise.
func (o *childControl) serveGateway(ctx context.Context, in io.Reader, name, upstreamAddr, redis string) error {
	data, err := os.MkdirTemp("", "modelgate-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	config := ""
	if text := gatewaySettings[name]; text != "" {
		config = filepath.Join(data, "modelgate.yaml")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Setenv(redisVariable, redis); err != nil {
		return err
	}
	s, err := server.New(ctx, server.Options{
		Data:             data,
		Config:           config,
		NoRecording:      name == Unrecorded,
		Listen:           "127.0.0.1:0",
		BootstrapKey:     secret.New(gatewayKey),
		TrustLoopback:    true,
		ManagedProviders: managed(upstreamAddr),
		Logger:           slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Version:          "bench",
		HeapFloor:        server.HeapFloor,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, nil) }()
	if name == Limits || name == SharedLimits {
		if err := setLimits(ctx, s.Addr().String()); err != nil {
			return err
		}
	}
	if err := o.obey(ctx, in, s.Addr()); err != nil {
		return err
	}
	cancel()
	return <-done
}

// managed returns the managed providers of the gateway: the simulator, once for each
// dialect that it supports.
func managed(upstreamAddr string) (list []snapshot.ManagedProvider) {
	for _, p := range providers {
		list = append(list, snapshot.ManagedProvider{
			Slug: p.slug, Provider: p.row,
			Settings: provider.Settings{Key: secret.New("sim"), CustomHost: "http://" + upstreamAddr + p.base},
		})
	}
	return list
}

// plainTransport returns the standard transport as a careful operator sets it:
// space for idle connections, since its default of two would measure how fast
// connections are dialled; no proxy lookup, no compression, and buffers that take a
// usual request and response in one system call each.
func plainTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 4096, 4096
	t.DisableCompression = true
	t.WriteBufferSize, t.ReadBufferSize = 16<<10, 8<<10
	return t
}

// fullDuplex keeps the server from closing the request's body when the response
// begins. It would do so under the transport's last read now and then, and the
// response would be lost.
func fullDuplex(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // always there in HTTP/1
		h.ServeHTTP(w, r)
	})
}

// plainProxy returns the fastest proxy that the standard library offers: with a
// buffer pool, without which it would allocate 32 KB for each response.
func plainProxy(addr string) http.Handler {
	to := &url.URL{Scheme: "http", Host: addr}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:  plainTransport(),
		BufferPool: proxyBuffers{},
	}
}

// proxyBuffers lends [copyBuffers] to a ReverseProxy.
type proxyBuffers struct{}

func (proxyBuffers) Get() []byte { return copyBuffers.Get().(*[8 << 10]byte)[:] }

func (proxyBuffers) Put(b []byte) { copyBuffers.Put((*[8 << 10]byte)(b)) }

// plainHandler forwards by hand and does nothing else. What it costs is what
// net/http costs.
type plainHandler struct {
	addr      string
	transport *http.Transport
}

func (p *plainHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := url.URL{Scheme: "http", Host: p.addr, Path: r.URL.Path}
	req := (&http.Request{
		Method: r.Method, URL: &u, Host: p.addr,
		Header: http.Header{"Content-Type": r.Header["Content-Type"], "User-Agent": r.Header["User-Agent"]},
		Body:   r.Body, ContentLength: r.ContentLength,
	}).WithContext(r.Context())
	res, err := p.transport.RoundTrip(req)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	h := w.Header()
	maps.Copy(h, res.Header)
	w.WriteHeader(res.StatusCode)
	p.copy(w, res)
}

// copy flushes after each read of a body without a length.
func (p *plainHandler) copy(w http.ResponseWriter, res *http.Response) {
	buf := copyBuffers.Get().(*[8 << 10]byte)
	defer copyBuffers.Put(buf)
	rc := http.NewResponseController(w)
	for {
		n, err := res.Body.Read(buf[:])
		if _, werr := w.Write(buf[:n]); werr != nil {
			return
		}
		if res.ContentLength < 0 {
			rc.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// childControl is how a target's process is talked to.
type childControl struct {
	out  *json.Encoder
	gate *gate // of the simulator, else nil
	prof profiler
}

// obey says hello and answers each command with a line, until in ends.
func (o *childControl) obey(ctx context.Context, in io.Reader, addr net.Addr) error {
	if err := o.out.Encode(hello{addr.String()}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for ctx.Err() == nil && lines.Scan() {
		u, err := o.command(lines.Text())
		if err != nil {
			u.Error = err.Error()
		}
		if err := o.out.Encode(u); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (o *childControl) command(line string) (u usage, err error) {
	name, arg, _ := strings.Cut(line, " ")
	switch name {
	case "usage":
		return readUsage()
	case "reset-peak":
		return u, resetPeak()
	case "hold":
		return u, o.gate.hold(arg)
	case "open":
		o.gate.open()
		return u, nil
	case "profile-cpu":
		return u, o.prof.startCPU(arg)
	case "profile-allocs":
		return u, o.prof.stopCPU()
	case "profiled":
		return u, o.prof.writeAllocs(arg)
	}
	return u, fmt.Errorf("there is no command %q", name)
}

func (o *childControl) close() {
	if o.gate != nil {
		o.gate.open()
	}
}
