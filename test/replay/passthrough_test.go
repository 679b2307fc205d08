package replay

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// allAPIs are those whose recordings go through pass-through.
var allAPIs = append([]string{"chat-completions", "completions", "embeddings", "images", "audio", "assistants",
	"count-tokens", "invoke", "invoke-stream", "rerank", "embed", "embed-content", "interactions", "generate", "predict", "predictions"}, foreignAPIs...)

// workers bounds how many tapes are played at once.
const workers = 4

// The first segment of each path names the tape and the run; it stands for a
// path prefix of the provider and keeps known paths from being unified ones.
func TestRecordingsPassThroughByteForByte(t *testing.T) {
	tapes := mustTapes(t, allAPIs...)
	// The gateway sends each single byte on by itself, which takes its time.
	for run, c := range []cut{{"cut at random", 0}, {"byte by byte", 2 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlayer(t, tapes, c)
			g := gatewaytest.New(t, gatewaytest.Options{Reach: p.reach(), Settings: prices(), Managed: []snapshot.ManagedProvider{{
				Slug: "recorded", Provider: "openai-compatible",
				Settings: provider.Settings{Key: secret.New("recorded-key"), CustomHost: "http://provider.recorded.com"},
			}}})
			var chats sink
			counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
				res := x.passThrough(t, g, p, run)
				if x.API == "chat-completions" {
					chats.add(x, res)
				}
				return res
			})
			report(t, counts)
			if counts["chat-completions"] < 270 || counts["responses"] < 80 || counts["assistants"] < 100 || counts["generate-content"] < 140 || counts["converse"] < 55 {
				t.Errorf("exchanges played: %v, want all of the recordings", counts)
			}
			checkBooks(t, g, chats.entries)
		})
	}
}

// playAll plays tapes side by side, the exchanges of each in their order, and
// counts them by API.
func playAll(t *testing.T, tapes []*tape, play func(*exchange) *gatewaytest.Response) map[string]int {
	var mu sync.Mutex
	counts := map[string]int{}
	var wg sync.WaitGroup
	queue := make(chan *tape)
	for range workers {
		wg.Go(func() {
			for p := range queue {
				for _, x := range p.Exchanges {
					if play(x) == nil {
						continue
					}
					mu.Lock()
					counts[x.API]++
					mu.Unlock()
				}
			}
		})
	}
	for _, p := range tapes {
		queue <- p
	}
	close(queue)
	wg.Wait()
	return counts
}

func report(t *testing.T, counts map[string]int) {
	t.Helper()
	total := 0
	var list []string
	for _, api := range slices.Sorted(maps.Keys(counts)) {
		total += counts[api]
		list = append(list, api+" "+strconv.Itoa(counts[api]))
	}
	t.Logf("%d exchanges: %s", total, strings.Join(list, ", "))
}

// passThrough sends the exchange through g and compares both ends.
func (x *exchange) passThrough(t *testing.T, g *gatewaytest.Gateway, p *player, run int) *gatewaytest.Response {
	session := strconv.Itoa(x.tape) + "-" + strconv.Itoa(run)
	target := "/" + session + x.target(t)
	body, contentType := x.sent()
	req := newRequest(t, x.Request.Method, g.URL+target, body)
	sent := http.Header{"User-Agent": {"recorded/1"}}
	for name, v := range x.Request.Headers {
		sent.Set(name, v)
	}
	if contentType != "" {
		sent.Set("Content-Type", contentType)
	}
	req.Header = sent.Clone()
	req.Header.Set("X-Gateway-Api-Key", gatewaytest.Key)
	req.Header.Set("X-Gateway-Provider", "@recorded")
	res := send(t, req)

	got, ok := p.request(session)
	if !ok {
		t.Errorf("%s: nothing came to the provider; the client got %d: %.300s", x.name, res.Status, res.Body)
		return &res
	}
	if got.method != x.Request.Method || got.uri != target {
		t.Errorf("%s: at the provider %s %s, want %s %s", x.name, got.method, got.uri, x.Request.Method, target)
	}
	if !bytes.Equal(got.body, body) {
		t.Errorf("%s: the provider got another body: %s", x.name, difference(body, got.body))
	}
	sent.Set("Authorization", "Bearer recorded-key")
	maps.DeleteFunc(sent, func(name string, _ []string) bool { // other vendors' are not for this provider
		return strings.HasPrefix(name, "Anthropic-") || strings.HasPrefix(name, "X-Amz") || strings.HasPrefix(name, "X-Goog-")
	})
	if len(body) > 0 {
		sent.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if diff := cmp.Diff(sent, got.header); diff != "" {
		t.Errorf("%s: header at the provider (-want +got):\n%s", x.name, diff)
	}
	x.compareResponse(t, res, x.Response.Status, x.header(), x.body())
	return &res
}

// compareResponse compares what the client got with what it should have got. The
// gateway's own headers are left out.
func (x *exchange) compareResponse(t *testing.T, res gatewaytest.Response, status int, header http.Header, body []byte) {
	if res.Status != status || res.Err != nil {
		t.Errorf("%s: status %d, end %v, want %d: %.300s", x.name, res.Status, res.Err, status, res.Body)
		return
	}
	if diff := cmp.Diff(header, foreign(res.Header)); diff != "" {
		t.Errorf("%s: header at the client (-want +got):\n%s", x.name, diff)
	}
	if !bytes.Equal(res.Body, body) {
		t.Errorf("%s: the client got another body: %s", x.name, difference(body, res.Body))
	}
}

// foreign returns the headers that are not the gateway's own.
func foreign(h http.Header) http.Header {
	h = h.Clone()
	maps.DeleteFunc(h, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Gateway-") })
	return h
}

// difference shows where two bodies part.
func difference(want, got []byte) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	from := max(0, i-40)
	return "at byte " + strconv.Itoa(i) + "\nwant (" + strconv.Itoa(len(want)) + ") " + strconv.Quote(string(want[from:min(i+60, len(want))])) +
		"\n got (" + strconv.Itoa(len(got)) + ") " + strconv.Quote(string(got[from:min(i+60, len(got))]))
}

func newRequest(t *testing.T, method, url string, body []byte) *http.Request {
	t.Helper()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// client asks for no compression and follows nothing.
var client = &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: workers}

func send(t *testing.T, req *http.Request) gatewaytest.Response {
	t.Helper()
	res, err := client.RoundTrip(req)
	if err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL, err)
		return gatewaytest.Response{Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: b, Err: err}
}
