package batches

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/dataplane"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/store/jobs"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// folder is a [kept.Contents] in a folder, which can be full.
type folder struct {
	path string
	full atomic.Bool
	put  func() // called after each file; nil is nothing
}

var errFull = errors.New("no space left on device")

func (f *folder) of(name string) string {
	return filepath.Join(f.path, strings.ReplaceAll(name, "/", "_"))
}

func (f *folder) Put(_ context.Context, _, name string, r io.Reader) (int64, error) {
	if f.full.Load() {
		return 0, errFull
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return 0, err
	}
	temporary := f.of(name) + rand.Text()
	if err := os.WriteFile(temporary, b, 0o600); err != nil {
		return 0, err
	}
	if f.put != nil {
		f.put()
	}
	return int64(len(b)), os.Rename(temporary, f.of(name))
}

func (f *folder) Get(_ context.Context, _, name string, offset, _ int64) (io.ReadCloser, error) {
	b, err := os.Open(f.of(name))
	if err == nil {
		_, err = b.Seek(offset, io.SeekStart)
	}
	return b, err
}

func (f *folder) Delete(_ context.Context, name string) error { return os.Remove(f.of(name)) }

func (f *folder) List(context.Context) iter.Seq2[blob.Info, error] {
	return func(func(blob.Info, error) bool) {}
}

func (f *folder) DeleteIncomplete(context.Context, time.Time) error { return nil }

// fakeProvider answers the lines of batches and counts them.
type fakeProvider struct {
	mu    sync.Mutex
	sent  map[string]int // by body; guarded by mu
	reply func(ctx context.Context, body []byte) []byte
}

func newFakeProvider() *fakeProvider {
	return &fakeProvider{sent: make(map[string]int), reply: func(context.Context, []byte) []byte { return []byte(`{"object":"chat.completion"}`) }}
}

// call implements the data plane.
func (p *fakeProvider) call(w http.ResponseWriter, r *http.Request, c *dataplane.Call) {
	body, _ := io.ReadAll(r.Body) // in memory
	p.mu.Lock()
	p.sent[string(body)]++
	p.mu.Unlock()
	c.Result.Sent = true
	answer := p.reply(r.Context(), body)
	if r.Context().Err() != nil { // the connection is cut
		c.Result.Broken = true
		return
	}
	w.Write(answer)
}

// total returns how many requests were sent.
func (p *fakeProvider) total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.sent {
		n += k
	}
	return n
}

// node is a node that runs batches with a data plane of the test.
type node struct {
	deps   *kept.Deps
	store  *folder
	clock  atomic.Int64 // how far the clock is ahead, in nanoseconds
	runner *Runner
}

// newNode returns a node on a database, whose contents are in a folder.
func newNode(db *store.DB, path string, atOnce int, call func(http.ResponseWriter, *http.Request, *dataplane.Call)) *node {
	n := &node{store: &folder{path: path}}
	n.deps = &kept.Deps{
		DB: db, Contents: n.store, Logger: slog.New(slog.DiscardHandler),
		Now:    func() time.Time { return time.Now().Add(time.Duration(n.clock.Load())) },
		NewID:  func() string { return reqlog.NewID(time.Now()).String() },
		Limits: kept.Limits{BatchLines: 200_000, AtOnce: atOnce, KeepBatchFiles: time.Hour},
		Call:   call, Queued: func() {},
		KeyOwner: func(access.Hash, time.Time) (*access.Identity, error) { return new(access.Identity), nil },
	}
	n.runner = NewRunner(n.deps, 1)
	return n
}

// jobs returns the runner of jobs of a node; a lease of 0 is the kind's.
func (n *node) jobs(lease time.Duration) *jobs.Runner {
	kinds := n.runner.Kinds()
	if lease > 0 {
		kinds[0].Lease, kinds[0].Renew, kinds[0].Backoff = lease, lease/10, lease/10
	}
	return jobs.New(jobs.Options{DB: n.deps.DB, Node: rand.Text(), Kinds: kinds, Poll: 20 * time.Millisecond, Grace: 20 * time.Second})
}

