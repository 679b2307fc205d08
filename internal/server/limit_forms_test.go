package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// newPricedGateway has the managed provider priced, with prices for images of the model
// painter and for seconds of the model listener. It responds with one image, or with a
// recording of 90 seconds.
func newPricedGateway(t *testing.T) *limitedGateway {
	t.Helper()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{
		MasterKey: "the master key of a test of limits", Settings: `
prices:
  - {provider: openai, model: painter, images: {default: 0.04, hd: 4, 256x256: 0.02, hd/512x512: 3}}
  - {provider: openai, model: listener, second: 0.001}
log: {level: info}
`,
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.URL.Path, "/audio/") {
				io.WriteString(w, `{"text":"hello","usage":{"type":"duration","seconds":90}}`)
				return
			}
			io.WriteString(w, `{"created":1,"data":[{"b64_json":"aGVsbG8="}]}`)
		}),
	})
	l.provider("priced", `"rate_limits":[]`)
	return l
}

// formField is a field of a form with the boundary x.
func formField(name, value string) string {
	return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
}

// sendForm sends the parts of a form, which it ends, to the provider priced.
func (l *limitedGateway) sendForm(path, key, form string) gatewaytest.Response {
	return l.Post(path, form+"--x--\r\n", "x-gateway-api-key", key, "x-gateway-provider", "@priced", "Content-Type", "multipart/form-data; boundary=x")
}

// costsForm fails unless the form costs want, in dollars.
func (l *limitedGateway) costsForm(name, path, form string, want float64) {
	l.t.Helper()
	key := l.key(allLimits)
	res := l.sendForm(path, key, form)
	var got counted
	waittest.Until(l.t, "the request has ended: "+name, func() bool { got = l.limits(key)["cost"]; return got.Reserved == 0 })
	if res.Status != 200 || got.Used != want {
		l.t.Errorf("%s: %d %.200s, %g dollars, want %g", name, res.Status, res.Body, got.Used, want)
	}
}

// TestImagesOfFormsCountTheirPrice sends forms whose quality decides the price of an image,
// wherever the form names it. If parsers may disagree about it, the highest price counts.
func TestImagesOfFormsCountTheirPrice(t *testing.T) {
	t.Parallel()
	l := newPricedGateway(t)
	file := "--x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" + strings.Repeat("a", 20_000) + "\r\n"
	model := formField("model", "painter")
	for _, tt := range []struct {
		name, body string
		want       float64 // dollars
	}{
		{"neither", model + file, 0.04},
		{"another quality", model + formField("quality", "low") + file, 0.04},
		{"quality first", model + formField("quality", "hd") + file, 4},
		{"quality last", model + file + formField("quality", "hd"), 4},
		{"size", model + formField("size", "256x256") + file, 0.02},
		{"quality and size", model + formField("quality", "hd") + formField("size", "512x512") + file, 3},
		{"quality twice", model + formField("quality", "low") + file + formField("quality", "hd"), 4},
		{"lower quality last", model + formField("quality", "hd") + file + formField("quality", "low"), 4},
		{"quality twice alike", model + formField("quality", "low") + formField("quality", "low") + file, 0.04},
		{"other spelling", model + formField("Quality", "hd") + file, 4},
		{"model last", file + formField("quality", "hd") + model, 4},
	} {
		l.costsForm(tt.name, "/images/edits", tt.body, tt.want)
	}
	for limit, status := range map[int]int{39: 412, 41: 200} { // a form may ask for ten images of four dollars
		key := l.key(fmt.Sprintf(`"usage_limits":{"type":"cost","credit_limit":%d,"on_budget_end":"stop"}`, limit))
		if res := l.sendForm("/images/edits", key, model+file); res.Status != status {
			t.Errorf("a budget of %d dollars: %d %.200s, want %d", limit, res.Status, res.Body, status)
		}
	}
}

// TestFormsOfEveryOperationCountTheirPrice sends each form that has a price.
func TestFormsOfEveryOperationCountTheirPrice(t *testing.T) {
	t.Parallel()
	l := newPricedGateway(t)
	for _, tt := range []struct {
		path, model string
		want        float64 // dollars
	}{
		{"/images/edits", "painter", 0.04},
		{"/images/variations", "painter", 0.04},
		{"/audio/transcriptions", "listener", 0.09},
		{"/audio/translations", "listener", 0.09},
	} {
		file := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\naaa\r\n"
		l.costsForm(tt.path, tt.path, formField("model", tt.model)+file, tt.want)
	}
}

