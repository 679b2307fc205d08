package dataplane_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// echoProvider accepts WebSocket connections and sends each message back, with as little memory
// as possible. It returns its address.
func echoProvider(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go echo(c)
		}
	}()
	return "http://" + l.Addr().String()
}

func echo(c net.Conn) {
	defer c.Close()
	if !acceptEcho(c) {
		return
	}
	var head [14]byte
	for {
		n, mask, err := readHead(c, head[:])
		if err != nil {
			return
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		for i := range b {
			b[i] ^= mask[i%4]
		}
		op := head[0] & 0x0F
		if op == 9 {
			op = 10
		}
		if op == 8 || writeFrame(c, op, b, false) != nil {
			return
		}
	}
}

func acceptEcho(c net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReaderSize(c, 4<<10))
	if err != nil {
		return false
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	return err == nil
}

// readHead reads the head of a frame.
func readHead(c io.Reader, head []byte) (n int, mask [4]byte, err error) {
	if _, err = io.ReadFull(c, head[:2]); err != nil {
		return 0, mask, err
	}
	n = int(head[1] & 0x7F)
	switch n {
	case 126:
		_, err = io.ReadFull(c, head[2:4])
		n = int(binary.BigEndian.Uint16(head[2:4]))
	case 127:
		_, err = io.ReadFull(c, head[2:10])
		n = int(binary.BigEndian.Uint64(head[2:10]))
	}
	if err == nil && head[1]&0x80 != 0 {
		_, err = io.ReadFull(c, mask[:])
	}
	return n, mask, err
}

func writeFrame(c io.Writer, op byte, b []byte, masked bool) error {
	head := []byte{0x80 | op}
	switch n := len(b); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	if masked {
		head[1] |= 0x80
		head = append(head, 0, 0, 0, 0)
	}
	_, err := c.Write(append(head, b...))
	return err
}

// dialRaw opens a session without a library, and without a goroutine.
func dialRaw(t testing.TB, address, path string, h http.Header) net.Conn {
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodGet, address+path, nil)
	r.Header = h.Clone()
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-Websocket-Version", "13")
	r.Header.Set("Sec-Websocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
	r.Header.Del("Content-Type")
	if err := r.Write(c); err != nil {
		t.Fatal(err)
	}
	var one [1]byte // so that nothing of a message is read
	var head []byte
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		if _, err := c.Read(one[:]); err != nil {
			t.Fatalf("%v after %q", err, head)
		}
		head = append(head, one[0])
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 101") {
		t.Fatalf("the handshake is answered with %.200s", head)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// newEcho is a gateway in front of an echo.
func newEcho(t testing.TB) (g *gatewaytest.Gateway, direct string) {
	direct = echoProvider(t)
	return gatewaytest.New(t, gatewaytest.Options{
		Managed: []snapshot.ManagedProvider{{Slug: "echo", Provider: "openai",
			Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: direct + "/v1"}}},
	}), direct
}

const echoPath = "/v1/realtime?model=@echo/gpt-realtime"

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkIdleSessions measures the memory of an open session, heap and stacks, both ends of
// the test included, which take about 5 KB.
func BenchmarkIdleSessions(b *testing.B) {
	g, _ := newEcho(b)
	h := g.Request(http.MethodGet, "/realtime", "", toChat, "").Header
	dialRaw(b, g.Root, echoPath, h)
	const sessions = 1000
	for b.Loop() {
		before, goroutines := memory(), runtime.NumGoroutine()
		for range sessions {
			dialRaw(b, g.Root, echoPath, h)
		}
		b.ReportMetric(float64(memory()-before)/sessions/1024, "KB/session")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/sessions, "goroutines/session")
	}
}

// BenchmarkSpeakingSessions measures what the gateway adds to the way of a message there and
// back, while 1,000 sessions are idle and 200 send ten messages of audio per second each. No
// message may overtake another.
func BenchmarkSpeakingSessions(b *testing.B) {
	g, direct := newEcho(b)
	h := g.Request(http.MethodGet, "/realtime", "", toChat, "").Header
	for range 1000 {
		dialRaw(b, g.Root, echoPath, h)
	}
	for b.Loop() {
		without := speak(b, direct, "/v1/realtime", h)
		with := speak(b, g.Root, echoPath, h)
		b.ReportMetric(float64(without[len(without)*99/100].Microseconds())/1000, "direct-p99-ms")
		b.ReportMetric(float64(with[len(with)*99/100].Microseconds())/1000, "gateway-p99-ms")
		b.ReportMetric(float64((with[len(with)/2]-without[len(without)/2]).Microseconds())/1000, "added-median-ms")
	}
}

// speak returns the times of messages of 200 sessions there and back, sorted.
func speak(b *testing.B, address, path string, h http.Header) (took []time.Duration) {
	const sessions, messages, size = 200, 50, 6400
	var mu sync.Mutex
	var all sync.WaitGroup
	for range sessions {
		c := dialRaw(b, address, path, h)
		defer c.Close()
		sent := make(chan time.Time, messages)
		all.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for i := range messages {
				<-tick.C
				text := `{"type":"input_audio_buffer.append","n":"` + string(rune('A'+i%26)) + `","audio":"` + strings.Repeat("A", size) + `"}`
				sent <- time.Now()
				writeFrame(c, 1, []byte(text), true)
			}
		})
		all.Go(func() {
			var head [14]byte
			for i := 0; i < messages; {
				n, _, err := readHead(c, head[:])
				if err != nil {
					b.Error(err)
					return
				}
				text := make([]byte, n)
				io.ReadFull(c, text)
				if head[0]&0x0F != 1 {
					continue
				}
				one := time.Since(<-sent)
				if want := `"n":"` + string(rune('A'+i%26)); !strings.Contains(string(text[:80]), want) {
					b.Errorf("message %d is %.60s", i, text)
				}
				i++
				mu.Lock()
				took = append(took, one)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}
