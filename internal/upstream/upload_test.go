package upstream_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"modelgate/internal/upstream"
)

func TestAClientWhoseUploadBreaksOffIsNotTheProvidersFault(t *testing.T) {
	addr := mustServe(t, func(_ *net.TCPConn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	for _, cause := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, errors.New("pl4nted")} {
		body := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(cause))
		_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "POST", "http://"+addr, body), false)
		if f := mustFail(t, err, upstream.Upload); !errors.Is(f, cause) || strings.Contains(f.Error(), "pl4nted") {
			t.Errorf("got %v with cause %v, want cause %v", f, f.Err, cause)
		}
	}
}

func TestAProviderThatBreaksOffAnUploadIsNotTheClientsFault(t *testing.T) {
	addr := mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) { conn.SetLinger(0) })
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "POST", "http://"+addr, io.NopCloser(endless{})), false)
	mustFail(t, err, upstream.Reset)
}

// endless is a body that always has more.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAClientThatStallsItsUploadDoesNotOutlastTheLimit(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(*net.TCPConn, *bufio.Reader) { <-quit })
	body, client := io.Pipe()
	defer client.Close()
	go io.WriteString(client, "half") // and then nothing more
	w := upstream.NewWatchdog(t.Context(), upstream.Timeouts{Header: 20 * time.Millisecond})
	defer w.Stop()
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, w.Context(), "POST", "http://"+addr, io.NopCloser(body)), false)
	mustFail(t, err, upstream.HeaderTimeout)
}

func TestAnUploadIsStreamed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusOK)
		rc.Flush()
		io.Copy(w, r.Body)
	}))
	defer s.Close()
	body, client := io.Pipe()
	resp, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "POST", s.URL, body), false)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(client, "after the header")
		client.Close()
	}()
	if got := mustRead(t, resp); got != "after the header" {
		t.Errorf("got %q back", got)
	}
}
