package blob_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/storage/blob"
)

// respondAlways returns a bucket whose server responds to every request alike.
func respondAlways(t *testing.T, status int, header http.Header, text string) *blob.Bucket {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			io.WriteString(w, text)
		}
	}))
	t.Cleanup(s.Close)
	return bucket(t, s.URL)
}

func TestServersWithoutRangesAreReadToTheRange(t *testing.T) {
	b := respondAlways(t, 200, nil, "0123456789")
	checkRanges(t, rangesOf(t.Context(), b, "x"), []byte("0123456789"))
}

func TestOnlyTheRangeIsRequested(t *testing.T) {
	b, seen := scripted(t, nil)
	if _, err := b.Put(t.Context(), "x", strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, ""}, {0, 1, "bytes=0-0"}, {3, 2, "bytes=3-4"}, {3, -1, "bytes=3-"}, {3, math.MaxInt64, "bytes=3-"}, {0, math.MaxInt64, "bytes=0-9223372036854775806"},
	} {
		if _, _, err := readRange(rangesOf(t.Context(), b, "x"), tt.offset, tt.length); err != nil {
			t.Error(err)
		}
		if got := (*seen)[i+1].Header.Get("Range"); got != tt.want || len(*seen) != i+2 {
			t.Errorf("%d bytes at %d: range %q of request %d, want %q", tt.length, tt.offset, got, len(*seen), tt.want)
		}
	}
}

func TestRangesOfOtherPlacesAreRefused(t *testing.T) {
	for _, text := range []string{"", "bytes", "bytes 3-4/*", "bytes 4-4/10", "bytes 2-4/10", "bytes -1-4/10", "bytes 3-4/3", "bytes x-4/10", "bytes 3-4/99999999999999999999"} {
		b := respondAlways(t, 206, http.Header{"Content-Range": {text}}, "34")
		_, _, err := readRange(rangesOf(t.Context(), b, "x"), 3, 2)
		if f, ok := errors.AsType[*blob.Error](err); !ok || f.Reason != "the bucket returned a response that is not S3" {
			t.Errorf("%q: %v", text, err)
		}
	}
	b := respondAlways(t, 206, http.Header{"Content-Range": {"bytes 3-4/10"}}, "34")
	if got, size, err := readRange(rangesOf(t.Context(), b, "x"), 3, 2); string(got) != "34" || size != 10 || err != nil {
		t.Errorf("%q of %d, %v", got, size, err)
	}
}

func TestResponsesWithoutSizeAreRefused(t *testing.T) {
	for _, method := range []string{"Size", "Get"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Transfer-Encoding", "chunked")
			w.(http.Flusher).Flush()
			io.WriteString(w, "text")
		}))
		b := bucket(t, s.URL)
		var err error
		if method == "Size" {
			_, err = b.Size(t.Context(), "x")
		} else {
			_, err = b.Get(t.Context(), "x")
		}
		if f, ok := errors.AsType[*blob.Error](err); !ok || f.Reason != "the bucket returned a response that is not S3" {
			t.Errorf("%s: %v", method, err)
		}
		s.Close()
	}
}

func TestListsOfOtherFormsAreRefused(t *testing.T) {
	const start, end = "<ListBucketResult>", "</ListBucketResult>"
	for _, text := range []string{
		"", "text", start, start + "<IsTruncated>true</IsTruncated>" + end, start + "<Contents><Size>x</Size></Contents>" + end,
		start + "<IsTruncated>true</IsTruncated><NextContinuationToken>always the same</NextContinuationToken>" + end,
	} {
		b := respondAlways(t, 200, nil, text)
		n, failed := 0, false
		for _, err := range b.List(t.Context(), "") {
			f, ok := errors.AsType[*blob.Error](err)
			failed = ok && f.Reason == "the bucket returned a response that is not S3"
			n++
		}
		if n != 1 || !failed {
			t.Errorf("%q: %d results, failed %t", text, n, failed)
		}
	}
	for _, text := range []string{"", "text"} {
		if err := respondAlways(t, 200, nil, text).DeleteIncomplete(t.Context(), time.Now()); err == nil {
			t.Errorf("uploads %q were accepted", text)
		}
		if _, err := respondAlways(t, 200, nil, text).Put(t.Context(), "x", bytes.NewReader(make([]byte, 9<<20))); err == nil {
			t.Errorf("an upload that begins with %q was accepted", text)
		}
	}
}

