package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// output is a sink that may be read while a command writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// invoke runs a command to its end. env holds NAME=value words.
func invoke(t *testing.T, env []string, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e output
	p := &program{strings.NewReader(in), &o, &e, environment(env), env}
	code = p.main(t.Context(), args)
	return code, o.String(), e.String()
}

func environment(words []string) func(string) string {
	return func(name string) string {
		for _, w := range words {
			if n, v, _ := strings.Cut(w, "="); n == name {
				return v
			}
		}
		return ""
	}
}

func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	mustWrite(t, broken, "version: 1\nproviders:\n  - slug: a\n    provider: openai\n    api_key: plain\n")
	good := filepath.Join(dir, "good.yaml")
	mustWrite(t, good, "version: 1\n")
	serve := []string{"serve", "--data", filepath.Join(dir, "data"), "--admin-listen", "off"}
	for _, tt := range []struct {
		name string
		args []string
		env  []string
		code int
		out  string
		errs string
	}{
		{"nothing", nil, nil, 2, "Usage", ""},
		{"help", []string{"help"}, nil, 0, "healthcheck", ""},
		{"unknown command", []string{"dance"}, nil, 2, "", `"dance"`},
		{"unknown flag", []string{"serve", "--nonsense"}, nil, 2, "", "nonsense"},
		{"an argument too many", []string{"version", "x"}, nil, 2, "", "unexpected argument"},
		{"help of a command", []string{"serve", "--help"}, nil, 0, "MODELGATE_LISTEN", ""},
		{"version", []string{"version"}, nil, 0, "modelgate", ""},
		{"bad log level", append(serve, "--log-level", "loud"), nil, 2, "", "loud"},
		{"bad log level by environment", serve, []string{"MODELGATE_LOG_LEVEL=loud"}, 2, "", "loud"},
		{"taken port", append(serve, "--listen", taken.Addr().String()), nil, 1, "", taken.Addr().String()},
		{"taken port by environment", serve, []string{"MODELGATE_LISTEN=" + taken.Addr().String()}, 1, "", taken.Addr().String()},
		{"broken settings", append(serve, "--config", broken), nil, 1, "", "broken.yaml:5:"},
		{"no settings", append(serve, "--config", "absent.yaml"), nil, 1, "", "absent.yaml"},
		{"no master key file", append(serve, "--master-key-file", "absent.key"), nil, 1, "", "absent.key"},
		{"bad trusted host", append(serve, "--trusted-hosts", "http://x"), nil, 1, "", "http://x"},
		{"check good", []string{"check", good}, nil, 0, "is valid", ""},
		{"check broken", []string{"check", broken}, nil, 1, "", "providers[0].api_key"},
		{"check nothing", []string{"check"}, nil, 2, "", "FILE"},
		{"keys without a word", []string{"keys"}, nil, 2, "", "create"},
		{"keys without a name", []string{"keys", "create", "--data", dir}, nil, 2, "", "--name"},
		{"revoke nobody", []string{"keys", "revoke", "--data", dir, "nobody"}, nil, 1, "", "nobody"},
		{"seal without a master key", []string{"seal"}, nil, 1, "", "MODELGATE_MASTER_KEY"},
		{"nobody is healthy", []string{"healthcheck", "--listen", "127.0.0.1:1"}, nil, 1, "", "cannot reach the gateway"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := invoke(t, tt.env, "", tt.args...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) {
				t.Errorf("modelgate %v = %d\nout: %s\nerr: %s\nwant %d, %q and %q", tt.args, code, out, errs, tt.code, tt.out, tt.errs)
			}
			if lines := strings.Count(errs, "\n"); tt.code == 1 && lines != 1 {
				t.Errorf("the error has %d lines, want one: %s", lines, errs)
			}
		})
	}
}

// running is a serve command on its way.
type running struct {
	out, err output
	url      string
	stop     context.CancelFunc
	done     chan int
}

var address = regexp.MustCompile(`serves (http://\S+)/v1`)

