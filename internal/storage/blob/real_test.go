package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/blob"
	"modelgate/internal/testing/s3test"
	"modelgate/internal/testing/waittest"
)

// optionsOf returns the bucket of a real server.
func optionsOf(s *s3test.Server) blob.S3 {
	return blob.S3{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket, Prefix: "a/b", AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true,
	}
}

func open(t *testing.T, o blob.S3) *blob.Bucket {
	t.Helper()
	b, err := blob.OpenBucket(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARealServerRejectsWrongSettings(t *testing.T) {
	s := s3test.NewServer(t)
	for name, tt := range map[string]struct {
		spoil func(*blob.S3)
		want  string
	}{
		"secret key": {func(o *blob.S3) { o.SecretKey = secret.New("wrong") }, "SignatureDoesNotMatch; check the secret key"},
		"access key": {func(o *blob.S3) { o.AccessKey = secret.New("wrong") }, "XAdminUserNotFound"},
		"region":     {func(o *blob.S3) { o.Region = "us-east-1" }, "AuthorizationHeaderMalformed; check the region"},
		"bucket":     {func(o *blob.S3) { o.Bucket = "another" }, "NoSuchBucket"},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsOf(s)
			tt.spoil(&o)
			b := open(t, o)
			_, err := b.Put(t.Context(), "x", strings.NewReader("x"))
			f, ok := errors.AsType[*blob.Error](err)
			if want := "the bucket rejected the request: " + tt.want; !ok || f.Reason != want {
				t.Errorf("Put: %v, want %s", err, want)
			}
			for _, err := range b.List(t.Context(), "") {
				if err == nil {
					t.Error("files are listed")
				}
			}
			if _, err := b.GetRange(t.Context(), "x", 0, 1); err == nil {
				t.Error("a range can be read")
			}
			if _, err := b.Size(t.Context(), "x"); err == nil {
				t.Error("the size can be read")
			}
		})
	}
	if _, err := open(t, optionsOf(s)).Put(t.Context(), "x", strings.NewReader("x")); err != nil {
		t.Errorf("right settings: %v", err)
	}
}

func TestARealServerKeepsFiles(t *testing.T) {
	s := s3test.NewServer(t)
	bucket := open(t, optionsOf(s))
	for name, store := range map[string]blob.Store{"plain": bucket, "sealed": sealed(t, bucket)} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 100_000, 5<<20 + 1, 8 << 20, 17<<20 + 5} {
				data := pattern(n)
				// Without a length, as a request of unknown length is read.
				got, err := store.Put(t.Context(), "files/o/x", iotest.OneByteReader(io.LimitReader(bytes.NewReader(data), 10)))
				if err != nil || got != int64(min(n, 10)) {
					t.Fatalf("Put = %d, %v", got, err)
				}
				if got, err := store.Put(t.Context(), "files/o/x", io.MultiReader(bytes.NewReader(data))); err != nil || got != int64(n) {
					t.Fatalf("Put = %d, %v; want %d", got, err, n)
				}
				checkRanges(t, rangesOf(t.Context(), store, "files/o/x"), data)
				if got := mustRead(t, store, "files/o/x"); !bytes.Equal(got, data) {
					t.Errorf("Get: %d bytes, want %d", len(got), n)
				}
			}
			for range 2 {
				if err := store.Delete(t.Context(), "files/o/x"); err != nil {
					t.Error(err)
				}
			}
			if _, err := store.Get(t.Context(), "files/o/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get of a deleted file: %v", err)
			}
			if _, err := store.Size(t.Context(), "files/o/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Size of a deleted file: %v", err)
			}
		})
	}
}

