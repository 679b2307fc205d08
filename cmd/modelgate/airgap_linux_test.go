package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/waittest"
)

// isolated is set in the process of the test that has no network.
const isolated = "MODELGATE_TEST_ISOLATED"

// TestAGatewayWithoutANetworkDialsOnlyItsProvider runs a gateway with a local provider in a
// namespace that has loopback alone, and counts connections by the counters of the kernel.
// Where namespaces are not permitted, a resolver and a proxy count.
func TestAGatewayWithoutANetworkDialsOnlyItsProvider(t *testing.T) {
	if at := os.Getenv(isolated); at != "" {
		runIsolated(t, at)
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := l.Addr().String()
	l.Close()
	user := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	for _, attr := range []*syscall.SysProcAttr{{Cloneflags: syscall.CLONE_NEWNET}, user, {}} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		place := "alone"
		if attr.Cloneflags == 0 {
			place = "shared"
		}
		c.SysProcAttr = attr
		c.Env = append(os.Environ(), isolated+"="+place+" "+proxy, "HTTP_PROXY=http://"+proxy, "HTTPS_PROXY=http://"+proxy, "NO_PROXY=")
		out, err := c.CombinedOutput()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			continue
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%s: %v\n%s", place, err, out)
		}
		return
	}
}

// runIsolated starts a gateway, uses it, restarts it and diagnoses it.
func runIsolated(t *testing.T, at string) {
	place, proxy, _ := strings.Cut(at, " ")
	if place == "alone" {
		raiseLoopback(t)
	}
	var elsewhere, provider, asked atomic.Int64
	l, err := net.Listen("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			elsewhere.Add(1)
			c.Close()
		}
	}()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		elsewhere.Add(1)
		return nil, errors.New("no name server")
	}}
	sim := httptest.NewUnstartedServer(simulator.New(simulator.Options{}))
	sim.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			provider.Add(1)
		}
	}
	sim.Start()
	defer sim.Close()
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	mustWrite(t, file, "providers: [{slug: local, provider: openai, custom_host: \""+sim.URL+"/v1\"}]\n")
	env := []string{"MODELGATE_DATA=" + t.TempDir(), "MODELGATE_CONFIG=" + file, "MODELGATE_TRUSTED_HOSTS=127.0.0.1",
		"MODELGATE_BOOTSTRAP_KEY=boot-of-a-test-0123", masterKey}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	before := kernelCounts(t)
	for range 2 {
		r := start(t, env)
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/chat/completions",
			strings.NewReader(`{"model":"sim-1","messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("x-gateway-api-key", "boot-of-a-test-0123")
		req.Header.Set("x-gateway-provider", "@local")
		asked.Add(1)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
		r.stop()
		r.done <- waittest.Receive(t, r.done, "the end of the gateway") // the end of the test reads it again
	}
	offline := provider.Load()
	if code, out, errs := invoke(t, env, "", "doctor", "--offline", "--listen", "127.0.0.1:0"); code != 0 || provider.Load() != offline {
		t.Errorf("doctor --offline: %d %s %s", code, out, errs)
	}
	if code, out, errs := invoke(t, env, "", "doctor", "--listen", "127.0.0.1:0"); code != 0 || provider.Load() != offline+1 {
		t.Errorf("doctor: %d %s %s", code, out, errs)
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d connections to a proxy or a name server, which nothing needs", n)
	}
	if place != "alone" {
		return
	}
	after := kernelCounts(t)
	if n, want := after["Tcp ActiveOpens"]-before["Tcp ActiveOpens"], asked.Load()+provider.Load(); n != want {
		t.Errorf("%d connections were opened, want %d: of the test, and to the provider", n, want)
	}
	for _, name := range []string{"Ip OutNoRoutes", "Udp OutDatagrams", "Ip6OutNoRoutes", "Udp6OutDatagrams"} {
		if n := after[name] - before[name]; n != 0 {
			t.Errorf("%s: %d packets to somewhere else", name, n)
		}
	}
}

// kernelCounts returns the counters of the network namespace.
func kernelCounts(t *testing.T) map[string]int64 {
	t.Helper()
	counts := make(map[string]int64)
	text := mustRead(t, "/proc/self/net/snmp") + mustRead(t, "/proc/self/net/snmp6")
	var names []string
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		words := strings.Fields(s.Text())
		family, ok := strings.CutSuffix(words[0], ":")
		switch {
		case !ok:
			n, _ := strconv.ParseInt(words[1], 10, 64)
			counts[words[0]] = n
		case names == nil:
			names = words
		default:
			for i, name := range names[1:] {
				n, _ := strconv.ParseInt(words[i+1], 10, 64)
				counts[fmt.Sprint(family, " ", name)] = n
			}
			names = nil
		}
	}
	return counts
}

// raiseLoopback makes loopback usable, the first interface of a namespace.
// https://man7.org/linux/man-pages/man7/rtnetlink.7.html
func raiseLoopback(t *testing.T) {
	t.Helper()
	s, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, syscall.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(s)
	const up = syscall.IFF_UP
	m := binary.NativeEndian.AppendUint32(nil, syscall.SizeofNlMsghdr+syscall.SizeofIfInfomsg)
	m = binary.NativeEndian.AppendUint16(m, syscall.RTM_NEWLINK)
	m = binary.NativeEndian.AppendUint16(m, syscall.NLM_F_REQUEST|syscall.NLM_F_ACK)
	m = append(m, make([]byte, 8+4)...) // sequence, port, family and type
	m = binary.NativeEndian.AppendUint32(m, 1)
	m = binary.NativeEndian.AppendUint32(m, up)
	m = binary.NativeEndian.AppendUint32(m, up)
	if err := syscall.Sendto(s, m, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	if n, _, err := syscall.Recvfrom(s, answer, 0); err != nil || n < 20 || binary.NativeEndian.Uint32(answer[16:]) != 0 {
		t.Fatalf("raising loopback: %d bytes, %v", n, err)
	}
}