func TestPagesOfAListFollowOneAnother(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		_, first := q["continuation-token"]
		from := q.Get("continuation-token")
		asked = append(asked, from)
		next := map[string]string{"": "one", "one": "two"}[from]
		if first == (from == "") || q.Get("list-type") != "2" || q.Get("prefix") != "a/b/files/" {
			t.Errorf("query %v", q)
		}
		fmt.Fprintf(w, `<R><IsTruncated>%t</IsTruncated><NextContinuationToken>%s</NextContinuationToken>
			<Contents><Key>a/b/files/x%s</Key><LastModified>%s</LastModified></Contents></R>`, next != "", next, from, time.Now().UTC().Format(time.RFC3339))
	}))
	defer s.Close()
	if got := listed(t, bucket(t, s.URL), "files"); len(got) != 3 || strings.Join(asked, ",") != ",one,two" {
		t.Errorf("listed %v by %q", got, asked)
	}
}

func TestNamesOfOthersAreNotListed(t *testing.T) {
	var text strings.Builder
	text.WriteString("<ListBucketResult><EncodingType>url</EncodingType>")
	for _, key := range []string{"a/b/x", "a%2Fb%2Fy", "a/b/z%01", "a/b/a+b", "a/bc", "a/b/../x", "a/b/", "a/b/%zz", "other", "a/b/x.part-1"} {
		fmt.Fprintf(&text, "<Contents><Key>%s</Key><Size>1</Size><LastModified>%s</LastModified></Contents>", key, time.Now().UTC().Format(time.RFC3339))
	}
	text.WriteString("</ListBucketResult>")
	b := respondAlways(t, 200, nil, text.String())
	if got := listed(t, b, ""); len(got) != 2 || got["x"] != 1 || got["y"] != 1 {
		t.Errorf("listed: %v", got)
	}
}

func TestServersThatDoNotListUploadsKeepThem(t *testing.T) {
	b := respondAlways(t, 501, nil, "<Error><Code>NotImplemented</Code></Error>")
	if err := b.DeleteIncomplete(t.Context(), time.Now()); err != nil {
		t.Error(err)
	}
	if err := respondAlways(t, 403, nil, "").DeleteIncomplete(t.Context(), time.Now()); err == nil {
		t.Error("a refusal is not reported")
	}
}

func TestUploadsOfAllPagesAreAborted(t *testing.T) {
	aborted := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.Method == "DELETE":
			aborted++
			w.WriteHeader(204)
		case q.Get("key-marker") == "" && q.Get("prefix") == "a/b/":
			io.WriteString(w, `<R><IsTruncated>true</IsTruncated><NextKeyMarker>a/b/x</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>
				<Upload><Key>a/b/x</Key><UploadId>1</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload></R>`)
		case q.Get("key-marker") == "a/b/x" && q.Get("upload-id-marker") == "1":
			io.WriteString(w, `<R><IsTruncated>true</IsTruncated><NextKeyMarker>a/b/x</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>
				<Upload><Key>a/b/y</Key><UploadId>2</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>
				<Upload><Key>a/b/z</Key><UploadId>3</UploadId><Initiated>2100-01-01T00:00:00.000Z</Initiated></Upload>
				<Upload><Key>elsewhere</Key><UploadId>4</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload></R>`)
		}
	}))
	defer s.Close()
	if err := sealed(t, bucket(t, s.URL)).DeleteIncomplete(t.Context(), time.Now()); err != nil || aborted != 2 {
		t.Errorf("%d uploads were aborted, %v; want 2", aborted, err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	b := respondAlways(t, 301, http.Header{"Location": {other.URL}}, "<Error><Code>PermanentRedirect</Code></Error>")
	_, err := b.Put(t.Context(), "x", strings.NewReader("x"))
	f, ok := errors.AsType[*blob.Error](err)
	if want := "the bucket rejected the request: PermanentRedirect; check the endpoint and the region"; !ok || f.Error() != want || followed {
		t.Errorf("%v, want %s; followed: %t", err, want, followed)
	}
}

// pipeServer is an S3 server for clocks of tests: its connections are pipes. Each request
// is served by the function of its number.
func pipeServer(t *testing.T, serve ...func(w io.Writer, r *http.Request)) *blob.Bucket {
	t.Helper()
	o, n := options("http://bucket.test"), 0
	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		f := serve[min(n, len(serve)-1)]
		n++
		go func() {
			defer server.Close()
			r, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				return
			}
			f(server, r)
			io.Copy(io.Discard, server) // until the client closes the connection
		}()
		return client, nil
	}
	return open(t, o)
}

