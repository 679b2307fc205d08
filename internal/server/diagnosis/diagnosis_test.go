package diagnosis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/server/diagnosis"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/upstream"
)

// world is a network without a network: hosts that behave as their name says.
type world struct {
	mu       sync.Mutex
	dialled  []string
	requests []string
}

func (w *world) options() upstream.Options {
	return upstream.Options{Dial: w.dial, Resolver: w, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
}

// slowAddress is that of a host that sends a byte a second.
var slowAddress = netip.MustParseAddr("93.184.216.35")

// LookupNetIP implements upstream.Resolver. It never answers for one name.
func (w *world) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	w.add(host)
	if host == "hung-name.example.com" {
		<-ctx.Done()
		return nil, &net.DNSError{Name: host, Err: "timeout", IsTimeout: true}
	}
	if strings.HasPrefix(host, "slow") {
		return []netip.Addr{slowAddress}, nil
	}
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

func (w *world) add(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dialled = append(w.dialled, host)
}

func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.add(address)
	here, there := net.Pipe()
	switch {
	case strings.HasPrefix(address, "absent"):
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	case strings.HasPrefix(address, slowAddress.String()):
		go func() {
			for _, b := range []byte("HTTP/1.1 200 OK\r\nServer: " + strings.Repeat("x", 1000)) {
				time.Sleep(time.Second)
				if _, err := there.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		go io.Copy(io.Discard, there)
	default:
		go w.serve(there)
	}
	return here, nil
}

func (w *world) serve(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	w.mu.Lock()
	w.requests = append(w.requests, fmt.Sprint(r.Method, " ", r.Host, r.URL, r.Header))
	w.mu.Unlock()
	shift := time.Duration(0)
	if strings.HasPrefix(r.Host, "later") {
		shift = 10 * time.Minute
	}
	fmt.Fprintf(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nDate: %s\r\nConnection: close\r\n\r\n",
		time.Now().Add(shift).UTC().Format(http.TimeFormat))
}

// run diagnoses settings in this world.
func (w *world) run(t *testing.T, settings string, offline bool) map[string]diagnosis.Finding {
	t.Helper()
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	o := diagnosis.Options{Offline: offline, Server: server.Options{
		Data: filepath.Join(t.TempDir(), "data"), Listen: "127.0.0.1:0", Config: file, Upstream: w.options(),
		TrustedHosts: []string{"*.example.com"},
	}}
	found := make(map[string]diagnosis.Finding)
	for _, f := range diagnosis.Run(t.Context(), o) {
		found[f.Check] = f
	}
	return found
}

const providers = `
telemetry: {endpoint: "http://collector.example.com:4318"}
public_url: http://absent.example.com
providers:
  - {slug: good, provider: openai, api_key: "${DIAGNOSIS_KEY}", custom_host: "http://good.example.com/v1"}
  - {slug: same, provider: openai, api_key: "${DIAGNOSIS_KEY}", custom_host: "http://good.example.com/v1"}
  - {slug: slow, provider: openai, custom_host: "http://slow.example.com"}
  - {slug: name, provider: openai, custom_host: "http://hung-name.example.com"}
`

func TestAHostThatHangsDelaysNothing(t *testing.T) {
	t.Setenv("DIAGNOSIS_KEY", "canary-of-a-provider")
	synctest.Test(t, func(t *testing.T) {
		w := new(world)
		began := time.Now()
		var settings strings.Builder
		settings.WriteString(providers)
		for i := range 40 {
			settings.WriteString(fmt.Sprintf("  - {slug: hung%d, provider: openai, custom_host: \"http://hung-name.example.com/%d\"}\n", i, i))
		}
		found := w.run(t, settings.String(), false)
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("the diagnosis took %s, with a limit of 5 s for each check", took)
		}
		for name, want := range map[string]struct {
			level diagnosis.Level
			text  string
		}{
			"provider @good and 1 more": {diagnosis.OK, "good.example.com answers with status 401"},
			"provider @slow":            {diagnosis.Failed, "slow.example.com"},
			"provider @name":            {diagnosis.Failed, "name"},
			"provider @hung39":          {diagnosis.Failed, "name"},
			"public_url":                {diagnosis.Warning, "absent.example.com"},
			"clock":                     {diagnosis.OK, "agrees"},
		} {
			f := found[name]
			if f.Level != want.level || !strings.Contains(f.Text, want.text) || (f.Fix == "") != (f.Level == diagnosis.OK) {
				t.Errorf("%s: %+v, want %+v", name, f, want)
			}
		}
		if good := found["provider @good and 1 more"]; good.Took > 1000 {
			t.Errorf("the host that answers was delayed by others: %d ms", good.Took)
		}
		time.Sleep(5 * time.Second) // until the hosts have noticed
	})
}

func TestOnlyNamedHostsAreAskedAndWithoutCredentials(t *testing.T) {
	t.Setenv("DIAGNOSIS_KEY", "canary-of-a-provider")
	synctest.Test(t, func(t *testing.T) {
		w := new(world)
		w.run(t, providers, false)
		for _, host := range w.dialled {
			name, _, _ := strings.Cut(host, ":")
			if !strings.HasSuffix(name, ".example.com") && !strings.HasPrefix(name, "93.184.216.3") {
				t.Errorf("dialled %s, which nobody named", host)
			}
		}
		all := strings.Join(w.requests, "\n")
		if !strings.Contains(all, "GET good.example.com") {
			t.Errorf("the provider was not asked: %s", all)
		}
		if strings.Contains(all, "canary") || strings.Contains(strings.ToLower(all), "authorization") {
			t.Errorf("a credential was sent: %s", all)
		}
		time.Sleep(5 * time.Second) // until the hosts have noticed
	})
}

func TestOfflineDialsNothing(t *testing.T) {
	t.Setenv("DIAGNOSIS_KEY", "canary-of-a-provider")
	l, err := net.Listen("tcp", "127.0.0.1:0") // stands for everything that upstream does not dial
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			c.Close()
		}
	}()
	t.Setenv("DIAGNOSIS_REDIS", "redis://"+l.Addr().String())
	settings := providers + `
alerts: {email: {server: "` + l.Addr().String() + `", from: a@example.com, tls: none}}
cache: {store: redis, url: "${DIAGNOSIS_REDIS}"}
limits: {counters: {store: redis, url: "${DIAGNOSIS_REDIS}"}}
`
	for _, offline := range []bool{true, false} {
		w := new(world)
		file := filepath.Join(t.TempDir(), "modelgate.yaml")
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		list := diagnosis.Run(t.Context(), diagnosis.Options{Offline: offline, Server: server.Options{
			Data: t.TempDir(), Listen: l.Addr().String(), AdminListen: l.Addr().String(), Config: file, Upstream: w.options(),
			MasterKey: secret.New("a master key of this test"), Database: secret.New("postgres://u:p@" + l.Addr().String() + "/d"),
			TrustedHosts: []string{"*.example.com"},
		}})
		dialled := len(w.dialled) + len(accepted)
		if (dialled == 0) != offline {
			t.Errorf("offline %t: %d connections; %v", offline, dialled, list)
		}
		if offline && diagnosis.CountFailures(list) > 0 {
			t.Errorf("offline: %v", list)
		}
	}
}

func TestAClockThatIsWrongIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for hosts, want := range map[string]diagnosis.Level{"later1 later2 good": diagnosis.Failed, "later1 good1 good2": diagnosis.OK} {
			var settings strings.Builder
			settings.WriteString("providers:\n")
			for h := range strings.FieldsSeq(hosts) {
				settings.WriteString("  - {slug: " + h + ", provider: openai, custom_host: \"http://" + h + ".example.com\"}\n")
			}
			w := new(world)
			if f := w.run(t, settings.String(), false)["clock"]; f.Level != want {
				t.Errorf("%s: %+v, want %s", hosts, f, want)
			}
		}
	})
}

func TestTheDatabaseIsDescribed(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		run := func() []diagnosis.Finding {
			return diagnosis.Run(t.Context(), diagnosis.Options{Server: server.Options{
				Data: t.TempDir(), Listen: "127.0.0.1:0", Database: secret.New(dsn), Upstream: new(world).options()}})
		}
		texts := func(list []diagnosis.Finding) (all string) {
			for _, f := range list {
				if f.Check == "database" {
					all += f.String() + "\n"
				}
			}
			return all
		}
		if text := texts(run()); !strings.Contains(text, "pending migrations") && !strings.Contains(text, "does not exist yet") {
			t.Errorf("an empty database: %s", text)
		}
		storetest.Open(t, dsn)
		list := run()
		if text := texts(list); !strings.Contains(text, "all migrations are applied") || strings.Contains(text, "failure") {
			t.Errorf("a database that is up to date: %s", text)
		}
		storetest.Exec(t, dsn, `UPDATE schema_migrations SET checksum = 'x' WHERE version = 1`)
		if text := texts(run()); !strings.Contains(text, "failure") || !strings.Contains(text, "other content") {
			t.Errorf("a database of another program: %s", text)
		}
	})
}

func TestAPausedDatabaseIsAFailure(t *testing.T) {
	s := storetest.NewServer(t)
	resume := s.Pause(t)
	defer resume()
	list := diagnosis.Run(t.Context(), diagnosis.Options{Server: server.Options{
		Data: t.TempDir(), Listen: "127.0.0.1:0", Database: secret.New(s.DSN()), Upstream: new(world).options()}})
	i := slices.IndexFunc(list, func(f diagnosis.Finding) bool { return f.Check == "database" })
	if i < 0 || list[i].Level != diagnosis.Failed || !strings.Contains(list[i].Text, "no response in time") {
		t.Errorf("a database that hangs: %v", list)
	}
}

func TestFindingsContainNoPasswords(t *testing.T) {
	env := map[string]string{"HTTPS_PROXY": "http://user:canary-proxy@absent.example.com:3128"}
	list := diagnosis.Run(t.Context(), diagnosis.Options{Environment: func(n string) string { return env[n] }, Server: server.Options{
		Data: t.TempDir(), Listen: "127.0.0.1:0", Upstream: new(world).options(),
		Database:     secret.New("postgres://user:canary-db@127.0.0.1:1/d"),
		LogsDatabase: secret.New("postgres://user:canary-log@127.0.0.1:1/d"),
		MasterKey:    secret.New("canary-master"), AdminToken: secret.New("canary-token"),
	}})
	if text := fmt.Sprint(list); strings.Contains(text, "canary") || !strings.Contains(text, "absent.example.com") {
		t.Errorf("%s", text)
	}
}