// add adds a batch with an input, and returns its id.
func (n *node) add(t testing.TB, input string) string {
	t.Helper()
	file := store.Object{ID: n.deps.ObjectID("gw_file_"), Kind: store.ObjectFile, Organisation: "o", Workspace: "w", State: files.StateProcessed, CreatedAt: n.deps.Now(), UpdatedAt: n.deps.Now()}
	size, err := n.deps.Contents.Put(t.Context(), "o", "o/"+file.ID, strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	file.Data, _ = json.Marshal(files.Details{Bytes: size, Content: kept.Content{Blobs: []kept.Blob{{Name: "o/" + file.ID, Size: size}}}}) // strings and numbers
	o := store.Object{ID: n.deps.ObjectID(batchPrefix), Kind: store.ObjectBatch, Organisation: "o", Workspace: "w", State: string(vendorbatch.Validating), CreatedAt: n.deps.Now(), UpdatedAt: n.deps.Now()}
	d := details{Batch: vendorbatch.Batch{Endpoint: "/v1/chat/completions"}, Input: file.ID, Key: access.Hash{}.String()}
	if err := d.keep(&o); err != nil {
		t.Fatal(err)
	}
	err = n.deps.DB.Transact(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.AddObject(t.Context(), file), tx.AddObject(t.Context(), o), tx.AddJob(t.Context(), jobOf(n.deps, &o, store.JobBatch, time.Now())))
	})
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// read returns a batch and its record.
func (n *node) read(t testing.TB, id string) (store.Object, details) {
	t.Helper()
	o, err := n.deps.DB.ObjectByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	d, err := detailsOf(&o)
	if err != nil {
		t.Fatal(err)
	}
	return o, d
}

