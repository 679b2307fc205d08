package batches

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// killLease is the lease of jobs of the processes that are killed.
const killLease = 500 * time.Millisecond

// Environment of the processes that are killed.
const (
	nodeDSN      = "BATCHES_TEST_DSN"
	nodeFolder   = "BATCHES_TEST_FOLDER"
	nodeProvider = "BATCHES_TEST_PROVIDER"
)

// killTime is the environment variable with a duration for which [TestKilledNodesGiveEachLineOneResult]
// runs batches, one after the other. Without it, it runs one.
const killTime = "BATCHES_TEST_KILL_TIME"

// TestKilledNodesGiveEachLineOneResult has three processes on one database run a batch while
// they are killed at random moments. The provider is in the process of the test.
func TestKilledNodesGiveEachLineOneResult(t *testing.T) {
	if dsn := os.Getenv(nodeDSN); dsn != "" {
		runNode(t, dsn)
		return
	}
	if testing.Short() {
		return // needs PostgreSQL
	}
	var long time.Duration
	if text := os.Getenv(killTime); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	p, url := serve(t)
	dsn := storetest.Postgres(t)
	n := start(t, dsn, 8, p)
	procs := make([]*exec.Cmd, 3)
	for i := range procs {
		procs[i] = mustStart(t, dsn, n.store.path, url)
	}
	killed, batches := 0, 0
	for began := time.Now(); batches == 0 || time.Since(began) < long && !t.Failed(); batches++ {
		p.forget()
		killed += n.killDuring(t, p, procs, func() *exec.Cmd { return mustStart(t, dsn, n.store.path, url) })
	}
	t.Logf("%d processes were killed during %d batches", killed, batches)
}

// killDuring runs a batch while all processes are killed several times, checks its results and
// returns the number of kills. Restart replaces a process.
func (n *node) killDuring(t *testing.T, p *fakeProvider, procs []*exec.Cmd, restart func() *exec.Cmd) (killed int) {
	t.Helper()
	const lines, kills = 800, 6
	id := n.add(t, linesOfInput(lines))
	for i := range kills {
		least := lines*(i+1)/(kills+2) + mathrand.IntN(20)
		waittest.Until(t, "progress of the batch", func() bool { return p.total() >= least || n.hasEnded(t, id) })
		for k := range procs { // all: one of them has the batch
			procs[k].Process.Kill()
			procs[k].Wait()
			procs[k] = restart()
			killed++
		}
	}
	waittest.Until(t, "the end of the batch", func() bool { return n.hasEnded(t, id) })
	p.check(t, n.mustEnd(t, id, lines, vendorbatch.Completed), lines)
	return killed
}

// forget forgets what was sent.
func (p *fakeProvider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.sent)
}

// TestAPausedNodeStoresNothing pauses the node that has a batch for longer than its lease.
func TestAPausedNodeStoresNothing(t *testing.T) {
	if testing.Short() {
		return // needs PostgreSQL
	}
	const lines = 400
	p, url := serve(t)
	dsn := storetest.Postgres(t)
	n := start(t, dsn, 8, p)
	id := n.add(t, linesOfInput(lines))
	paused := mustStart(t, dsn, n.store.path, url)
	waittest.Until(t, "some lines", func() bool { return p.total() > 100 })
	if err := paused.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before, err := n.deps.DB.JobOf(t.Context(), store.JobBatch, id)
	if err != nil {
		t.Fatal(err)
	}
	mustStart(t, dsn, n.store.path, url)
	waittest.Until(t, "another node with the batch", func() bool {
		j, err := n.deps.DB.JobOf(t.Context(), store.JobBatch, id)
		return err == nil && j.Token != before.Token && j.Node != before.Node
	})
	if err := paused.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the end of the batch", func() bool { return n.hasEnded(t, id) })
	p.check(t, n.mustEnd(t, id, lines, vendorbatch.Completed), lines)
}

// hasEnded reports whether a batch has ended.
func (n *node) hasEnded(t testing.TB, id string) bool {
	o, _ := n.read(t, id)
	return vendorbatch.Status(o.State).Ended()
}

// check compares results with what was sent.
func (p *fakeProvider) check(t *testing.T, all map[string]result, lines int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	twice, marked, interrupted := 0, 0, 0
	for name, r := range all {
		var body struct{ Messages []int }
		sent := p.sent[`{"model":"m","messages":[`+name[1:]+`]}`]
		if r.Response != nil {
			if json.Unmarshal(r.Response.Body, &body) != nil || len(body.Messages) != 1 {
				t.Errorf("the line %s has the response %s", name, r.Response.Body)
			}
		} else if interrupted++; r.Error == nil || r.Error.Code != "batch_line_interrupted" {
			t.Errorf("the line %s has the result %+v", name, r)
		}
		if r.Repeated {
			marked++
		}
		if sent == 2 {
			twice++
		}
		if sent > 2 || sent == 2 && !r.Repeated || sent == 0 && r.Response != nil {
			t.Errorf("the line %s was sent %d times, and its result is marked as repeated: %t", name, sent, r.Repeated)
		}
	}
	t.Logf("%d lines: %d were sent twice, %d are marked as repeated, of which %d were not sent again", lines, twice, marked, interrupted)
}

// serve starts a provider for other processes, which takes some milliseconds for a line.
func serve(t *testing.T) (*fakeProvider, string) {
	t.Helper()
	p := newFakeProvider()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.sent[string(body)]++
		p.mu.Unlock()
		<-time.After(10 * time.Millisecond)
		w.Write(body)
	}))
	t.Cleanup(up.Close)
	return p, up.URL
}

// mustStart starts a process that is a node until it is killed.
func mustStart(t *testing.T, dsn, folder, url string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledNodesGiveEachLineOneResult$")
	c.Env = append(os.Environ(), nodeDSN+"="+dsn, nodeFolder+"="+folder, nodeProvider+"="+url)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	return c
}

// runNode runs batches until the process is killed.
func runNode(t *testing.T, dsn string) {
	db, err := store.Open(t.Context(), dsn, store.Options{Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	call := func(w http.ResponseWriter, r *http.Request, c *dataplane.Call) {
		body, _ := io.ReadAll(r.Body) // in memory
		c.Result.Sent = true
		q, err := http.NewRequestWithContext(r.Context(), "POST", os.Getenv(nodeProvider), bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		q.GetBody = nil // is not sent again on another connection
		res, err := client.Do(q)
		if err != nil {
			c.Result.Broken = true
			return
		}
		defer res.Body.Close()
		io.Copy(w, res.Body)
	}
	newNode(db, os.Getenv(nodeFolder), 8, call).jobs(killLease).Run(context.WithoutCancel(t.Context()))
}
