package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
	"modelgate/internal/testing/waittest"
)

const endpointSettings = `
  - {slug: endpoint, provider: sagemaker, custom_host: SIMULATOR, options: {access_key_id: AKIAIOSFODNN7EXAMPLE, secret_access_key: "${PAIR_KEY}"}}
`

// A container behind an endpoint is reached by clients of every protocol.
func TestEndpointsOfSageMakerAnswerEveryProtocol(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings + endpointSettings, Simulator: recorder.Options{Record: 50, Check: func(*http.Request, []byte) error { return nil }}})
	for _, client := range clientFormats {
		for _, stream := range []bool{false, true} {
			for form, end := range map[string]string{"tokens=20": map[bool]string{true: "done", false: "complete"}[stream], "tokens=40+cut=6": map[bool]string{true: "error", false: "error body"}[stream], "status=429": "error body"} {
				g.Sim.Reset()
				res := client.send(t, g, "@endpoint", "my-endpoint+"+form, stream)
				h := client.readResponse(t, res)
				if h.end != end || end == "done" && !strings.HasPrefix(h.text, "echo: hello") {
					t.Errorf("%s, stream %t, %s: status %d, end %s, want %s: %.300q", client.name, stream, form, res.Status, h.end, end, res.Body)
					continue
				}
				if form != "tokens=20" {
					continue
				}
				path := "/endpoints/my-endpoint+" + form + "/invocations" + map[bool]string{true: "-response-stream"}[stream]
				waittest.Until(t, "a signed request without a model was sent to "+path, func() bool {
					return slices.ContainsFunc(g.Sim.Requests(), func(r recorder.Request) bool {
						return strings.HasSuffix(strings.ReplaceAll(r.URI, "%2B", "+"), path) && !strings.Contains(string(r.Body), `"model"`) &&
							strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/")
					})
				})
			}
		}
	}
}

func TestEndpointContainersAreReported(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + endpointSettings})
	part := func(kind, typ, payload string) string {
		return string(eventstream.Append(nil, []eventstream.Header{{Name: ":" + kind + "-type", Text: typ}, {Name: ":message-type", Text: kind}}, []byte(payload)))
	}
	t.Run("its status", func(t *testing.T) {
		for body, want := range map[string]int{`{"Message":"m","OriginalStatusCode":503,"OriginalMessage":"o"}`: 503, `{"OriginalStatusCode":200,"Message":"m"}`: 424, `x`: 424} {
			heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-provider", "@endpoint", "e", false))
			c := u.next()
			c.w.WriteHeader(424)
			c.send(body)
			c.finish()
			if res := receive(t, heads, "the head"); res.StatusCode != want {
				t.Errorf("%s: status %d, want %d", body, res.StatusCode, want)
			}
		}
	})
	t.Run("its exception", func(t *testing.T) {
		heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-provider", "@endpoint", "e", true))
		c := u.next()
		c.w.Header().Set("Content-Type", eventstream.ContentType)
		frame := chunk("hello")
		c.send(part("event", "PayloadPart", frame[:20]))
		c.send(part("event", "PayloadPart", frame[20:]))
		c.send(part("exception", "ModelStreamError", `{"Message":"it broke","ErrorCode":"x"}`))
		c.finish()
		res := receive(t, heads, "the head")
		body, err := io.ReadAll(res.Body)
		h := clientFormats[0].readResponse(t, gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body})
		if err != nil || h.end != "error" || h.text != "hello" || !strings.Contains(h.message, "it broke") {
			t.Errorf("the client read %+v, %v: %s", h, err, fmt.Sprintf("%q", body))
		}
	})
}
