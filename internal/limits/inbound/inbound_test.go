package inbound_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/inbound"
)

// slowReader yields one piece after each pause and then the end.
type slowReader struct {
	pause  time.Duration
	pieces []int
	until  func() time.Time // the read deadline
	passed func()           // called when the deadline has passed, before Read returns; nil does nothing
}

func (s *slowReader) Close() error { return nil }

func (s *slowReader) Read(p []byte) (int, error) {
	wait := s.pause
	if d := s.until(); !d.IsZero() && time.Until(d) < wait {
		time.Sleep(time.Until(d))
		if s.passed != nil {
			s.passed()
		}
		return 0, fmt.Errorf("reading: %w", errDeadline)
	}
	time.Sleep(wait)
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, strings.Repeat("x", s.pieces[0]))
	s.pieces = s.pieces[1:]
	return n, nil
}

var errDeadline = func() error {
	c, _ := net.Pipe()
	c.SetReadDeadline(time.Unix(1, 0))
	_, err := c.Read(make([]byte, 1))
	return err
}()

// deadlines is a response writer that keeps the read deadline.
type deadlines struct {
	http.ResponseWriter
	mu    sync.Mutex
	until time.Time // guarded by mu
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = t
	return nil
}

func (d *deadlines) read() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.until
}

func TestBodyIsReadAtItsRate(t *testing.T) {
	repeat := func(n, size int) (list []int) {
		for range n {
			list = append(list, size)
		}
		return list
	}
	total := inbound.Total{Time: 10 * time.Minute, Setting: "timeouts.request_body"}
	held := inbound.Total{Time: 5 * time.Minute, Setting: "timeouts.held_body"}
	for _, tt := range []struct {
		name   string
		pause  time.Duration
		pieces []int
		limits inbound.BodyLimits
		total  inbound.Total
		want   string        // in the error; empty for none
		within time.Duration // of the error
	}{
		{"at once", 0, repeat(3, 100), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "", 0},
		{"at the rate exactly", time.Second, repeat(500, 512), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "", 0},
		{"pauses that the rate makes up for", 15 * time.Second, repeat(30, 512*15), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "", 0},
		{"a byte now and then", 9 * time.Second, repeat(100, 1), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "limits.body_rate", 33 * time.Second},
		{"half the rate", time.Second, repeat(500, 256), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "limits.body_rate", 65 * time.Second},
		{"nothing", time.Hour, nil, inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "timeouts.body_grace", 32 * time.Second},
		{"longer than the total", time.Second, repeat(700, 4096), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, total, "timeouts.request_body", 602 * time.Second},
		{"in memory, at the rate", time.Second, repeat(400, 512), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512, Held: held}, inbound.Total{}, "timeouts.held_body", 302 * time.Second},
		{"in memory, slow but complete in time", time.Second, repeat(280, 512), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512, Held: held}, total, "", 0},
		{"in memory, without a minimum rate", time.Minute, repeat(20, 1), inbound.BodyLimits{Held: held}, inbound.Total{}, "timeouts.held_body", 302 * time.Second},
		{"in memory, the total is shorter", time.Second, repeat(700, 4096), inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512, Held: held}, inbound.Total{Time: time.Minute, Setting: "timeouts.control_body"}, "timeouts.control_body", 62 * time.Second},
		{"no minimum rate", time.Minute, repeat(5, 1), inbound.BodyLimits{}, total, "", 0},
		{"no limits", time.Hour, repeat(5, 1), inbound.BodyLimits{}, inbound.Total{}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := new(deadlines)
				r := &http.Request{ContentLength: -1, Body: &slowReader{tt.pause, tt.pieces, w.read, nil}, ProtoMajor: 1}
				begun := time.Now()
				r, b := inbound.Limit(w, r, tt.limits, tt.total)
				if b == nil || r.Body != io.ReadCloser(b) {
					t.Fatal("the body has no limits")
				}
				b.Hold()
				n, err := io.Copy(io.Discard, r.Body)
				if tt.want == "" {
					if err != nil || !w.read().IsZero() {
						t.Fatalf("%d bytes, %v, deadline %v; want all of them and no deadline", n, err, w.read())
					}
					return
				}
				e, ok := errors.AsType[*apierr.Error](err)
				if !ok || e.Kind != apierr.Timeout || !strings.Contains(e.Message, tt.want) {
					t.Fatalf("error %v, want a timeout that names %s", err, tt.want)
				}
				if took := time.Since(begun); took > tt.within || time.Now().Before(w.read()) {
					t.Errorf("took %s, want at most %s and a deadline in the past", took, tt.within)
				}
				if _, again := r.Body.Read(make([]byte, 1)); again != err {
					t.Errorf("the next read returns %v, want the same error", again)
				}
			})
		})
	}
}

