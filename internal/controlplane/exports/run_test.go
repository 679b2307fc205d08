package exports_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/blob"
	"modelgate/internal/store"
	"modelgate/internal/testing/waittest"
)

// addEntries records n entries.
func (d *desk) addEntries(n int) {
	d.t.Helper()
	list := make([]*reqlog.Entry, n)
	for i := range list {
		list[i] = &reqlog.Entry{Result: reqlog.Result{Status: 200}, Time: d.Clock.Add(-time.Duration(i) * time.Millisecond)}
	}
	d.record(list...)
}

// start drafts and starts an export and returns its id.
func (d *desk) start(format string) string {
	d.t.Helper()
	id := createDraft(d.root, format, "")
	d.root.Must("POST", "/logs/exports/"+id+"/start", "", nil)
	return id
}

// left are the files that there are, those that are being written too.
func (d *desk) left() (names []string) {
	d.t.Helper()
	filepath.WalkDir(string(d.files), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			names = append(names, path)
		}
		return nil
	})
	return names
}

// listing is how pages of the log are read.
type listing = func(ctx context.Context, q logstore.Query) (logstore.Page, error)

// atPage has f run before the page of this number, from 0, is read.
func atPage(list listing, number int, f func(ctx context.Context)) listing {
	n := -1
	return func(ctx context.Context, q logstore.Query) (logstore.Page, error) {
		if n++; n == number {
			f(ctx)
		}
		return list(ctx, q)
	}
}

func TestAStopIsSeenInTheMiddle(t *testing.T) {
	d := newDesk(t)
	d.addEntries(3000)
	id := d.start("jsonl")
	stopped := d.node(func(o *options) {
		o.List = atPage(o.List, 2, func(ctx context.Context) {
			d.root.Must("POST", "/logs/exports/"+id+"/cancel", "", nil)
			<-ctx.Done() // a look whether it was stopped
		})
	})
	if !stopped.Next(t.Context()) {
		t.Fatal("there was nothing to make")
	}
	if got := d.item(id); got.Status != store.ExportStopped || got.Error != "" || len(d.left()) != 0 {
		t.Errorf("%+v, files %v", got, d.left())
	}
	if d.runner.Next(t.Context()) {
		t.Error("what was stopped was made again")
	}
}

func TestAStopAtTheLastMomentLeavesNoFile(t *testing.T) {
	d := newDesk(t)
	id := d.start("jsonl")
	late := d.node(func(o *options) {
		o.Hold = time.Hour
		o.Files = afterPut{d.files, func() { d.root.Must("POST", "/logs/exports/"+id+"/cancel", "", nil) }}
	})
	late.Next(t.Context())
	if got := d.item(id); got.Status != store.ExportStopped || len(d.left()) != 0 {
		t.Errorf("%+v, files %v", got, d.left())
	}
}

// afterPut is a store where something happens once a file is written.
type afterPut struct {
	blob.Store
	then func()
}

// Put implements blob.Store.
func (a afterPut) Put(ctx context.Context, name string, r io.Reader) (int64, error) {
	n, err := a.Store.Put(ctx, name, r)
	a.then()
	return n, err
}

func TestANodeThatStopsLeavesItsExportToOthers(t *testing.T) {
	d := newDesk(t)
	d.addEntries(3000)
	id := d.start("csv")
	ctx, stop := context.WithCancel(t.Context())
	first := d.node(func(o *options) { o.List = atPage(o.List, 2, func(context.Context) { stop() }) })
	first.Next(ctx)
	if got := d.item(id); got.Status != store.ExportRunning || got.Rows != 0 || len(d.left()) != 0 {
		t.Errorf("after the stop: %+v, files %v", got, d.left())
	}
	if !d.runner.Next(t.Context()) {
		t.Fatal("nobody went on with it")
	}
	if n := strings.Count(d.file(d.root, id), "\n"); n != 3001 {
		t.Errorf("%d lines, want 3001", n)
	}
}

