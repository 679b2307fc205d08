package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
	"modelgate/internal/waittest"
)

// TestImagesOfFormsCountTheirPrice sends forms whose quality decides the price of an image,
// wherever the form names it. If parsers may disagree about it, the highest price counts.
func TestImagesOfFormsCountTheirPrice(t *testing.T) {
	t.Parallel()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{
		MasterKey: "the master key of a test of limits", Settings: "prices:\n  - {provider: openai, model: painter, images: {default: 0.04, hd: 4, 256x256: 0.02, hd/512x512: 3}}\nlog: {level: info}\n",
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"created":1,"data":[{"b64_json":"aGVsbG8="}]}`)
		}),
	})
	l.provider("painters", `"rate_limits":[]`)
	field := func(name, value string) string {
		return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
	}
	file := "--x\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n\r\n" + strings.Repeat("a", 20_000) + "\r\n"
	model := field("model", "painter")
	for _, tt := range []struct {
		name, body string
		want       float64 // dollars
	}{
		{"neither", model + file, 0.04},
		{"another quality", model + field("quality", "low") + file, 0.04},
		{"quality first", model + field("quality", "hd") + file, 4},
		{"quality last", model + file + field("quality", "hd"), 4},
		{"size", model + field("size", "256x256") + file, 0.02},
		{"quality and size", model + field("quality", "hd") + field("size", "512x512") + file, 3},
		{"quality twice", model + field("quality", "low") + file + field("quality", "hd"), 4},
		{"lower quality last", model + field("quality", "hd") + file + field("quality", "low"), 4},
		{"quality twice alike", model + field("quality", "low") + field("quality", "low") + file, 0.04},
		{"other spelling", model + field("Quality", "hd") + file, 4},
		{"model last", file + field("quality", "hd") + model, 4},
	} {
		key := l.key(allLimits)
		res := l.Post("/images/edits", tt.body+"--x--\r\n", "x-gateway-api-key", key, "x-gateway-provider", "@painters", "Content-Type", "multipart/form-data; boundary=x")
		var got counted
		waittest.Until(t, "the request has ended: "+tt.name, func() bool { got = l.limits(key)["cost"]; return got.Reserved == 0 })
		if res.Status != 200 || got.Used != tt.want {
			t.Errorf("%s: %d %.200s, %g dollars, want %g", tt.name, res.Status, res.Body, got.Used, tt.want)
		}
	}
	for limit, status := range map[int]int{39: 412, 41: 200} { // a form may ask for ten images of four dollars
		key := l.key(fmt.Sprintf(`"usage_limits":{"type":"cost","credit_limit":%d,"on_budget_end":"stop"}`, limit))
		res := l.Post("/images/edits", model+file+"--x--\r\n", "x-gateway-api-key", key, "x-gateway-provider", "@painters", "Content-Type", "multipart/form-data; boundary=x")
		if res.Status != status {
			t.Errorf("a budget of %d dollars: %d %.200s, want %d", limit, res.Status, res.Body, status)
		}
	}
}

// TestFormsOfEveryOperationCountTheirPrice sends the other forms that have a price.
func TestFormsOfEveryOperationCountTheirPrice(t *testing.T) {
	t.Parallel()
	l := &limitedGateway{t: t}
	l.Gateway = gatewaytest.New(t, gatewaytest.Options{
		MasterKey: "the master key of a test of limits", Settings: "prices:\n  - {provider: openai, model: painter, images: {default: 0.04}}\n  - {provider: openai, model: listener, second: 0.001}\nlog: {level: info}\n",
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.URL.Path, "/images/") {
				io.WriteString(w, `{"created":1,"data":[{"b64_json":"aGVsbG8="},{"b64_json":"aGVsbG8="}]}`)
				return
			}
			io.WriteString(w, `{"text":"hello","usage":{"type":"duration","seconds":90}}`)
		}),
	})
	l.provider("units", `"rate_limits":[]`)
	for _, tt := range []struct {
		path, model string
		want        float64 // dollars
	}{
		{"/images/edits", "painter", 0.08},
		{"/images/variations", "painter", 0.08},
		{"/audio/transcriptions", "listener", 0.09},
		{"/audio/translations", "listener", 0.09},
	} {
		key := l.key(allLimits)
		form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + tt.model + "\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\naaa\r\n--x--\r\n"
		res := l.Post(tt.path, form, "x-gateway-api-key", key, "x-gateway-provider", "@units", "Content-Type", "multipart/form-data; boundary=x")
		var got counted
		waittest.Until(t, "the request has ended: "+tt.path, func() bool { got = l.limits(key)["cost"]; return got.Reserved == 0 })
		if res.Status != 200 || got.Used != tt.want {
			t.Errorf("%s: %d %.200s, %g dollars, want %g", tt.path, res.Status, res.Body, got.Used, tt.want)
		}
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
