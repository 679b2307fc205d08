package ledger

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/recorder"
)

// smallDisk mounts a file system of its own size, in memory, that can be full.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); errors.Is(err, syscall.EPERM) {
		t.Fatal("mounting a file system is not permitted: run the tests as root, or with MODELGATE_TEST_MOUNT=off to do without")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all room of a disk and returns the file that has it.
func fill(t *testing.T, disk string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk ended with %v", err)
	}
	return f.Name()
}

// ask sends a request and returns its result.
func (g *gateway) ask(model string) (status int, body string, err error) {
	req, err := http.NewRequest("POST", g.url+"/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		return 0, "", err
	}
	for name, v := range map[string]string{"Content-Type": "application/json", "x-gateway-api-key": key, "x-gateway-provider": "@sim"} {
		req.Header.Set(name, v)
	}
	res, err := g.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// TestAGatewayOutlivesAFullDisk fills a real file system under a gateway, gives
// the room back, and compares what the simulator served, the ledger and the log.
func TestAGatewayOutlivesAFullDisk(t *testing.T) {
	if os.Getenv("MODELGATE_TEST_MOUNT") == "off" { // tools/test.sh says so
		return
	}
	for _, full := range []string{"reject", "block", "drop_bodies"} {
		t.Run(full, func(t *testing.T) {
			c := &crowded{disk: smallDisk(t, "48m"), full: full, sim: recorder.New(recorder.Options{})}
			c.up = httptest.NewServer(c.sim)
			t.Cleanup(c.up.Close)
			c.start(t)
			c.serve(t, 20)
			filler := fill(t, c.disk)
			c.press(t)
			if served := c.sim.Served().Requests; served != c.answered {
				t.Errorf("on a full disk the simulator has served %d requests, clients had %d answers", served, c.answered)
			}
			empty(t, filler)
			c.recover(t)
			c.serve(t, 20)
			fill(t, c.disk)
			c.g.kill()
			empty(t, filler)
			c.start(t)
			c.serve(t, 5)
			c.g.stop(t)
			c.check(t)
		})
	}
}

// crowded is a gateway on a disk that may be full.
type crowded struct {
	disk, full string
	sim        *recorder.Recorder
	up         *httptest.Server
	g          *gateway
	answered   int
	waiting    chan int // statuses of requests that nobody waited for
}

func (c *crowded) start(t *testing.T) {
	t.Helper()
	setting := ""
	if c.full != "" {
		setting = "ledger: {on_full: " + c.full + "}"
	}
	c.g = start(t, c.disk, c.up.URL, setting)
	c.waiting = make(chan int, 1)
}

// serve has n requests answered.
func (c *crowded) serve(t *testing.T, n int) {
	t.Helper()
	for range n {
		if status, body, err := c.g.ask("sim"); status != http.StatusOK {
			t.Fatalf("%d %s %v", status, body, err)
		}
		c.answered++
	}
}

// press sends requests to a gateway on a full disk until one is refused or
// waits. The last block of a file may have room for some.
func (c *crowded) press(t *testing.T) {
	t.Helper()
	bound := time.Minute
	if c.full == "block" { // it waits: no response is what there is to see
		bound = 2 * time.Second
	}
	for {
		text := ""
		go func() {
			status, body, _ := c.g.ask("sim")
			text = body
			c.waiting <- status
		}()
		select {
		case status := <-c.waiting:
			switch {
			case status == http.StatusOK:
				c.answered++
				continue
			case c.full == "block" || status != http.StatusServiceUnavailable || !strings.Contains(text, "ledger_full"):
				t.Fatalf("on a full disk: %d %s", status, text)
			}
			return
		case <-time.After(bound):
			if c.full != "block" {
				t.Fatal("on a full disk a request waits, where it should be refused")
			}
			return
		}
	}
}

// recover sees that requests are served when there is room again: the one that
// waits, and where they are refused, soon.
func (c *crowded) recover(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		if c.full != "block" {
			status, _, _ := c.g.ask("sim")
			c.waiting <- status
		}
		select {
		case status := <-c.waiting:
			if status == http.StatusOK {
				c.answered++
				return
			}
			if c.full == "block" {
				t.Fatalf("the request that waited for room was answered %d", status)
			}
		case <-deadline:
			t.Fatal("there is room again, and after a minute no request is served")
		}
	}
}