func TestARealServerListsMoreThanAPage(t *testing.T) {
	s := s3test.NewServer(t)
	b := open(t, optionsOf(s))
	want := map[string]int64{"other/x": 1}
	if _, err := b.Put(t.Context(), "other/x", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	var puts sync.WaitGroup
	failures := make(chan error, 2500)
	for w := range 4 {
		puts.Go(func() {
			for i := w; i < 2105; i += 4 {
				_, err := b.Put(t.Context(), fmt.Sprintf("files/%d/%05d", i%7, i), strings.NewReader(strings.Repeat("x", i%5)))
				failures <- err
			}
		})
	}
	puts.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2105 {
		want[fmt.Sprintf("files/%d/%05d", i%7, i)] = int64(i % 5)
	}
	if got := listed(t, b, ""); !maps.Equal(got, want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	maps.DeleteFunc(want, func(name string, _ int64) bool { return !strings.HasPrefix(name, "files/3/") })
	if got := listed(t, b, "files/3"); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
	}
	deleted := 0
	for info, err := range b.List(t.Context(), "files") { // files are deleted while they are listed
		if err == nil {
			err = b.Delete(t.Context(), info.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
		deleted++
	}
	if got := listed(t, b, ""); deleted != 2105 || len(got) != 1 {
		t.Errorf("%d deleted, %d left", deleted, len(got))
	}
}

func TestARealServerAcceptsLinks(t *testing.T) {
	s := s3test.NewServer(t)
	b := open(t, optionsOf(s))
	if _, err := b.Put(t.Context(), "exports/x", strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	link, err := b.Link(t.Context(), "exports/x", "log.jsonl", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]int{link: 200, strings.Replace(link, "/x?", "/y?", 1): 403, link[:len(link)-1] + "_": 403} {
		resp, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || err != nil || (want == 200) != (string(text) == "text") {
			t.Errorf("%s: status %d, want %d: %s", address, resp.StatusCode, want, text)
		}
		if d := resp.Header.Get("Content-Disposition"); want == 200 && !strings.Contains(d, "log.jsonl") {
			t.Errorf("saved as %q", d)
		}
	}
}

func TestARealServerForgetsInterruptedUploads(t *testing.T) {
	s := s3test.NewServer(t)
	o := optionsOf(s)
	b := open(t, o)
	lost := errors.New("the source broke")
	if _, err := b.Put(t.Context(), "x", io.MultiReader(bytes.NewReader(make([]byte, 9<<20)), iotest.ErrReader(lost))); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	// A process that is killed aborts nothing: its requests to abort fail here.
	cut := newCutter(t, s)
	o.Endpoint = cut.endpoint
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := open(t, o).Put(t.Context(), "y", r)
		done <- err
	}()
	if _, err := w.Write(make([]byte, 9<<20)); err != nil { // a part is full
		t.Fatal(err)
	}
	cut.refuse.Store(true)
	w.CloseWithError(lost)
	if err := waittest.Receive(t, done, "the end of the upload"); !errors.Is(err, lost) {
		t.Fatalf("Put: %v", err)
	}
	if n := b.Uploads(t); n != 1 {
		t.Errorf("%d incomplete uploads, want 1", n)
	}
	if err := b.DeleteIncomplete(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Error(err)
	}
	if n := b.Uploads(t); n != 1 {
		t.Errorf("an upload in progress was aborted")
	}
	if err := b.DeleteIncomplete(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if n := b.Uploads(t); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// cutter passes connections on to a server and cuts them.
type cutter struct {
	endpoint string
	refuse   atomic.Bool  // new connections
	cuts     atomic.Int64 // how many connections are cut yet
	up, down atomic.Int64 // bytes after which one is cut; 0 for never
}

func newCutter(t *testing.T, s *s3test.Server) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var open sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		l.Close()
		open.Wait()
	})
	c := &cutter{endpoint: "http://" + l.Addr().String()}
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { c.pass(ctx, client, strings.TrimPrefix(s.Endpoint, "http://")) })
		}
	})
	return c
}

// pass copies both directions of a connection until one ends.
func (c *cutter) pass(ctx context.Context, client net.Conn, address string) {
	defer client.Close()
	if c.refuse.Load() {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	ended := make(chan struct{}, 2)
	copyUntil := func(to, from net.Conn, limit *atomic.Int64) {
		for n, buf := int64(0), make([]byte, 16<<10); ; {
			m, err := from.Read(buf)
			n += int64(m)
			if limit := limit.Load(); limit > 0 && n > limit && c.cuts.Add(-1) >= 0 || err != nil || c.refuse.Load() {
				break
			}
			if _, err := to.Write(buf[:m]); err != nil {
				break
			}
		}
		ended <- struct{}{}
	}
	go copyUntil(server, client, &c.up)
	go copyUntil(client, server, &c.down)
	<-ended
	client.Close()
	server.Close()
	<-ended
}

func TestConnectionsThatBreakAreReplaced(t *testing.T) {
	s := s3test.NewServer(t)
	cut := newCutter(t, s)
	o := optionsOf(s)
	o.Endpoint = cut.endpoint
	store := sealed(t, open(t, o))
	data := pattern(20 << 20)
	cut.up.Store(3 << 20)
	cut.cuts.Store(3)
	if n, err := store.Put(t.Context(), "x", bytes.NewReader(data)); err != nil || n != int64(len(data)) || cut.cuts.Load() > 0 {
		t.Fatalf("Put = %d, %v; %d connections were not cut", n, err, cut.cuts.Load())
	}
	cut.up.Store(0)
	cut.down.Store(2 << 20)
	cut.cuts.Store(8)
	if got := mustRead(t, store, "x"); !bytes.Equal(got, data) || cut.cuts.Load() > 0 {
		t.Errorf("Get: %d bytes; %d connections were not cut", len(got), cut.cuts.Load())
	}
	cut.cuts.Store(1 << 40)
	cut.down.Store(100) // even response headers
	r, err := store.Get(t.Context(), "x")
	if err == nil {
		_, err = io.ReadAll(r)
		r.Close()
	}
	if f, ok := errors.AsType[*blob.Error](err); !ok || f.Reason != "the bucket cannot be reached" {
		t.Errorf("Get from a server that closes every connection: %v", err)
	}
}

func TestAFileThatIsReplacedWhileItIsReadIsAnError(t *testing.T) {
	s := s3test.NewServer(t)
	cut := newCutter(t, s)
	o := optionsOf(s)
	direct := open(t, o)
	o.Endpoint = cut.endpoint
	b := open(t, o)
	data := pattern(20 << 20)
	if _, err := direct.Put(t.Context(), "x", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	r, err := b.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Put(t.Context(), "x", bytes.NewReader(make([]byte, len(data)))); err != nil {
		t.Fatal(err)
	}
	cut.down.Store(1)
	cut.cuts.Store(1)
	rest, err := io.ReadAll(r)
	if f, ok := errors.AsType[*blob.Error](err); !ok || f.Reason != "the file was replaced while it was read" || !bytes.HasPrefix(data[100:], rest) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}
