package dataplane_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// TestBase64InLinesIsSentInOne sends images whose base64 has a line break after every 76
// characters, as encodebytes of Python and base64 of coreutils write it, or the URL-safe
// alphabet without padding. Providers refuse both.
func TestBase64InLinesIsSentInOne(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	image := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 150)...)
	image = append(image, 0xfb, 0xff, 0xfe)
	plain := base64.StdEncoding.EncodeToString(image)
	lines := strings.Join([]string{plain[:76], plain[76:152], plain[152:]}, "\r\n") + "\r\n"
	clients := map[string]string{
		"/chat/completions":             `{"model":"MODEL","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA"}}]}]}`,
		"/messages":                     `{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"DATA"}}]}]}`,
		"/responses":                    `{"model":"MODEL","input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,DATA"}]}]}`,
		"/models/MODEL:generateContent": `{"contents":[{"role":"user","parts":[{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"DATA"}}]}]}`,
		"/model/MODEL/converse":         `{"messages":[{"role":"user","content":[{"text":"x"},{"image":{"format":"png","source":{"bytes":"DATA"}}}]}]}`,
	}
	own := map[string]string{"@chat": "/chat/ /responses", "@messages": "/messages", "@gemini": "/models/", "@converse": "/model/"}
	for path, body := range clients {
		for slug := range own {
			if first, _, _ := strings.Cut(path[1:], "/"); strings.Contains(own[slug]+"/", "/"+first+"/") {
				continue // a provider of the format gets the bytes as they are
			}
			for form, data := range map[string]string{"lines": lines, "URL-safe": strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(plain), "=")} {
				g.Sim.Reset()
				quoted, _ := json.Marshal(data)
				model := map[string]string{"@chat": "gpt-4.1", "@messages": "claude-sonnet-4-5", "@gemini": "gemini-2.5-flash", "@converse": "amazon.nova-pro-v1:0"}[slug]
				replaced := strings.NewReplacer("MODEL", model, "DATA", strings.Trim(string(quoted), `"`))
				req := g.Request(http.MethodPost, "/x", replaced.Replace(body), "x-gateway-provider", slug)
				if req.URL.Opaque = replaced.Replace("/v1" + path); strings.HasPrefix(path, "/model/") {
					req.URL.Opaque = replaced.Replace(path)
				}
				res := g.Do(req)
				if res.Status != 200 {
					t.Errorf("%s to %s, %s: status %d: %s", path, slug, form, res.Status, res.Body)
					continue
				}
				g.Entry(res)
				if sent := string(g.Sim.Requests()[0].Body); !strings.Contains(sent, plain+`"`) {
					t.Errorf("%s to %s, %s: sent %s", path, slug, form, sent)
				}
			}
		}
	}
}
