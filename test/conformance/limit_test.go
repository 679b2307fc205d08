package conformance

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestNothingIsSentUnasked(t *testing.T) {
	g, _ := start(t)
	prove(t, "S-471", "there is no route for webhooks", func(t *testing.T) {
		for _, path := range []string{"/webhooks", "/webhook", "/events", "/hooks"} {
			if got := g.do(t, "POST", path, `{}`, "x-gateway-api-key", bootstrapKey); got.status != http.StatusNotFound {
				t.Errorf("POST %s = %d, want 404", path, got.status)
			}
		}
	})
	prove(t, "S-471 S-516", "two hundred requests make two hundred calls and meet no quota", func(t *testing.T) {
		p := newProvider(t, nil)
		for i := range 200 {
			r := modelRoutes[i%len(modelRoutes)]
			if got := g.do(t, "POST", r.path, r.body, to(p)...); got.status != http.StatusOK {
				t.Fatalf("request %d: status %d, want 200", i, got.status)
			}
		}
		g.entry(t, g.do(t, "POST", modelRoutes[0].path, modelRoutes[0].body, to(p)...))
		if n := len(p.requests()); n != 201 {
			t.Errorf("the provider was called %d times, want 201", n)
		}
	})
}

func TestBodiesHaveALimit(t *testing.T) {
	g := launchFor(t, "version: 1\nlimits: {json_body: 4 KB, upload_body: 16 KB}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	p := newProvider(t, nil)
	chat := func(size int) string {
		const frame = `{"model":"m","messages":[{"role":"user","content":""}]}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	for _, tt := range []struct {
		name, path, contentType string
		body                    string
		fits                    bool
	}{
		{"JSON of 4096 bytes", "/v1/chat/completions", "application/json", chat(4096), true},
		{"JSON of 4097 bytes", "/v1/chat/completions", "application/json", chat(4097), false},
		{"an upload of 16384 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16384), true},
		{"an upload of 16385 bytes", "/v1/files", "application/octet-stream", strings.Repeat("x", 16385), false},
	} {
		for _, how := range []string{"announced", "in chunks"} {
			prove(t, "S-517", tt.name+" "+how, func(t *testing.T) {
				p.forget()
				req := g.request(t, "POST", tt.path, strings.NewReader(tt.body), to(p, "Content-Type", tt.contentType)...)
				if how == "in chunks" {
					req.ContentLength, req.Body = -1, io.NopCloser(strings.NewReader(tt.body))
				}
				got := send(t, req)
				if tt.fits {
					got.fine(t)
					if n := len(p.only(t).body); n != len(tt.body) {
						t.Errorf("the provider got %d bytes, want %d", n, len(tt.body))
					}
					return
				}
				got.refused(t, http.StatusRequestEntityTooLarge)
				p.none(t)
			})
		}
	}
	prove(t, "S-517", "one that lies about its length reaches nobody", func(t *testing.T) {
		p.forget()
		req := g.request(t, "POST", "/v1/chat/completions", strings.NewReader(chat(200)), to(p, "Content-Type", "application/json")...)
		req.ContentLength = 300
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
			if res.StatusCode < 400 {
				t.Errorf("status %d, want a refusal", res.StatusCode)
			}
		}
		p.none(t)
	})
}