// Each part that is held has its own time, and what is passed on as it arrives has only
// that of the complete body.
func TestPartsOfABodyAreHeldForAWhileEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(deadlines)
		body := &slowReader{pause: time.Minute, until: w.read}
		for range 30 {
			body.pieces = append(body.pieces, 1)
		}
		limits := inbound.BodyLimits{Held: inbound.Total{Time: 5 * time.Minute, Setting: "timeouts.held_body"}}
		r, b := inbound.Limit(w, &http.Request{ContentLength: -1, Body: body, ProtoMajor: 1}, limits, inbound.Total{})
		read := func(times int) (err error) {
			for range times {
				if _, err = r.Body.Read(make([]byte, 1)); err != nil {
					return err
				}
			}
			return nil
		}
		for range 3 {
			b.Hold()
			if err := read(4); err != nil {
				t.Fatalf("a part that takes four minutes: %v", err)
			}
		}
		b.Pass()
		if err := read(10); err != nil {
			t.Fatalf("passing on for ten minutes: %v", err)
		}
		b.Hold()
		if err := read(6); err == nil || !strings.Contains(err.Error(), "within 5m0s") || !strings.Contains(err.Error(), "timeouts.held_body") {
			t.Errorf("a part that takes six minutes: %v, want a timeout that names timeouts.held_body", err)
		}
		var none *inbound.Body
		none.Hold()
		none.Pass()
	})
}

// net/http cancels the request's context before the read that was too late
// returns, and a caller that waits for the context asks immediately.
func TestLateReadIsKnownBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(deadlines)
		body := &slowReader{pause: time.Second, pieces: []int{512}, until: w.read}
		r, b := inbound.Limit(w, &http.Request{ContentLength: -1, Body: body, ProtoMajor: 1}, inbound.BodyLimits{Grace: 30 * time.Second, Rate: 512}, inbound.Total{})
		if _, err := r.Body.Read(make([]byte, 512)); err != nil || b.TimeoutError() != nil {
			t.Fatalf("a read in time: %v, late %v", err, b.TimeoutError())
		}
		time.Sleep(time.Hour)
		if late := b.TimeoutError(); late != nil {
			t.Errorf("nobody reads and the client is late: %v", late)
		}
		var during error
		body.pause, body.passed = time.Hour, func() {
			if late := b.TimeoutError(); late != nil {
				during = late
			}
		}
		_, err := r.Body.Read(make([]byte, 1))
		if err == nil || during == nil || during.Error() != err.Error() || b.TimeoutError() == nil {
			t.Errorf("late while the read has not returned: %v, afterwards: %v and %v", during, err, b.TimeoutError())
		}
	})
}

func TestRequestsWithoutABodyAreLeftAlone(t *testing.T) {
	w := new(deadlines)
	r := &http.Request{Body: http.NoBody}
	if got, b := inbound.Limit(w, r, inbound.BodyLimits{Grace: time.Second}, inbound.Total{}); got != r || b != nil || !w.read().IsZero() {
		t.Errorf("Limit = %v, %v with deadline %v, want the request itself", got, b, w.read())
	}
}

// listen serves with the limits and returns the address. Requests with the header
// Key count as such with a valid key.
func listen(t *testing.T, o inbound.ListenerOptions) (address string, l *inbound.Listener) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = inbound.NewListener(raw, o)
	s := &http.Server{ConnContext: inbound.WithConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Key") != "" {
			inbound.MarkAuthenticated(r.Context())
		}
		io.WriteString(w, "ok")
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return raw.Addr().String(), l
}