// start runs serve until it tells its address; it ends with the test.
func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, done: make(chan int, 1)}
	p := &program{strings.NewReader(""), &r.out, &r.err, environment(env), env}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"}, args...)
	go func() { r.done <- p.main(ctx, args) }()
	t.Cleanup(func() {
		stop()
		if code := <-r.done; code != 0 {
			t.Errorf("serve ended with code %d: %s", code, r.err.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); r.url == ""; {
		if m := address.FindStringSubmatch(r.out.String()); m != nil {
			r.url = m[1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("serve does not say where it serves: %s %s", r.out.String(), r.err.String())
		}
		<-time.After(5 * time.Millisecond)
	}
	return r
}

// status lists models with a key and returns the status.
func (r *running) status(t *testing.T, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", r.url+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", key)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

var printedKey = regexp.MustCompile(`mg-[A-Za-z0-9_-]{43}`)

func TestTheFirstStartPrintsAKeyOnce(t *testing.T) {
	data := filepath.Join(t.TempDir(), "new", "data")
	first := start(t, nil, "--data", data)
	keys := printedKey.FindAllString(first.out.String(), -1)
	if len(keys) != 1 {
		t.Fatalf("the first start printed %d keys: %s", len(keys), first.out.String())
	}
	if got := first.status(t, keys[0]); got != 200 {
		t.Errorf("the printed key is answered %d, want 200", got)
	}
	if strings.Contains(first.err.String(), keys[0]) {
		t.Error("the key is in the log")
	}
	second := start(t, nil, "--data", data)
	if keys := printedKey.FindAllString(second.out.String(), -1); len(keys) != 0 {
		t.Errorf("a later start printed %q", keys)
	}
	if got := second.status(t, keys[0]); got != 200 {
		t.Errorf("after a restart the key is answered %d, want 200", got)
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the data folder is open to others: %v, %v", info.Mode(), err)
	}
}

func TestABootstrapKeyCountsFromTheFirstStart(t *testing.T) {
	r := start(t, []string{"MODELGATE_BOOTSTRAP_KEY=boot-of-a-test-0123", "MODELGATE_DATA=" + t.TempDir()})
	if got := r.status(t, "boot-of-a-test-0123"); got != 200 {
		t.Errorf("the bootstrap key is answered %d, want 200", got)
	}
	if out := r.out.String(); printedKey.MatchString(out) || strings.Contains(out, "boot-of-a-test-0123") {
		t.Errorf("a start with a bootstrap key printed a key: %s", out)
	}
	if got := r.status(t, "shoe"); got != 401 {
		t.Errorf("another key is answered %d, want 401", got)
	}
}

func TestShortBootstrapKeysAreRefused(t *testing.T) {
	code, _, errs := invoke(t, []string{"MODELGATE_BOOTSTRAP_KEY=fifteen-bytes-1"}, "", "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "off")
	if code != 1 || !strings.Contains(errs, "MODELGATE_BOOTSTRAP_KEY") || !strings.Contains(errs, "at least 16") || strings.Contains(errs, "fifteen-bytes-1") {
		t.Errorf("serve with a key of 15 bytes = %d: %s", code, errs)
	}
}

func TestTimesOfExpiryAreReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"720h": "2026-12-30T12:00:00Z", "90d": "2027-02-28T12:00:00Z", "+90d": "2027-02-28T12:00:00Z", "1h30m": "2026-11-30T13:30:00Z", "90m": "2026-11-30T13:30:00Z",
		"2027-01-01T00:00:00+01:00": "2026-12-31T23:00:00Z", "": "0001-01-01T00:00:00Z", "0": "0001-01-01T00:00:00Z",
	} {
		if got, err := parseExpiry(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"now-7d", "-1h", "3", "2026-11-30T11:59:59Z", "soon", "now"} {
		if got, err := parseExpiry(text, now); err == nil {
			t.Errorf("%q is %s, want it refused", text, got)
		}
	}
}

func TestAKeyMadeWhileServingCounts(t *testing.T) {
	data := t.TempDir()
	r := start(t, []string{"MODELGATE_BOOTSTRAP_KEY=boot-of-a-test-0123"}, "--data", data)
	code, out, errs := invoke(t, nil, "", "keys", "create", "--data", data, "--name", "late", "--json", "--expires", "1h")
	var made createdKey
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.Name != "late" || made.ExpiresAt == nil || !printedKey.MatchString(made.Key) {
		t.Fatalf("keys create = %d, %v: %s %s", code, err, out, errs)
	}
	waitStatus(t, r, made.Key, 200)
	if _, list, _ := invoke(t, nil, "", "keys", "list", "--data", data); !strings.Contains(list, made.ID) || strings.Contains(list, made.Key) {
		t.Errorf("keys list = %s, want the id and no key", list)
	}
	if code, _, errs := invoke(t, nil, "", "keys", "revoke", "--data", data, made.ID); code != 0 {
		t.Fatalf("keys revoke = %d: %s", code, errs)
	}
	waitStatus(t, r, made.Key, 401)
}

func waitStatus(t *testing.T, r *running, key string, status int) {
	t.Helper()
	began := time.Now()
	for got := r.status(t, key); got != status; got = r.status(t, key) {
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute the key is still answered %d, want %d", got, status)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestSealedCredentialsOpenWithTheirMasterKey(t *testing.T) {
	const master = "a master key that is long enough for this test"
	code, out, errs := invoke(t, []string{"MODELGATE_MASTER_KEY=" + master}, "sk-canary\n", "seal")
	if code != 0 || strings.Contains(out, "canary") {
		t.Fatalf("seal = %d: %s %s", code, out, errs)
	}
	dir := t.TempDir()
	file, key := filepath.Join(dir, "modelgate.yaml"), filepath.Join(dir, "master.key")
	mustWrite(t, file, "providers: [{slug: a, provider: openai, api_key: "+strings.TrimSpace(out)+"}]\n")
	mustWrite(t, key, master+"\n")
	if code, _, errs := invoke(t, nil, "", "check", "--master-key-file", key, file); code != 0 {
		t.Errorf("check with the master key = %d: %s", code, errs)
	}
	if code, _, errs := invoke(t, []string{"MODELGATE_MASTER_KEY=another master key, also long enough"}, "", "check", file); code != 1 || strings.Contains(errs, "canary") {
		t.Errorf("check with another master key = %d: %s; want 1", code, errs)
	}
}

func TestSignals(t *testing.T) {
	signals, done, now := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	events := make(chan string, 4)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		handleSignals(signals, done, func() { events <- "drain" }, now, func() { events <- "reload" })
	}()
	for _, s := range []struct {
		signal os.Signal
		want   string
	}{{syscall.SIGHUP, "reload"}, {syscall.SIGTERM, "drain"}, {syscall.SIGHUP, "reload"}} {
		signals <- s.signal
		if got := waittest.Receive(t, events, "what the signal leads to"); got != s.want {
			t.Errorf("%v leads to %s, want %s", s.signal, got, s.want)
		}
	}
	select {
	case <-now:
		t.Fatal("one signal ended at once")
	default:
	}
	signals <- os.Interrupt
	waittest.Receive(t, now, "the end at once")
	waittest.Receive(t, ended, "the end")
	close(done)
}
