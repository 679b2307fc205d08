package bench

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"modelgate/internal/testing/waittest"
)

func TestQuantileIsTheNearestRank(t *testing.T) {
	hundred := make(samples, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // 100 … 1, unsorted
	}
	for _, tt := range []struct {
		name string
		s    samples
		q    float64
		want time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one", samples{7}, 0.999, 7},
		{"median of an odd number", samples{9, 1, 5}, 0.5, 5},
		{"median of an even number is the lower", samples{4, 3, 2, 1}, 0.5, 2},
		{"lowest", hundred, 0, 1},
		{"p50", hundred, 0.5, 50},
		{"p99", hundred, 0.99, 99},
		{"p99.9 of a hundred is the highest", hundred, 0.999, 100},
		{"all", hundred, 1, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.quantile(tt.q); got != tt.want {
				t.Errorf("quantile(%g) = %d, want %d", tt.q, got, tt.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		v    []float64
		want float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 2, 4, 6}, 5},
	} {
		if got := median(tt.v); got != tt.want {
			t.Errorf("median(%v) = %g, want %g", tt.v, got, tt.want)
		}
	}
}

func TestScheduleSendsEveryRequestOnceAtItsTime(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, tt := range []struct {
		rate   int
		length time.Duration
		count  int
	}{
		{1, 3 * time.Second, 3},
		{200, 1500 * time.Millisecond, 300},
		{1000, 250 * time.Millisecond, 250},
		{3, time.Second, 3},
	} {
		s := newSchedule(start, tt.rate, tt.length)
		seen := map[time.Time]int{}
		for lane := range s.lanes {
			var last time.Time
			for turn := 0; ; turn++ {
				due, more := s.due(lane, turn)
				if !more {
					break
				}
				if !due.After(last) {
					t.Errorf("rate %d, lane %d: turn %d is due at %s, not after the one before", tt.rate, lane, turn, due)
				}
				last = due
				seen[due]++
			}
		}
		if len(seen) != tt.count {
			t.Errorf("rate %d: %d requests are due, want %d", tt.rate, len(seen), tt.count)
		}
		for i := range tt.count {
			at := start.Add(time.Duration(i) * (time.Second / time.Duration(tt.rate)))
			if seen[at] != 1 {
				t.Errorf("rate %d: %d requests are due at %s, want 1", tt.rate, seen[at], at)
			}
		}
	}
}

func TestResponseReader(t *testing.T) {
	const length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name, wire string
		status     int
		body       string
		err        bool
	}{
		{"a length", length, 200, "hello", false},
		{"chunks", chunked, 200, "hello", false},
		{"no chunk but the last", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", false},
		{"an error status", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno", 503, "no", false},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false},
		{"lines without a carriage return", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", false},
		{"cut in the body", length[:len(length)-1], 200, "hell", true},
		{"cut in a chunk", chunked[:len(chunked)-14], 200, "hel", true},
		{"cut before the last chunk", chunked[:len(chunked)-5], 200, "hello", true},
		{"cut in the last chunk", chunked[:len(chunked)-2], 200, "hello", true},
		{"cut in the head", "HTTP/1.1 200 OK\r\nContent-Le", 200, "", true},
		{"nothing", "", 0, "", true},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2p1 Debian\r\n\r\n", 0, "", true},
		{"no length", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "", true},
		{"a length that is no number", "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello", 200, "", true},
		{"a chunk longer than it says", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhel\r\n0\r\n\r\n", 200, "h", true},
		{"a negative chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 200, "", true},
	} {
		for cut, r := range map[string]io.Reader{
			"whole":        strings.NewReader(tt.wire),
			"byte by byte": iotest.OneByteReader(strings.NewReader(tt.wire)),
		} {
			t.Run(tt.name+", "+cut, func(t *testing.T) {
				a := response{r: bufio.NewReader(r)}
				err := a.begin()
				var body []byte
				if err == nil {
					body, err = io.ReadAll(&a)
				}
				if a.status != tt.status || string(body) != tt.body || (err != nil) != tt.err {
					t.Errorf("status %d, body %q, error %v; want %d, %q, an error: %t", a.status, body, err, tt.status, tt.body, tt.err)
				}
			})
		}
	}
}

func TestResponsesFollowEachOtherOnOneConnection(t *testing.T) {
	const one = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n"
	const two = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"
	a := response{r: bufio.NewReader(strings.NewReader(one + two + one))}
	for i, want := range []string{"one", "two", "one"} {
		if err := a.begin(); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		got, err := io.ReadAll(&a)
		if string(got) != want || err != nil {
			t.Errorf("answer %d = %q, %v, want %q", i, got, err, want)
		}
	}
}

func TestFramesAreCountedHoweverTheyAreCut(t *testing.T) {
	const stream = ": a comment\n\ndata: {\"a\":1}\n\nevent: x\ndata: {\"b\":2}\n\ndata: [DONE]\n\n"
	for size := 1; size <= len(stream); size++ {
		var f frames
		for at := 0; at < len(stream); at += size {
			f.add([]byte(stream[at:min(at+size, len(stream))]), time.Unix(int64(at), 0))
		}
		if len(f.at) != 3 || !f.isComplete() {
			t.Errorf("cut every %d bytes: %d events, done %t, want 3 and done", size, len(f.at), f.isComplete())
		}
	}
	var f frames
	f.add([]byte("data: {\"a\":1}\n\ndata: [DONE]\n"), time.Unix(0, 0))
	if len(f.at) != 1 {
		t.Errorf("an event without its blank line counts: %d events, want 1", len(f.at))
	}
}

func TestTranslatedResponsesAreChecked(t *testing.T) {
	const one, two = "data: {\"delta\":{\"content\":\"Hel\"}}\n\n", "data: {\"delta\":{\"content\":\"lo\"}}\n\n"
	const around, done = "data: {\"delta\":{\"content\":\"\"}}\n\n", "data: [DONE]\n\n"
	whole, streamed := chatDoor.expectResponse("Hello", 0), chatDoor.expectResponse("Hello", 2)
	for _, tt := range []struct {
		name string
		says *expectedResponse
		body string
		want bool
	}{
		{"a complete response", whole, `{"id":"x","choices":[{"message":{"content":"Hello"}}]}`, true},
		{"a complete response cut short", whole, `{"choices":[{"message":{"content":"Hell"}}]}`, false},
		{"a complete response that goes on", whole, `{"choices":[{"message":{"content":"Hello!"}}]}`, false},
		{"a complete response without text", whole, `{"choices":[]}`, false},
		{"a stream", streamed, around + one + two + around + done, true},
		{"a stream in another order", streamed, two + one + done, false},
		{"a stream that lost an event", streamed, one + done, false},
		{"a stream with its text in one event", streamed, "data: {\"delta\":{\"content\":\"Hello\"}}\n\n" + done, false},
		{"a stream without its end", streamed, one + two, false},
		{"nothing", streamed, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.says.check([]byte(tt.body)); (err == nil) != tt.want {
				t.Errorf("check = %v, want a right response: %t", err, tt.want)
			}
		})
	}
}

func TestGateOpensWhenAllHaveArrived(t *testing.T) {
	var g gate
	if g.arrive() != nil {
		t.Fatal("an open gate makes a request wait")
	}
	if err := g.hold("2"); err != nil {
		t.Fatal(err)
	}
	first := g.arrive()
	select {
	case <-first:
		t.Fatal("the gate opened before all had arrived")
	default:
	}
	second := g.arrive()
	waittest.Receive(t, first, "the gate to open for the first")
	waittest.Receive(t, second, "the gate to open for the second")
	if g.closed() {
		t.Error("the gate is still closed after all have arrived")
	}
}

func TestMissedGoalsAreMarked(t *testing.T) {
	r := newReport(Options{Command: []string{"none"}, Against: "other"})
	r.Throughput = []Throughput{
		{Target: ReverseProxy, Connections: 64, PerSecond: 1000, CPUMicros: 100, Allocs: 120},
		{Target: Handler, Connections: 64, PerSecond: 1000, CPUMicros: 80, Allocs: 100},
		{Target: Modelgate, Connections: 64, PerSecond: 1050, CPUMicros: 85, Allocs: 126},
		{Target: Other, Connections: 64, PerSecond: 1050, CPUMicros: 82, Allocs: 126},
	}
	r.Memory = []Memory{{Target: Other, IdleMiB: 30, PeakMiB: 40}, {Target: Modelgate, IdleMiB: 32, PeakMiB: 40}}
	same := []loaded{{cpuMicros: 100}, {cpuMicros: 200}, {cpuMicros: 100}} // the machine was busy in the second round
	r.addTranslated("chat → chat", 64, same, same)
	r.addTranslated("chat → gemini", 64, []loaded{{cpuMicros: 240}, {cpuMicros: 500}, {cpuMicros: 900}}, same)
	r.addTranslated("chat → converse", 64, []loaded{{cpuMicros: 251}, {cpuMicros: 500}, {cpuMicros: 252}}, same)
	plain := []loaded{{perSecond: 100, cpuMicros: 100}, {perSecond: 50, cpuMicros: 200}, {perSecond: 100, cpuMicros: 100}}
	bare := []loaded{{cpuMicros: 40}, {cpuMicros: 80}, {cpuMicros: 40}}
	r.addFeature(Limits, []loaded{{cpuMicros: 115}, {cpuMicros: 300}, {cpuMicros: 114}}, plain, plain, 0)
	r.addFeature(SharedLimits, plain, plain, plain, 2.1)
	r.addFeature(RegexChecks, []loaded{{cpuMicros: 151}, {cpuMicros: 200}, {cpuMicros: 152}}, plain, plain, 0)
	r.addFeature(CacheHit, []loaded{{perSecond: 300, cpuMicros: 100}, {perSecond: 100, cpuMicros: 200}, {perSecond: 300, cpuMicros: 101}}, bare, plain, 0)
	r.faults(Modelgate).add(io.EOF)
	r.compareGoals()
	got := map[string]bool{}
	for _, g := range r.Ratios {
		got[g.Name] = g.Met
	}
	for name, want := range map[string]bool{
		"throughput at 64 connections, of ReverseProxy":   false, // 1.05 of 1.1
		"CPU of a request, of ReverseProxy":               true,  // exactly 0.85
		"allocations of a request beyond a plain handler": false, // 26 of 25
		"CPU of chat → gemini streamed, of one dialect":   true,  // the median is 2.5
		"CPU of chat → converse streamed, of one dialect": false, // 2.51 of 2.5
		"CPU of a request, of the other build":            false, // 1.04 of 1.03
		"allocations of a request beyond the other build": true,
		"memory at rest, of the other build":              false, // 1.07 of 1.05
		"CPU added by limits in the process":              true,  // exactly 15
		"calls of Redis for a request":                    false, // 2.1 of 2
		"CPU added by five regular expressions":           false, // 51 of 50
		"CPU of a hit of the cache, of a bare handler":    false, // 61 of 60
		"throughput of hits of the cache":                 true,  // exactly 3
		"frames lost, all targets":                        true,
		"wrong responses":                                 false,
	} {
		if met, ok := got[name]; !ok || met != want {
			t.Errorf("%q: listed %t, met %t, want met %t", name, ok, met, want)
		}
	}
}
