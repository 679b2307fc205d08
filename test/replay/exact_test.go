package replay

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"

func TestAddressesPassAsTheyAreWritten(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com/base/v1")
	for _, target := range []string{
		"/things?b=2&a=1&b=3&&c&=&d=",
		"/things?q=%zz&x=a+b%20c%2B&y=1;z=2&u=%E2%82%AC",
		"/things?",
		"/things??a=?",
		"/things?next=https://example.com/a?b=c",
		"/things/a%2Fb%2f%20",
		"/things/~user/$&'()*+,;=:@!",
		"/things/a|b[1]{2}^`",
		"/things/%E2%82%AC/é",
		"/things/",
		"/",
		"/v1/chat/completions",
		"/chat/completions/",
		"/chat%2Fcompletions",
		"/model/us.anthropic.claude%3A0/converse",
		"/models/gemini:countTokens?alt=sse&key=",
		"/https:%2F%2Fexample.com%2Fa",
	} {
		t.Run(target, func(t *testing.T) {
			got, _ := w.ask(t, g, "GET /v1"+target+" HTTP/1.1\r\nConnection: close\r\n\r\n", ok)
			if want := "GET /base/v1" + target + " HTTP/1.1"; got.line != want {
				t.Errorf("request line at the provider\n got %s\nwant %s", got.line, want)
			}
		})
	}
}

// Characters that need no encoding arrive decoded: one path has one spelling
// (RFC 3986, section 6.2.2.2).
func TestUnreservedCharactersArriveDecoded(t *testing.T) {
	w := newWire(t)
	got, _ := w.ask(t, w.gateway("http://provider.recorded.com/base/v1"), "GET /v1/things/%66%2Fb%2f%7E%41%2E%2e HTTP/1.1\r\nConnection: close\r\n\r\n", ok)
	if want := "GET /base/v1/things/f%2Fb%2f~A.. HTTP/1.1"; got.line != want {
		t.Errorf("request line at the provider %s, want %s", got.line, want)
	}
}

func TestBodiesPassWithTheMethodsThatAreOffered(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	const zipped = "\x1f\x8b\x08\x00not really\xff\x00"
	for _, method := range []string{"POST", "PUT", "DELETE", "GET"} {
		for _, tt := range []struct{ name, fields, body, want string }{
			{"JSON", "Content-Type: application/json\r\nContent-Length: 13\r\n", `{"a" :1.0e2 }`, `{"a" :1.0e2 }`},
			{"not JSON in spite of its type", "Content-Type: application/json\r\nContent-Length: 5\r\n", `{"a":`, `{"a":`},
			{"compressed", "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 16\r\n", zipped, zipped},
			{"chunks", "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", "hello"},
			{"nothing", "Content-Length: 0\r\n", "", ""},
		} {
			t.Run(method+" "+tt.name, func(t *testing.T) {
				got, response := w.ask(t, g, method+" /v1/things/a HTTP/1.1\r\n"+tt.fields+"Connection: close\r\n\r\n"+tt.body, ok)
				if got.line != method+" /things/a HTTP/1.1" || got.body != tt.want {
					t.Errorf("at the provider %s with %q, want %s with %q", got.line, got.body, method, tt.want)
				}
				for line := range strings.SplitSeq(strings.TrimSuffix(tt.fields, "\r\n"), "\r\n") {
					name, want, _ := strings.Cut(line, ": ")
					if v, _ := got.field(name); v != want && want != "0" {
						t.Errorf("%s at the provider: %q, want %q", name, v, want)
					}
				}
				if !strings.HasSuffix(response, "\r\n\r\nok") {
					t.Errorf("answer %q", response)
				}
			})
		}
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	for _, method := range []string{"HEAD", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"} {
		t.Run(method, func(t *testing.T) {
			conn := open(t, g, method+" /v1/things/a HTTP/1.1\r\nConnection: close\r\n\r\n")
			all, err := io.ReadAll(conn)
			head, body, _ := strings.Cut(string(all), "\r\n\r\n")
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 405 ") || !strings.Contains(head, "\r\nAllow: DELETE, GET, POST, PUT\r\n") {
				t.Errorf("got %q, %v; want 405 and what is allowed", all, err)
			}
			if (body == "") != (method == "HEAD") {
				t.Errorf("body %q", body)
			}
		})
	}
}