func TestANodeThatIsKilledIsTakenOver(t *testing.T) {
	d := newDesk(t)
	d.addEntries(3000)
	id := d.start("csv")
	alive, dead := make(chan struct{}), make(chan struct{})
	clock := d.Clock
	silent := d.node(func(o *options) {
		o.Now = func() time.Time { return clock }
		o.Hold = time.Hour // it tells nobody that it lives
		o.List = atPage(o.List, 2, func(context.Context) { close(alive); <-dead })
	})
	ended := make(chan struct{})
	go func() { silent.Next(t.Context()); close(ended) }()
	waittest.Receive(t, alive, "the second page")
	if d.runner.Next(t.Context()) {
		t.Error("it was taken while its lease lasts")
	}
	d.Clock = d.Clock.Add(31 * time.Second)
	if !d.runner.Next(t.Context()) {
		t.Fatal("it was not taken over")
	}
	text := d.file(d.root, id)
	close(dead)
	waittest.Receive(t, ended, "the end of the silent node")
	if again := d.file(d.root, id); strings.Count(text, "\n") != 3001 || again != text || len(d.left()) != 1 {
		t.Errorf("%d lines, files %v", strings.Count(text, "\n"), d.left())
	}
}

func TestAnExportThatFailsSaysWhy(t *testing.T) {
	canary := errors.New("canary: postgres://user:password@host")
	for name, tt := range map[string]struct {
		change func(d *desk, o *options)
		want   string
	}{
		"a full disk": {func(_ *desk, o *options) { o.Files = fullFolder{} }, "writing the file failed: no room is left on the disk"},
		"a folder that can't be made": {func(d *desk, o *options) {
			if err := os.WriteFile(string(d.files), nil, 0o600); err != nil {
				d.t.Fatal(err)
			}
		}, "writing the file failed: the disk can't be read or written"},
		"a bucket that is away": {func(d *desk, o *options) { o.Files = bucket(d.t, "http://127.0.0.1:1") }, "writing the file failed: the bucket cannot be reached"},
		"a file that is too large": {func(_ *desk, o *options) { o.MaxSize = 100_000 },
			"the file exceeds exports.max_size (100000 bytes); narrow the time range, reduce the rows or drop the body fields"},
		"a log that is away": {func(_ *desk, o *options) {
			o.List = func(context.Context, logstore.Query) (logstore.Page, error) {
				return logstore.Page{}, apierr.New(apierr.Unavailable, "the log database is unavailable").WithCause(canary)
			}
		}, "the log database is unavailable"},
		"a log that fails in the middle": {func(_ *desk, o *options) {
			list, n := o.List, 0
			o.List = func(ctx context.Context, q logstore.Query) (logstore.Page, error) {
				if n++; n == 3 {
					return logstore.Page{}, canary
				}
				return list(ctx, q)
			}
		}, "internal error; see the gateway's process log"},
		"bodies that end early": {func(_ *desk, o *options) {
			o.Bodies = func(context.Context, []*reqlog.Entry) error { return io.ErrUnexpectedEOF }
		}, "internal error; see the gateway's process log"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.addEntries(3000)
			id := d.start("jsonl")
			if !d.node(func(o *options) { tt.change(d, o) }).Next(t.Context()) {
				t.Fatal("there was nothing to make")
			}
			got := d.item(id)
			if got.Status != store.ExportFailed || got.Error != tt.want || got.EndedAt != nil && got.ExpiresAt != nil {
				t.Errorf("%+v", got)
			}
			if left := d.left(); len(left) > 0 && left[0] != string(d.files) {
				t.Errorf("left behind: %v", left)
			}
			if d.runner.Next(t.Context()) {
				t.Error("what failed was begun again")
			}
		})
	}
}

// fullFolder is a store without room.
type fullFolder struct{ blob.Folder }