// readingGuardrail is a member of a config whose guardrail reads the body before a target
// is chosen.
const readingGuardrail = `,"input_guardrails":[{"deny":true,"default.contains":{"words":["unsaid"],"operator":"none"}}]`

// TestFormsWithoutACertainPriceAreRefused hides the model of a recording from its price.
func TestFormsWithoutACertainPriceAreRefused(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "log: {level: info}\n")
	key := l.key(allLimits)
	const head = "--x\r\nContent-Disposition: form-data; name="
	file := head + "\"image\"; filename=\"a.png\"\r\n\r\n" + strings.Repeat("a", 20_000) + "\r\n"
	const model = head + "\"model\"\r\n\r\npainter\r\n"
	for _, tt := range []struct{ name, body string }{
		{"text before the first boundary", "hidden\r\n" + model + file + "--x--\r\n"},
		{"a boundary behind a bare line feed", file + "\n" + model + "--x--\r\n"},
		{"no last boundary", file + model[:len(model)-2]},
		{"two models", model + file + strings.Replace(model, "painter", "other", 1) + "--x--\r\n"},
		{"two models behind the file", file + model + strings.Replace(model, "painter", "other", 1) + "--x--\r\n"},
	} {
		for _, config := range []string{
			`{"provider":"@simulator"}`,
			`{"provider":"@simulator"` + readingGuardrail + `}`,
			`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator"}]` + readingGuardrail + `}`,
		} {
			res := l.Post("/audio/transcriptions", tt.body, "x-gateway-api-key", key, "x-gateway-provider", "", "x-gateway-config", config, "Content-Type", "multipart/form-data; boundary=x")
			unknown := res.Status == 403 && strings.Contains(string(res.Body), "the model of this request cannot be known")
			if read := res.Status == 400 && strings.Contains(string(res.Body), "the form cannot be read"); !unknown && !read {
				t.Errorf("%s, %s: %d %.300s", tt.name, config, res.Status, res.Body)
			}
		}
	}
}

// TestBodiesOfUnknownLengthReserveTheirBound sends uploads in chunks. A budget that is never
// exceeded has no room for the longest body.
func TestBodiesOfUnknownLengthReserveTheirBound(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "limits: {upload_body: 10MB}\nprices:\n  - {provider: openai-compatible, model: listener, second: 0.001}\nlog: {level: info}\n")
	const recording = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nlistener\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\naaa\r\n--x--\r\n"
	for _, tt := range []struct {
		path, media, body, limits string
		chunked                   bool
		status                    int
	}{
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=x", recording, `"usage_limits":{"credit_limit":13,"on_budget_end":"stop"}`, true, 412},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=x", recording, `"usage_limits":{"credit_limit":15,"on_budget_end":"stop"}`, true, 200},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=x", recording, `"usage_limits":{"credit_limit":13,"on_budget_end":"stop"}`, false, 200},
		{"/v1/any", "application/octet-stream", "abc", `"usage_limits":{"type":"tokens","credit_limit":10000,"on_budget_end":"stop"}`, true, 412},
		{"/v1/any", "application/octet-stream", "abc", `"usage_limits":{"type":"tokens","credit_limit":10000,"on_budget_end":"stop"}`, false, 200},
		{"/v1/any", "application/octet-stream", "abc", `"usage_limits":{"type":"tokens","credit_limit":10000}`, true, 200},
		{"/v1/any", "application/octet-stream", "abc", `"usage_limits":{"type":"tokens","credit_limit":20000,"on_budget_end":"stop"}`, true, 200},
	} {
		before := l.reached.Load()
		key := l.key(tt.limits)
		req := l.Request("POST", "/chat/completions", tt.body, "x-gateway-api-key", key, "x-gateway-provider", "@simulator", "Content-Type", tt.media)
		req.URL.Path = tt.path
		if tt.chunked {
			req.ContentLength = -1
		}
		if res := l.Do(req); res.Status != tt.status || (l.reached.Load() > before) != (tt.status == 200) {
			t.Errorf("%s with %s, chunked %t: %d %.300s", tt.path, tt.limits, tt.chunked, res.Status, res.Body)
		}
	}
}