func TestFieldsOfAConnectionEndWithIt(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	got, response := w.ask(t, g, "GET /v1/things HTTP/1.1\r\nConnection: x-custom, close\r\nConnection: X-Other\r\n"+
		"X-Custom: 1\r\nx-other: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Connection: close\r\nX-Stays: a\r\nx-stays: b\r\nCookie: a=b\r\nAuthorization: Bearer mine\r\n\r\n",
		"HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nConnection: x-up, keep-alive\r\nX-Up: 1\r\nKeep-Alive: timeout=5\r\nX-Gateway-Forged: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Stays: up\r\n\r\nok")
	for _, name := range []string{"X-Custom", "X-Other", "Keep-Alive", "TE", "Proxy-Connection", "Cookie", "X-Gateway-Api-Key", "X-Gateway-Provider"} {
		if v, ok := got.field(name); ok {
			t.Errorf("%s at the provider: %q, want none", name, v)
		}
	}
	var stays []string
	for _, f := range got.fields {
		if v, ok := strings.CutPrefix(f, "X-Stays: "); ok {
			stays = append(stays, v)
		}
	}
	if !slices.Equal(stays, []string{"a", "b"}) {
		t.Errorf("X-Stays at the provider: %q, want a and b", stays)
	}
	if v, _ := got.field("Authorization"); v != "Bearer wire-key" {
		t.Errorf("Authorization at the provider: %q", v)
	}
	for _, line := range []string{"X-Up:", "Keep-Alive:", "X-Gateway-Forged:", "Content-Type:"} {
		if strings.Contains(response, "\r\n"+line) {
			t.Errorf("%s came to the client: %q", line, response)
		}
	}
	for _, line := range []string{"Set-Cookie: a=1", "Set-Cookie: b=2", "X-Stays: up", "Content-Length: 2"} {
		if !strings.Contains(response, "\r\n"+line+"\r\n") {
			t.Errorf("%s did not come to the client: %q", line, response)
		}
	}
}

func TestStatusesPassAsTheyAre(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	for _, tt := range []struct{ name, response, status, rest string }{
		{"redirects within the provider lead to the gateway", "HTTP/1.1 302 Found\r\nLocation: /things/b?x=%2F\r\nContent-Length: 0\r\n\r\n", "302", "/v1/things/b?x=%2F\r\n"},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "204", ""},
		{"not modified", "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\n\r\n", "304", "Etag: \"a\"\r\n"},
		{"unknown", "HTTP/1.1 599 Odd\r\nContent-Length: 3\r\n\r\nodd", "599", "\r\n\r\nodd"},
		{"partial content", "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/5\r\nContent-Length: 2\r\n\r\nab", "206", "Content-Range: bytes 0-1/5\r\n"},
		{"informational ones are left out", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200", "\r\n\r\nok"},
		{"until the connection closes", "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nto the end", "200", "to the end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, response := w.ask(t, g, "GET /v1/things HTTP/1.1\r\nConnection: close\r\n\r\n", tt.response)
			if !strings.HasPrefix(response, "HTTP/1.1 "+tt.status+" ") || !strings.Contains(response, tt.rest) {
				t.Errorf("got %q, want %s with %q", response, tt.status, tt.rest)
			}
			if strings.Contains(response, "Link:") {
				t.Errorf("got %q, want no informational answer", response)
			}
		})
	}
}

func TestResponsesToOldClientsHaveNoChunks(t *testing.T) {
	w := newWire(t)
	_, response := w.ask(t, w.gateway("http://provider.recorded.com"), "GET /v1/things HTTP/1.0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	if !strings.HasSuffix(response, "\r\n\r\nok") || strings.Contains(response, "Transfer-Encoding") {
		t.Errorf("answer %q, want ok without chunks", response)
	}
}

