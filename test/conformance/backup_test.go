package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// recorded is a gateway whose requests are known, to compare with what a copy of its data has.
type recorded struct {
	*gateway
	provider *provider
	dsn      string // empty for files
	env      []string
	id, key  string // of a key with a budget of tokens

	mu     sync.Mutex
	ended  []string // ids of requests whose response was read
	stop   chan struct{}
	sender sync.WaitGroup
}

const recordedMaster = "MODELGATE_MASTER_KEY=the master key of a conformance test"

// launchRecorded starts a gateway and sends requests to it until it is stopped.
func launchRecorded(t *testing.T, kind string) *recorded {
	t.Helper()
	r := &recorded{provider: newProvider(t, nil), stop: make(chan struct{}), env: []string{recordedMaster, "MODELGATE_TRUSTED_HOSTS=127.0.0.1"}}
	if kind == "postgres" {
		r.dsn = storetest.Postgres(t)
		r.env = append(r.env, "DATABASE_URL="+r.dsn)
	}
	var err error
	if r.gateway, err = launch(upgradeSettings, r.env...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.process.Process.Kill() })
	created := r.as(t, bootstrapKey, "POST", "/v1/api-keys/workspace/service",
		`{"name":"k","workspace_id":"default","scopes":["completions.write"],"usage_limits":{"type":"tokens","credit_limit":1000000}}`).object(t)
	r.id, r.key = fmt.Sprint(created["id"]), fmt.Sprint(created["key"])
	for range 4 {
		r.sender.Go(func() {
			for r.send(t) {
			}
		})
	}
	t.Cleanup(r.stopSending)
	return r
}

// stopSending ends the requests.
func (r *recorded) stopSending() {
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	r.sender.Wait()
}

// send sends a request and reports whether to send another.
func (r *recorded) send(t *testing.T) bool {
	select {
	case <-r.stop:
		return false
	default:
	}
	req := r.request(t, "POST", "/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`),
		"x-gateway-api-key", r.key, "x-gateway-provider", "openai-compatible", "x-gateway-custom-host", r.provider.url, "Authorization", "Bearer x", "content-type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return false // the gateway was killed
	}
	defer res.Body.Close()
	for b := make([]byte, 1024); err == nil; {
		_, err = res.Body.Read(b)
	}
	if res.StatusCode != http.StatusOK {
		t.Errorf("a request ended with %d", res.StatusCode)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, res.Header.Get("x-gateway-request-id"))
	return true
}

// awaitRequests returns the ids of the requests that have ended, once there are n more.
func (r *recorded) awaitRequests(t *testing.T, n int) []string {
	t.Helper()
	r.mu.Lock()
	start := len(r.ended)
	r.mu.Unlock()
	var list []string
	waittest.Until(t, "more requests have ended", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		list = append(list[:0], r.ended...)
		return len(list) >= start+n
	})
	return list
}

// flags are the flags that name the databases of a data folder.
func (r *recorded) flags(data, dsn string) []string {
	list := []string{"--data", data}
	if dsn != "" {
		list = append(list, "--database-url", dsn)
	}
	return list
}