func mustDial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// getStatus sends a request and returns the status, zero when the connection is closed.
func getStatus(c net.Conn, header string) int {
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n"+header+"\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func waitFor(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("after a minute it is still not true that %s", claim)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestYoungConnectionsWithoutAKeyAreLimited(t *testing.T) {
	const limit, most = 2, 2 * 16
	var mu sync.Mutex
	reasons := map[string]int{}
	address, l := listen(t, inbound.ListenerOptions{Keyless: limit, Plain: true, Refused: func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		reasons[reason]++
	}})
	for range most {
		mustDial(t, address)
	}
	waitFor(t, "all young connections are open", func() bool { return l.Keyless() == most })
	refused := mustDial(t, address)
	res, err := http.ReadResponse(bufio.NewReader(refused), nil)
	if err != nil || res.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("connection %d: %v, %v; want 429", most+1, res, err)
	}
	text, _ := io.ReadAll(res.Body)
	if !strings.Contains(string(text), "limits.keyless_connections") || l.Keyless() != most {
		t.Errorf("%d open, refused with %s", l.Keyless(), text)
	}
	mu.Lock()
	defer mu.Unlock()
	if reasons["keyless_limit"] != 1 {
		t.Errorf("counted %v", reasons)
	}
}

func TestOldestConnectionWithoutAKeyIsClosed(t *testing.T) {
	address, l := listen(t, inbound.ListenerOptions{Keyless: 2})
	withKey := mustDial(t, address)
	if status := getStatus(withKey, "Key: k\r\n"); status != 200 {
		t.Fatalf("with a key: %d", status)
	}
	first, second := mustDial(t, address), mustDial(t, address)
	if getStatus(first, "") != 200 || getStatus(second, "") != 200 || l.Keyless() != 2 {
		t.Fatalf("%d connections without a key, want 2", l.Keyless())
	}
	time.Sleep(2100 * time.Millisecond) // real connections have real ages
	third := mustDial(t, address)
	if getStatus(third, "") != 200 {
		t.Error("a new connection was refused")
	}
	for name, c := range map[string]net.Conn{"second": second, "third": third, "with a key": withKey} {
		if status := getStatus(c, ""); status != 200 {
			t.Errorf("%s: status %d, want it open", name, status)
		}
	}
	if status := getStatus(first, ""); status != 0 {
		t.Errorf("the oldest: status %d, want it closed", status)
	}
}

func TestClosedAndKnownConnectionsAreNotCounted(t *testing.T) {
	address, l := listen(t, inbound.ListenerOptions{Keyless: 1})
	for range 40 { // more than may be open at once
		c := mustDial(t, address)
		if getStatus(c, "Key: k\r\n") != 200 {
			t.Fatal("a connection with a key was refused")
		}
	}
	waitFor(t, "none counts", func() bool { return l.Keyless() == 0 })
	for range 40 {
		c := mustDial(t, address)
		if getStatus(c, "") != 200 {
			t.Fatal("a connection was refused although the others are closed")
		}
		c.Close()
		waitFor(t, "the closed one is not counted", func() bool { return l.Keyless() == 0 })
	}
}

func TestTrustedProxiesAreNotLimited(t *testing.T) {
	address, l := listen(t, inbound.ListenerOptions{Keyless: 1, Exempt: netip.Addr.IsLoopback})
	for range 20 {
		mustDial(t, address)
	}
	if status := getStatus(mustDial(t, address), ""); status != 200 || l.Keyless() != 0 {
		t.Errorf("status %d, %d counted; want none", status, l.Keyless())
	}
}

func TestClientThatReadsNothingIsClosed(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := inbound.NewListener(raw, inbound.ListenerOptions{Stall: 200 * time.Millisecond})
	defer l.Close()
	mustDial(t, raw.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, err := c.Write(make([]byte, 64<<20))
	if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() || n == 64<<20 {
		t.Errorf("wrote %d bytes, %v; want a timeout", n, err)
	}
}
