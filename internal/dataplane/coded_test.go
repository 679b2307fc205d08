package dataplane_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// codings compress bodies, by the name of the coding.
var codings = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		e, err := zstd.NewWriter(w)
		if err != nil {
			panic(err)
		}
		return e
	},
}

func coded(coding, body string) string {
	var b bytes.Buffer
	w := codings[coding](&b)
	io.WriteString(w, body)
	w.Close()
	return b.String()
}

// codedProvider notes the last request.
type codedProvider struct {
	mu           sync.Mutex
	body, coding string // guarded by mu
}

func (p *codedProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body, p.coding = string(body), r.Header.Get("Content-Encoding")
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, chatBody)
}

// last returns the last request, and forgets it.
func (p *codedProvider) last() (body, coding string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, coding = p.body, p.coding
	p.body, p.coding = "", ""
	return body, coding
}

func TestCompressedBodiesAreReadOnModelRoutes(t *testing.T) {
	t.Parallel()
	p := new(codedProvider)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: "limits: {json_body: 2 MB}\n"})
	long := strings.Replace(plainChat, `"hi"`, `"hi `+strings.Repeat("Grüße ", 20_000)+`"`, 1)
	for coding := range codings {
		for _, body := range []string{plainChat, long} {
			res := g.Post("/chat/completions", coded(coding, body), "content-encoding", coding)
			if sent, as := p.last(); res.Status != 200 || sent != body || as != "" {
				t.Errorf("%s: status %d: %s; the provider got %d bytes as %q, want the %d of the body", coding, res.Status, res.Body, len(sent), as, len(body))
			}
		}
		denied := g.Post("/chat/completions", coded(coding, long), "content-encoding", coding, "x-gateway-provider", "",
			"x-gateway-config", guarded(`"input_guardrails":[{"deny":true,"default.contains":{"words":["Grüße"],"operator":"none"}}]`))
		if sent, _ := p.last(); denied.Status != 446 || sent != "" {
			t.Errorf("%s: status %d with a guardrail that denies, the provider got %d bytes", coding, denied.Status, len(sent))
		}
	}
	zip := coded("gzip", long)
	for _, tt := range []struct {
		name, coding, body string
		status             int
		want               string
	}{
		{"half a body", "gzip", zip[:len(zip)/2], 400, "Content-Encoding"},
		{"another coding", "zstd", zip, 400, "Content-Encoding"},
		{"none", "br", plainChat, 400, "Content-Encoding"},
		{"an unknown coding", "lzma", plainChat, 400, "gzip, deflate, br or zstd"},
		{"three codings", "gzip, gzip, gzip", coded("gzip", coded("gzip", coded("gzip", plainChat))), 400, "gzip, deflate, br or zstd"},
		{"a bomb", "gzip", coded("gzip", `{"a":"`+strings.Repeat("a", 1<<21-10)+`"}`), 413, "hundred times"},
		{"more than the limit", "gzip", coded("gzip", `{"a":"`+strings.Repeat("a0b1c2d3 ", 1<<18)+`"}`), 413, "limit of"},
		{"no coding is named", "", zip, 400, "not a JSON object"},
	} {
		res := g.Post("/chat/completions", tt.body, "content-encoding", tt.coding)
		if sent, _ := p.last(); res.Status != tt.status || !strings.Contains(string(res.Body), tt.want) || sent != "" {
			t.Errorf("%s: status %d: %s; want %d with %q and no request", tt.name, res.Status, res.Body, tt.status, tt.want)
		}
	}
	if res := g.Post("/chat/completions", coded("gzip", coded("zstd", plainChat)), "content-encoding", "zstd, gzip"); res.Status != 200 {
		t.Errorf("two codings: status %d: %s", res.Status, res.Body)
	}
}

// A body that passes through arrives as it was sent; its models are read where a list of
// models needs them.
func TestModelsOfCompressedBodiesThatPassThroughAreRead(t *testing.T) {
	t.Parallel()
	p := new(codedProvider)
	up := httptest.NewServer(p)
	defer up.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{{
		Slug: "listed", Provider: "openai-compatible", Rules: &snapshot.ModelRules{Models: provider.NewModelList(false, []string{"good"}, nil)},
		Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: up.URL + "/v1"},
	}}})
	for coding := range codings {
		for _, tt := range []struct {
			body   string
			status int
		}{{`{"model":"good","a":1}`, 200}, {`{"model":"bad","a":1}`, 403}, {`{"model":"good","models":["bad"]}`, 403}, {`{"model":`, 403}} {
			raw := coded(coding, tt.body)
			res := g.Post("/some/path", raw, "content-encoding", coding, "x-gateway-provider", "@listed")
			sent, as := p.last()
			if res.Status != tt.status || tt.status == 200 && (sent != raw || as != coding) || tt.status != 200 && sent != "" {
				t.Errorf("%s %s: status %d: %s; the provider got %q as %q; want %d and the body as it is", coding, tt.body, res.Status, res.Body, sent, as, tt.status)
			}
		}
		denied := g.Post("/some/path", coded(coding, `{"model":"good","a":"Bluebird"}`), "content-encoding", coding, "x-gateway-provider", "",
			"x-gateway-config", `{"provider":"@listed","input_guardrails":[{"deny":true,"default.contains":{"words":["Bluebird"],"operator":"none"}}]}`)
		if sent, _ := p.last(); denied.Status != 446 || sent != "" {
			t.Errorf("%s: status %d with a guardrail that denies: %s", coding, denied.Status, denied.Body)
		}
	}
}
