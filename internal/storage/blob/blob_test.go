package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"modelgate/internal/base/secret"
	"modelgate/internal/storage/blob"
	"modelgate/internal/testing/waittest"
)

// server is an S3 server with a bucket.
func server(t *testing.T) (*httptest.Server, *s3mem.Backend) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("exports"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s.Close)
	return s, backend
}

func options(endpoint string) blob.S3 {
	return blob.S3{
		Endpoint: endpoint, Bucket: "exports", Prefix: "a/b/", PathStyle: true,
		AccessKey: secret.New("access"), SecretKey: secret.New("canary-secret-key"),
	}
}

func bucket(t *testing.T, endpoint string) *blob.Bucket {
	t.Helper()
	b, err := blob.OpenBucket(options(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sealed returns a store that encrypts the files of one organisation in s.
func sealed(t testing.TB, s blob.Store) blob.Sealed {
	t.Helper()
	return blob.Sealed{Files: s, Key: dataKey(t, "acme")}
}

func dataKey(t testing.TB, organisation string) *secret.DataKey {
	t.Helper()
	box, err := secret.NewBox(secret.New("a master key of some length"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := box.DataKey(organisation, box.NewDataKey(organisation))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// onEach runs a test on every store.
func onEach(t *testing.T, f func(t *testing.T, s blob.Store)) {
	folder := func(t *testing.T) blob.Store { return blob.Folder(filepath.Join(t.TempDir(), "blob")) }
	bucket := func(t *testing.T) blob.Store {
		s, _ := server(t)
		return bucket(t, s.URL)
	}
	t.Run("folder", func(t *testing.T) { f(t, folder(t)) })
	t.Run("bucket", func(t *testing.T) { f(t, bucket(t)) })
	t.Run("sealed in a folder", func(t *testing.T) { f(t, sealed(t, folder(t))) })
	t.Run("sealed in a bucket", func(t *testing.T) { f(t, sealed(t, bucket(t))) })
}

func mustRead(t *testing.T, s blob.Store, name string) []byte {
	t.Helper()
	r, err := s.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFilesAreKeptAndTakenAway(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		big := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16) // three parts
		for _, want := range [][]byte{[]byte("one"), nil, big, []byte("two")} {
			n, err := s.Put(t.Context(), "exports/o/x.jsonl", bytes.NewReader(want))
			if err != nil || n != int64(len(want)) {
				t.Fatalf("Put = %d, %v; want %d", n, err, len(want))
			}
			if got := mustRead(t, s, "exports/o/x.jsonl"); !bytes.Equal(got, want) {
				t.Fatalf("Get: %d bytes, want %d", len(got), len(want))
			}
		}
		for range 2 {
			if err := s.Delete(t.Context(), "exports/o/x.jsonl"); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Get(t.Context(), "exports/o/x.jsonl"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Get of what was deleted: %v", err)
		}
	})
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	broken := errors.New("the source broke")
	onEach(t, func(t *testing.T, s blob.Store) {
		for _, size := range []int{0, 100, 20 << 20} {
			r := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(broken))
			if _, err := s.Put(t.Context(), "exports/x", r); !errors.Is(err, broken) {
				t.Errorf("Put of a source that breaks after %d bytes: %v", size, err)
			}
			if _, err := s.Get(t.Context(), "exports/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after %d bytes: Get: %v, want that there is nothing", size, err)
			}
		}
		if f, ok := s.(blob.Folder); ok {
			if left, err := os.ReadDir(filepath.Join(string(f), "exports")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		}
	})
}

func TestNamesLeadNowhereElse(t *testing.T) {
	onEach(t, func(t *testing.T, s blob.Store) {
		for _, name := range []string{"", ".", "..", "/etc/x", "../x", "a/../../x", "a//b", "a/", "a b", "a?b", "a%2fb", "é", "a.part-X"} {
			if _, err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
				t.Errorf("Put(%q) was taken", name)
			}
			if _, err := s.Get(t.Context(), name); err == nil {
				t.Errorf("Get(%q) was taken", name)
			}
			if s.Delete(t.Context(), name) == nil {
				t.Errorf("Delete(%q) was taken", name)
			}
		}
	})
}

func TestAFolderIsForItsOwnerAndFollowsNoLinksOut(t *testing.T) {
	dir := t.TempDir()
	f := blob.Folder(filepath.Join(dir, "blob"))
	if _, err := f.Put(t.Context(), "exports/x", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{"blob": 0o700, "blob/exports": 0o700, "blob/exports/x": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "blob", "exports", "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "exports/link"); err == nil {
		t.Error("a link out of the folder was followed")
	}
}

func TestSweepingTakesWhatIsOldAndWhatWasLeftBehind(t *testing.T) {
	f := blob.Folder(t.TempDir())
	now := time.Now()
	if err := f.DeleteOlder(t.Context(), now); err != nil {
		t.Error(err)
	}
	for name, age := range map[string]time.Duration{
		"old": 48 * time.Hour, "young": time.Hour, "writing.part-X": time.Minute, "left.part-X": 2 * time.Hour,
	} {
		path := filepath.Join(string(f), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.DeleteOlder(t.Context(), now.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(string(f), "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "writing.part-X" || filepath.Base(left[1]) != "young" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := blob.Folder(filepath.Join(string(f), "none")).DeleteOlder(t.Context(), now); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestALinkReadsAFileOfABucket(t *testing.T) {
	s, _ := server(t)
	b := bucket(t, s.URL)
	if _, err := b.Put(t.Context(), "exports/x", strings.NewReader("text")); err != nil {
		t.Fatal(err)
	}
	link, err := b.Link(t.Context(), "exports/x", "log.jsonl", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil || u.Path != "/exports/a/b/exports/x" || u.Query().Get("X-Amz-Signature") == "" || u.Query().Get("X-Amz-Expires") != "60" || strings.Contains(link, "canary") {
		t.Errorf("link %s: %v", link, err)
	}
	resp, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "text" {
		t.Errorf("%d %s, %v", resp.StatusCode, text, err)
	}
	if link, err := blob.Folder(t.TempDir()).Link(t.Context(), "x", "x", time.Minute); link != "" || err != nil {
		t.Errorf("a folder links to %q, %v", link, err)
	}
}

func TestABucketThatFailsIsReportedWithoutSecrets(t *testing.T) {
	s, _ := server(t)
	gone := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler) // closes the connection; a closed port may become another program's
	}))
	defer gone.Close()
	denied := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>access canary-secret-key</Message></Error>`)
	}))
	defer denied.Close()
	missing := options(s.URL)
	missing.Bucket = "nothing-there"
	for name, tt := range map[string]struct {
		o    blob.S3
		want string
	}{
		"away":      {options(gone.URL), "the bucket cannot be reached"},
		"denied":    {options(denied.URL), "the bucket rejected the request: AccessDenied"},
		"no bucket": {missing, "the bucket rejected the request: NoSuchBucket"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := blob.OpenBucket(tt.o)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Put(t.Context(), "x", strings.NewReader("x"))
			f, ok := errors.AsType[*blob.Error](err)
			if !ok || f.Reason != tt.want {
				t.Errorf("Put: %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAnAbandonedUploadLeavesNoParts(t *testing.T) {
	s, _ := server(t)
	b := bucket(t, s.URL)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := b.Put(ctx, "exports/x", r)
		done <- err
	}()
	if _, err := w.Write(make([]byte, 17<<20)); err != nil { // a part is full
		t.Fatal(err)
	}
	cancel()
	w.CloseWithError(context.Canceled)
	if err := waittest.Receive(t, done, "the end of the upload"); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	resp, err := http.Get(s.URL + "/exports?uploads")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || bytes.Contains(text, []byte("<Upload>")) {
		t.Errorf("uploads that were left: %d %s, %v", resp.StatusCode, text, err)
	}
}

func TestFieldsOfABucketAreChecked(t *testing.T) {
	for field, spoil := range map[string][]func(*blob.S3){
		"endpoint": {
			func(o *blob.S3) { o.Endpoint = "" }, func(o *blob.S3) { o.Endpoint = "s3.example.com" },
			func(o *blob.S3) { o.Endpoint = "https://u:p@s3.example.com" }, func(o *blob.S3) { o.Endpoint = "https://s3.example.com/bucket" },
		},
		"bucket":     {func(o *blob.S3) { o.Bucket = "" }, func(o *blob.S3) { o.Bucket = "Upper" }},
		"prefix":     {func(o *blob.S3) { o.Prefix = "/abs" }, func(o *blob.S3) { o.Prefix = "../x" }},
		"access_key": {func(o *blob.S3) { o.AccessKey = secret.String{} }},
		"secret_key": {func(o *blob.S3) { o.SecretKey = secret.String{} }},
	} {
		for i, f := range spoil {
			o := options("http://127.0.0.1:1")
			f(&o)
			if got, err := o.Check(); got != field || err == nil {
				t.Errorf("%s %d: %q, %v", field, i, got, err)
			}
			if _, err := blob.OpenBucket(o); err == nil {
				t.Errorf("%s %d was opened", field, i)
			}
		}
	}
}