// wantCopy starts a gateway on a copy of the data, and compares what it says. The copy has all
// requests of before, each once, perhaps later ones, and the same sums in the log and the budget.
func (r *recorded) wantCopy(t *testing.T, data, dsn string, before []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(data, "modelgate.yaml"), []byte(upgradeSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{recordedMaster}
	if dsn != "" {
		env = append(env, "DATABASE_URL="+dsn)
	}
	g := &gateway{data: data}
	if err := g.begin(env); err != nil {
		t.Fatal(err)
	}
	defer g.stop()
	var state string
	waittest.Until(t, "the log and the budget agree", func() bool {
		entries := g.logIDs(t, r.id)
		state = fmt.Sprintf("%d entries", len(entries))
		for _, id := range before {
			if entries[id] != 1 {
				state += fmt.Sprintf("; request %s is there %d times", id, entries[id])
				return false
			}
		}
		for id, n := range entries {
			if n != 1 {
				state += fmt.Sprintf("; request %s is there %d times", id, n)
			}
		}
		key := g.as(t, bootstrapKey, "GET", "/v1/api-keys/"+r.id, "")
		spent := key.number(t, "usage_limits", "current_usage")
		logged := g.as(t, bootstrapKey, "GET", "/v1/analytics/graphs/tokens?api_key_ids="+r.id, "").number(t, "summary", "total")
		state += fmt.Sprintf("; the budget has %g tokens, the log %g", spent, logged)
		t.Log(state)
		return spent == logged && spent > 0 && len(entries) >= len(before)
	})
	t.Log(state)
	mustCommand(t, append([]string{"audit", "verify"}, r.flags(data, dsn)...)...)
}

// logIDs returns the ids of the log's entries with a key, and how often each is there. Those of
// requests that were in progress when the gateway was killed have no operation.
func (g *gateway) logIDs(t *testing.T, key string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for cursor := ""; ; {
		page := g.as(t, bootstrapKey, "GET", "/v1/logs?limit=1000&api_key="+key+cursor, "").wantOK(t)
		o := page.object(t)
		for _, e := range o["data"].([]any) {
			all[fmt.Sprint(e.(map[string]any)["id"])]++
		}
		next, _ := o["next_cursor"].(string)
		if next == "" {
			return all
		}
		cursor = "&cursor=" + next
	}
}

// TestBackupsOfARunningGatewayLoseAndRepeatNothing makes backups while requests are recorded,
// and one after kill -9, and restores each.
func TestBackupsOfARunningGatewayLoseAndRepeatNothing(t *testing.T) {
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			r := launchRecorded(t, kind)
			dir := t.TempDir()
			const backups = 3
			before := make([][]string, backups)
			for i := range backups {
				before[i] = r.awaitRequests(t, 30)
				if i == backups-1 {
					r.wantInUse(t, append([]string{"restore", "--force", filepath.Join(dir, "0")}, r.flags(r.data, r.dsn)...))
					r.wantInUse(t, append([]string{"restore", "--force", filepath.Join(dir, "0")}, r.flags(t.TempDir(), r.dsn)...))
					r.process.Process.Kill()
					r.stopSending()
					before[i] = r.ended
				}
				mustCommand(t, append([]string{"backup", filepath.Join(dir, fmt.Sprint(i))}, r.flags(r.data, r.dsn)...)...)
			}
			for i, ids := range before {
				data, dsn := t.TempDir(), ""
				if kind == "postgres" {
					dsn = storetest.Postgres(t)
				}
				mustCommand(t, append([]string{"restore", filepath.Join(dir, fmt.Sprint(i))}, r.flags(data, dsn)...)...)
				r.wantCopy(t, data, dsn, ids)
			}
		})
	}
}

// wantInUse runs a command that must notice the running gateway. An empty folder is in use
// by none.
func (r *recorded) wantInUse(t *testing.T, args []string) {
	t.Helper()
	if r.dsn == "" && !slices.Contains(args, r.data) {
		return
	}
	if _, errText, code := command(t, args...); code != 1 || !strings.Contains(errText, "a gateway uses the") {
		t.Errorf("%v next to a gateway: %d %s", args, code, errText)
	}
}

// TestMigrationsOutliveKills ends migrations with kill -9 at growing ages, until one comes to
// its end, and starts a gateway on the copy.
func TestMigrationsOutliveKills(t *testing.T) {
	r := launchRecorded(t, "sqlite")
	r.awaitRequests(t, 100)
	dsn := storetest.Postgres(t)
	args := []string{"migrate", "--data", r.data, "--database-url", dsn, "--from", "sqlite", "--to", "postgres"}
	r.wantInUse(t, args)
	r.process.Process.Kill()
	r.stopSending()
	for age := 20 * time.Millisecond; ; age += age / 2 {
		c := exec.CommandContext(t.Context(), program, args...)
		c.Env = programtest.Env(recordedMaster)
		var out, errText bytes.Buffer
		c.Stdout, c.Stderr = &out, &errText
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case <-time.After(age):
			c.Process.Kill()
			waittest.Receive(t, ended, "the end of a killed migration")
			continue
		case err := <-ended:
			if err != nil || !strings.Contains(out.String(), "copied and verified") {
				t.Fatalf("the migration ended with %v %s", err, errText.String())
			}
		}
		break
	}
	r.wantCopy(t, r.data, dsn, r.ended)
}