func empty(t *testing.T, filler string) {
	t.Helper()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
}

// check compares what the simulator has served with the ledger and the log.
func (c *crowded) check(t *testing.T) {
	t.Helper()
	if served := c.sim.Served().Requests; served != c.answered {
		t.Errorf("the simulator served %d requests, clients had %d answers", served, c.answered)
	}
	rows := 0
	for id, entries := range logged(t, c.disk) {
		if len(entries) != 1 {
			t.Errorf("%s stands %d times in the log", id, len(entries))
		}
		if entries[0].Status == http.StatusOK {
			rows++
		}
	}
	if rows != c.answered {
		t.Errorf("the log has %d answers, clients had %d", rows, c.answered)
	}
	verify := exec.Command(program, "ledger", "verify", "--data", c.disk)
	verify.Env = programtest.Env()
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("modelgate ledger verify: %v\n%s", err, out)
	}
}

// control sends a request of the control plane.
func (g *gateway) control(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-gateway-api-key", key)
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// readiness returns the status of /ready. A gateway that is not ready says that the disk is
// full.
func (g *gateway) readiness(t *testing.T) int {
	t.Helper()
	res, err := g.client.Get(strings.TrimSuffix(g.url, "/v1") + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if full := strings.Contains(string(text), "the disk of the data folder is full"); full != (res.StatusCode == 503) {
		t.Errorf("/ready returns %d %s", res.StatusCode, text)
	}
	return res.StatusCode
}

// TestAFullDiskIsReported fills the disk of a gateway with default settings. It rejects
// requests at once, however many, is not ready, and still revokes keys.
func TestAFullDiskIsReported(t *testing.T) {
	if os.Getenv("MODELGATE_TEST_MOUNT") == "off" {
		return
	}
	c := &crowded{disk: smallDisk(t, "48m"), sim: recorder.New(recorder.Options{})}
	c.up = httptest.NewServer(c.sim)
	t.Cleanup(c.up.Close)
	c.start(t)
	c.serve(t, 5)
	var ids []string
	for range 3 {
		status, text := c.g.control(t, "POST", "/api-keys/workspace/service", `{"name":"k","scopes":["completions.write"]}`)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
			t.Fatalf("creating a key: %d %s", status, text)
		}
		ids = append(ids, made.ID)
	}
	if got := c.g.readiness(t); got != 200 {
		t.Fatalf("/ready returns %d before the disk is full", got)
	}
	filler := fill(t, c.disk)
	if got := c.g.readiness(t); got != 503 {
		t.Errorf("/ready returns %d on a full disk, want 503", got)
	}
	c.press(t)
	for range 2000 { // their own entries do not fill the memory
		status, text, err := c.g.ask("sim")
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "ledger_full") || !strings.Contains(text, "no space left") {
			t.Fatalf("on a full disk: %d %s %v, want 503 ledger_full with its reason", status, text, err)
		}
	}
	for _, id := range ids {
		if status, text := c.g.control(t, "DELETE", "/api-keys/"+id, ""); status != 200 {
			t.Errorf("revoking a key on a full disk: %d %s", status, text)
		}
	}
	if got := c.g.readiness(t); got != 503 {
		t.Errorf("/ready returns %d on a full disk after keys were revoked, want 503", got)
	}
	empty(t, filler)
	c.recover(t)
	if got := c.g.readiness(t); got != 200 {
		t.Errorf("/ready returns %d when there is space again, want 200", got)
	}
}