// results returns the results of a batch by custom_id. It fails the test if a line has two,
// or the counts of the batch differ.
func (n *node) results(t testing.TB, id string) map[string]result {
	t.Helper()
	_, d := n.read(t, id)
	all, counts := make(map[string]result), [2]int64{}
	for i, name := range [...]string{d.Batch.OutputFileID, d.Batch.ErrorFileID} {
		if name == "" {
			continue
		}
		file, err := n.deps.DB.ObjectByID(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		in, err := n.deps.Open(t.Context(), &file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		for row := range bytes.Lines(text) {
			var r result
			if err := json.Unmarshal(row, &r); err != nil {
				t.Fatal(err)
			}
			if _, twice := all[r.CustomID]; twice {
				t.Errorf("the line %s has two results", r.CustomID)
			}
			all[r.CustomID] = r
			counts[i]++
		}
	}
	if got := d.Batch.RequestCounts; got.Completed != counts[0] || got.Failed != counts[1] || got.Total != counts[0]+counts[1] {
		t.Errorf("counts %+v, and results of %d and %d lines", got, counts[0], counts[1])
	}
	return all
}

// linesOfInput returns n lines, of which each has a message of its own.
func linesOfInput(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[%d]}}`+"\n", i, i)
	}
	return b.String()
}

// start starts a node on a database, and ends it with the test.
func start(t testing.TB, dsn string, atOnce int, p *fakeProvider) *node {
	t.Helper()
	return newNode(storetest.Open(t, dsn), t.TempDir(), atOnce, p.call)
}

// mustEnd checks that a batch ended in a state with a result for each of some lines.
func (n *node) mustEnd(t testing.TB, id string, lines int, state vendorbatch.Status) map[string]result {
	t.Helper()
	if o, d := n.read(t, id); o.State != string(state) {
		t.Fatalf("the batch is %s, want %s: %+v", o.State, state, d.Batch)
	}
	all := n.results(t, id)
	if len(all) != lines {
		t.Errorf("%d lines have results, want %d", len(all), lines)
	}
	return all
}

func sqlite(t testing.TB) string { return "file:" + filepath.Join(t.TempDir(), "modelgate.db") }

// TestAFullStoreLosesNoResult lets the store of files fail while results are stored.
func TestAFullStoreLosesNoResult(t *testing.T) {
	p := newFakeProvider()
	n := start(t, sqlite(t), 8, p)
	id := n.add(t, linesOfInput(300))
	n.store.full.Store(true)
	time.AfterFunc(1500*time.Millisecond, func() { n.store.full.Store(false) })
	n.jobs(0).RunDue(t.Context())
	n.mustEnd(t, id, 300, vendorbatch.Completed)
	if got := p.total(); got != 300 {
		t.Errorf("%d requests were sent for 300 lines", got)
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements [io.Writer].
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestALostAnswerOfTheDatabaseDoublesNoResult breaks the connection when the transaction of a
// chunk has been committed, before its answer.
func TestALostAnswerOfTheDatabaseDoublesNoResult(t *testing.T) {
	if testing.Short() {
		return // needs PostgreSQL
	}
	relay, through := storetest.NewRelay(t, storetest.Postgres(t))
	p := newFakeProvider()
	p.reply = func(context.Context, []byte) []byte {
		<-time.After(5 * time.Millisecond)
		return []byte("{}")
	}
	n := start(t, through, 4, p)
	id := n.add(t, linesOfInput(1500))
	var log syncBuffer
	n.deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
	const failed = "storing results of a batch failed"
	n.store.put = func() { // the next one is that of the chunk, unless the lease is renewed
		if !strings.Contains(log.String(), failed) {
			relay.LoseCommit()
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.jobs(0).Run(ctx)
	}()
	waittest.Until(t, "the loss of an answer for a chunk", func() bool { return strings.Contains(log.String(), failed) })
	_, d := n.read(t, id)
	waittest.Until(t, "further results", func() bool {
		_, now := n.read(t, id)
		return now.Batch.RequestCounts.Completed > d.Batch.RequestCounts.Completed
	})
	stop() // what is in memory ends: another node reads what is stored
	waittest.Receive(t, ended, "the end of the node")
	n.jobs(0).RunDue(t.Context())
	n.mustEnd(t, id, 1500, vendorbatch.Completed)
	if got := p.total(); got > 1500+n.deps.Limits.AtOnce { // those in flight at the stop were sent again
		t.Errorf("%d requests were sent for 1500 lines", got)
	}
}

// TestLinesThatWereNotSentInTimeExpire lets the clock of a batch pass its window.
func TestLinesThatWereNotSentInTimeExpire(t *testing.T) {
	p := newFakeProvider()
	n := start(t, sqlite(t), 2, p)
	id := n.add(t, linesOfInput(50))
	ctx, stop := context.WithCancel(t.Context())
	p.reply = func(ctx context.Context, body []byte) []byte {
		if p.total() > 20 {
			stop() // the node ends
			<-ctx.Done()
		}
		return []byte("{}")
	}
	n.jobs(0).RunDue(ctx)
	sent := p.total()
	n.clock.Store(int64(window + time.Second))
	n.jobs(0).RunDue(t.Context())
	expired := 0
	for _, r := range n.mustEnd(t, id, 50, vendorbatch.Expired) {
		if r.Error != nil && r.Error.Code == "batch_expired" && r.Response == nil {
			expired++
		}
	}
	if p.total() != sent || expired < 28 || expired > 31 {
		t.Errorf("%d requests, %d after the expiry, and %d lines expired", sent, p.total()-sent, expired)
	}
}

// TestOrderlyRestartsInterruptNoLineTwice ends nodes in the middle of a batch. Only what
// was in flight then is sent again.
func TestOrderlyRestartsInterruptNoLineTwice(t *testing.T) {
	const lines, atOnce, restarts = 600, 4, 5
	p := newFakeProvider()
	n := start(t, sqlite(t), atOnce, p)
	id := n.add(t, linesOfInput(lines))
	for i := range restarts {
		ctx, stop := context.WithCancel(t.Context())
		most := 100*(i+1) + atOnce*i
		p.reply = func(inner context.Context, body []byte) []byte {
			if p.total() >= most {
				stop()
				<-inner.Done()
			}
			return []byte("{}")
		}
		n.jobs(0).RunDue(ctx)
		stop()
	}
	p.reply = func(context.Context, []byte) []byte { return []byte("{}") }
	n.jobs(0).RunDue(t.Context())
	repeated := 0
	for _, r := range n.mustEnd(t, id, lines, vendorbatch.Completed) {
		if r.Repeated {
			repeated++
		}
	}
	if repeated == 0 || repeated > atOnce*restarts {
		t.Errorf("%d lines are marked as repeated, want at most %d", repeated, atOnce*restarts)
	}
	if got := p.total(); got > lines+atOnce*restarts {
		t.Errorf("%d requests for %d lines", got, lines)
	}
}

// TestABatchWithoutItsInputFails deletes the input file of a batch before it begins.
func TestABatchWithoutItsInputFails(t *testing.T) {
	n := start(t, sqlite(t), 2, newFakeProvider())
	id := n.add(t, linesOfInput(5))
	_, d := n.read(t, id)
	err := n.deps.DB.Transact(t.Context(), func(tx *store.Tx) error {
		return tx.DeleteObject(t.Context(), &store.Object{ID: d.Input, Kind: store.ObjectFile})
	})
	if err != nil {
		t.Fatal(err)
	}
	n.jobs(0).RunDue(t.Context())
	if o, d := n.read(t, id); o.State != "failed" || d.Batch.Errors == nil || d.Batch.Errors.Data[0].Code != "file_not_found" {
		t.Errorf("%s: %+v", o.State, d.Batch)
	}
}

// TestTheLastLineMayHaveSpaces has a line of spaces at the end, and lines with CRLF.
func TestTheLastLineMayHaveSpaces(t *testing.T) {
	n := start(t, sqlite(t), 2, newFakeProvider())
	for _, end := range []string{"  \n", " \t", "\r\n", "\n"} {
		id := n.add(t, strings.ReplaceAll(linesOfInput(3), "\n", "\r\n")+end)
		n.jobs(0).RunDue(t.Context())
		n.mustEnd(t, id, 3, vendorbatch.Completed)
	}
}
