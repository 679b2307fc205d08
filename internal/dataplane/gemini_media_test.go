package dataplane_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Google's Python client encodes media in the URL-safe alphabet without padding,
// which no other provider reads.
func TestMediaOfGeminiClientsReachTargetsInTheStandardAlphabet(t *testing.T) {
	t.Parallel()
	picture := append([]byte("\x89PNG\r\n\x1a\n"), "\x00\xfb\xef\xbe\xff\xff\xff\xfb"...) // has - and _, and a length that needs padding
	sent, want := base64.RawURLEncoding.EncodeToString(picture), base64.StdEncoding.EncodeToString(picture)
	if !strings.Contains(sent, "-") || !strings.Contains(sent, "_") || !strings.HasSuffix(want, "=") {
		t.Fatalf("%s and %s do not differ in everything", sent, want)
	}
	var got string
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		http.Error(w, "{}", http.StatusBadRequest)
	})})
	media := func(data string) string {
		return `{"inlineData":{"mimeType":"image/png","data":"` + data + `"}}`
	}
	for _, target := range []string{"chat", "messages", "converse", "cohere", "gemini"} {
		for name, contents := range map[string]string{
			"in a message": `{"role":"user","parts":[{"text":"a"},MEDIA]}`,
			"in a result": `{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"},"parts":[MEDIA]}}]}`,
		} {
			if name == "in a result" && target == "cohere" {
				continue // refused: it reads no images in results
			}
			got = ""
			path, _ := clientFormats[3].request("command-a-vision", false)
			req := mustPost(t, g, path, `{"contents":[`+strings.ReplaceAll(contents, "MEDIA", media(sent))+`]}`)
			req.Header.Set("x-gateway-provider", "@"+target)
			res := g.Do(req)
			expected := want
			if target == "gemini" { // passes as it is
				expected = sent
			}
			if !strings.Contains(got, expected) {
				t.Errorf("%s, %s: the target got %s, want %s in it (%s)", target, name, got, expected, res.Body)
			}
		}
	}
}