// A provider that forgets the content type of its JSON is read all the same,
// and the client gets a report.
func TestUnifiedResponsesSayThatTheyAreJSON(t *testing.T) {
	w := newWire(t)
	_, response := w.ask(t, w.gateway("http://provider.recorded.com"), "POST /v1/embeddings HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n"+
		`{"model":"m","input":"a"}`, "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n"+`{"data":[]}`)
	if !strings.Contains(response, "\r\nContent-Type: application/json\r\n") || !strings.HasSuffix(response, `{"data":[]}`) {
		t.Errorf("answer %q, want JSON that says so", response)
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	got, response := w.ask(t, g, "POST /v1/things HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Cookie, X-Gateway-Debug\r\nConnection: close\r\n\r\n"+
		"5\r\nhello\r\n0\r\nX-Sum: up\r\nCookie: a=b\r\nX-Gateway-Debug: true\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-Gateway-Forged\r\n\r\n2\r\nok\r\n0\r\nX-Sum: down\r\nX-Gateway-Forged: 1\r\n\r\n")
	if announced, _ := got.field("Trailer"); got.body != "hello" || got.trailer != "X-Sum: up\r\n" || announced != "X-Sum" {
		t.Errorf("at the provider %q, trailer %q, announced %q; want hello and X-Sum", got.body, got.trailer, announced)
	}
	if want := "2\r\nok\r\n0\r\nX-Sum: down\r\n\r\n"; !strings.HasSuffix(response, want) {
		t.Errorf("answer %q, want %q at its end", response, want)
	}
	if !strings.Contains(response, "\r\nTrailer: X-Sum\r\n") {
		t.Errorf("answer %q, want its trailer announced", response)
	}
}

func TestATrailerThatWasNotAnnouncedPasses(t *testing.T) {
	w := newWire(t)
	_, response := w.ask(t, w.gateway("http://provider.recorded.com"), "GET /v1/things HTTP/1.1\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Sum: head\r\n\r\n2\r\nok\r\n0\r\nX-Sum: down\r\n\r\n")
	if want := "0\r\nX-Sum: down\r\n\r\n"; !strings.HasSuffix(response, want) || strings.Count(response, ": head") != 1 {
		t.Errorf("answer %q, want %q at its end", response, want)
	}
}

// The client gets every byte that came and then a connection that ends before
// the response does.
func TestBrokenResponsesBreakAtTheSameByte(t *testing.T) {
	w := newWire(t)
	g := w.gateway("http://provider.recorded.com")
	random := rand.New(rand.NewPCG(5, 6))
	body := make([]byte, 100_000)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	for _, cut := range []int{0, 1, 4095, 4096, 16 << 10, 16<<10 + 1, random.IntN(len(body)), random.IntN(len(body)), random.IntN(len(body)), len(body) - 1} {
		part := string(body[:cut])
		for _, tt := range []struct{ name, response string }{
			{"announced length", "Content-Length: 100000\r\n\r\n" + part},
			{"within a chunk", "Transfer-Encoding: chunked\r\n\r\n186a0\r\n" + part},
			{"between chunks", "Transfer-Encoding: chunked\r\n\r\n" + chunks(part)},
		} {
			if t.Failed() { // a response without an end takes a minute, each
				return
			}
			t.Run(tt.name+" "+strconv.Itoa(cut), func(t *testing.T) {
				_, response := w.ask(t, g, "GET /v1/things HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"+tt.response)
				res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(response)), nil)
				if err != nil {
					t.Fatalf("answer %.200q: %v", response, err)
				}
				got, err := io.ReadAll(res.Body)
				if !bytes.Equal(got, body[:cut]) || err != io.ErrUnexpectedEOF {
					t.Errorf("got %d bytes and %v, want the first %d and a broken end", len(got), err, cut)
				}
			})
		}
	}
}

// chunks writes text in chunks, without an end.
func chunks(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := min(len(text), 7000)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	return b.String()
}