func TestAServerThatStopsInTheMiddleIsReplaced(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 10\r\nConnection: close\r\n\r\n"
	half := func(w io.Writer, _ *http.Request) { io.WriteString(w, head+"01234") }
	rest := func(w io.Writer, r *http.Request) {
		if r.Header.Get("Range") != "bytes=5-9" {
			t.Errorf("range %q", r.Header.Get("Range"))
		}
		io.WriteString(w, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\nConnection: close\r\n\r\n56789")
	}
	none := func(w io.Writer, _ *http.Request) {
		io.WriteString(w, "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\nConnection: close\r\n\r\n")
	}
	for name, tt := range map[string]struct {
		serve []func(io.Writer, *http.Request)
		want  string
		took  time.Duration
	}{
		"once":   {[]func(io.Writer, *http.Request){half, rest}, "0123456789", time.Minute},
		"always": {[]func(io.Writer, *http.Request){half, none}, "01234", 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r, err := pipeServer(t, tt.serve...).Get(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(r)
				if string(got) != tt.want || (err == nil) != (len(got) == 10) || time.Since(began) != tt.took {
					t.Errorf("%q, %v after %v; want %q after %v", got, err, time.Since(began), tt.want, tt.took)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := pipeServer(t, func(w io.Writer, _ *http.Request) {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 10\r\n\r\n01234")
		})
		r, err := b.Get(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		time.AfterFunc(time.Second, cancel)
		if got, err := io.ReadAll(r); string(got) != "01234" || !errors.Is(err, context.Canceled) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// resized is a store whose files have another size the second time they are read.
type resized struct {
	blob.Store
	reads int
	err   error
}

// GetRange implements blob.Store.
func (s *resized) GetRange(ctx context.Context, name string, offset, length int64) (*blob.Reader, error) {
	if s.reads++; s.reads > 1 && s.err != nil {
		return nil, s.err
	}
	r, err := s.Store.GetRange(ctx, name, offset, length)
	if err == nil && s.reads > 1 {
		r.Size++
	}
	return r, err
}

func TestASealedFileThatChangesBetweenReadsIsAnError(t *testing.T) {
	f := newSealedFile(t, pattern(200_000))
	for name, s := range map[string]*resized{"size": {Store: f.folder}, "deleted": {Store: f.folder, err: fs.ErrNotExist}} {
		f.store.Files = s
		if _, err := f.store.GetRange(t.Context(), "x", 100_000, 10); err == nil || s.reads != 2 || s.err != nil && !errors.Is(err, s.err) {
			t.Errorf("%s: %v after %d reads", name, err, s.reads)
		}
	}
}

func TestASealedFileOfABucketThatFailsIsNotDamaged(t *testing.T) {
	f := newSealedFile(t, pattern(200_000))
	stored := f.stored(t, "x")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(stored)))
		w.Write(stored[:100_000])
	}))
	defer s.Close()
	f.store.Files = bucket(t, s.URL)
	r, err := f.store.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if e, ok := errors.AsType[*blob.Error](err); !ok || e.Reason != "the bucket cannot be reached" || !bytes.HasPrefix(f.plain, got) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