// Put implements blob.Store.
func (fullFolder) Put(_ context.Context, _ string, r io.Reader) (int64, error) {
	io.CopyN(io.Discard, r, 1000)
	return 0, &blob.Error{Reason: "no room is left on the disk"}
}

func bucket(t *testing.T, endpoint string) *blob.Bucket {
	t.Helper()
	b, err := blob.OpenBucket(blob.S3{Endpoint: endpoint, Bucket: "exports", PathStyle: true, AccessKey: secret.New("a"), SecretKey: secret.New("b")})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFilesGoToABucketAndAreReadThere(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("exports"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend).Server())
	defer srv.Close()
	d := newDesk(t)
	d.addEntries(10)
	files := bucket(t, srv.URL)
	runner := d.node(func(o *options) { o.Files = files })
	d.writer = runner
	id := d.start("csv")
	runner.Next(t.Context())
	var link struct {
		URL string `json:"signed_url"`
	}
	d.root.Must("GET", "/logs/exports/"+id+"/download", "", &link)
	resp, err := srv.Client().Get(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(link.URL, srv.URL) || strings.Count(string(text), "\n") != 11 {
		t.Errorf("%s: %d %s, %v", link.URL, resp.StatusCode, text, err)
	}
	d.Clock = d.Clock.AddDate(0, 0, 8)
	runner.SweepNow(t.Context())
	if got := d.item(id); got.Status != store.ExportExpired {
		t.Errorf("%+v", got)
	}
	if list, err := backend.ListBucket("exports", nil, gofakes3.ListBucketPage{}); err != nil || len(list.Contents) != 0 {
		t.Errorf("left in the bucket: %v, %v", list, err)
	}
}

func TestFilesGoWhenTheirTimeIsOver(t *testing.T) {
	d := newDesk(t)
	id := createDraft(d.root, "csv", "")
	d.download(d.root, id)
	d.Clock = d.Clock.AddDate(0, 0, 7)
	d.runner.SweepNow(t.Context())
	if got := d.item(id); got.Status != store.ExportDone || len(d.left()) != 1 {
		t.Errorf("at the end of its time: %+v, %v", got, d.left())
	}
	d.Clock = d.Clock.Add(time.Second)
	d.runner.SweepNow(t.Context())
	if got := d.item(id); got.Status != store.ExportExpired || len(d.left()) != 0 {
		t.Errorf("after its time: %+v, %v", got, d.left())
	}
	if a := d.root.Call("GET", "/logs/exports/"+id+"/download", ""); a.Status != 400 || !strings.Contains(a.Body, "its file has expired") {
		t.Errorf("download: %d %s", a.Status, a.Body)
	}
}

func TestAFileOfAnotherNodeIsDistinguished(t *testing.T) {
	d := newDesk(t)
	id := createDraft(d.root, "csv", "")
	d.download(d.root, id)
	elsewhere := d.node(func(o *options) { o.Files = blob.Folder(t.TempDir()) })
	d.writer = elsewhere
	var link struct {
		URL string `json:"signed_url"`
	}
	d.root.Must("GET", "/logs/exports/"+id+"/download", "", &link)
	w := httptest.NewRecorder()
	elsewhere.ServeHTTP(w, httptest.NewRequest("GET", link.URL, nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "blob.s3") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestARunnerMakesWhatIsStartedUntilItEnds(t *testing.T) {
	d := newDesk(t)
	d.addEntries(5)
	ctx, stop := context.WithCancel(t.Context())
	made := make(chan struct{}, 2)
	runner := d.node(func(o *options) {
		o.Poll, o.Files = time.Hour, afterPut{d.files, func() { made <- struct{}{} }}
	})
	d.writer = runner // starting one wakes it
	ended := make(chan struct{})
	go func() { runner.jobs.Run(ctx); close(ended) }()
	for range 2 {
		d.start("jsonl")
		waittest.Receive(t, made, "the export")
	}
	stop()
	waittest.Receive(t, ended, "the end of the runner")
}
