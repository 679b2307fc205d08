package replay

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

const terminator = "data: [DONE]\n\n"

// withoutTerminator leaves out what ends a stream of the protocol.
func withoutTerminator(stream []byte) []byte {
	before, _, _ := bytes.Cut(stream, []byte("data: [DONE]"))
	return before
}

var finishReason = regexp.MustCompile(`"finish_reason": ?"\w`)

// withoutFinish leaves out the first event with a finish reason and all after it.
func withoutFinish(stream []byte) []byte {
	at := finishReason.FindIndex(stream)
	if at == nil {
		return withoutTerminator(stream)
	}
	events := bytes.SplitAfter(stream[:at[0]], []byte("\n\n"))
	return bytes.Join(events[:len(events)-1], nil)
}

// Streams whose end the provider left out: the terminator alone is supplied,
// but a response without a finish reason is not made to look whole.
func TestRecordedStreamsWithoutTheirEndAreCompletedOrFail(t *testing.T) {
	tapes := mustTapes(t, "chat-completions", "completions")
	for _, tt := range []struct {
		name    string
		shorten func([]byte) []byte
		want    func(x *exchange) string
	}{
		{"without terminator", withoutTerminator, func(x *exchange) string {
			if x.books().Finish == "" {
				return "upstream_stream_incomplete"
			}
			return ""
		}},
		{"without finish reason", withoutFinish, func(*exchange) string { return "upstream_stream_incomplete" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlayer(t, tapes, cut{})
			p.shorten = tt.shorten
			g := gatewaytest.New(t, gatewaytest.Options{Reach: p.reach(), Managed: managedRows(t), Settings: quiet})
			counts := playAll(t, tapes, func(x *exchange) *gatewaytest.Response {
				if x.unifiedPath() == "" || !x.streamed() || slices.Contains(x.Tags, "stream-error") {
					return nil
				}
				res := x.ask(t, g)
				x.checkEnd(t, g, res, tt.shorten(x.body()), tt.want(x))
				return &res
			})
			report(t, counts)
			if counts["chat-completions"] < 65 {
				t.Errorf("streams played: %v, want all of the recordings", counts)
			}
		})
	}
}

func (x *exchange) ask(t *testing.T, g *gatewaytest.Gateway) gatewaytest.Response {
	body, contentType := x.sent()
	req := newRequest(t, http.MethodPost, g.URL+x.unifiedPath(), body)
	req.Header = http.Header{
		"Content-Type":              {contentType},
		"X-Gateway-Api-Key":         {gatewaytest.Key},
		"X-Gateway-Provider":        {"@" + x.Provider},
		"X-Gateway-Forward-Headers": {"x-replay"},
		"X-Replay":                  {fmt.Sprintf("%d-%d", x.tape, x.n)},
	}
	return send(t, req)
}

// checkEnd compares what follows the bytes that were played: the terminator, or
// an error with this code, which the log has too. Where nothing was played the
// complete response is an error.
func (x *exchange) checkEnd(t *testing.T, g *gatewaytest.Gateway, res gatewaytest.Response, played []byte, code string) {
	if len(played) == 0 {
		code = "upstream_unreadable"
	}
	end, ok := bytes.CutPrefix(res.Body, played)
	switch {
	case !ok || res.Err != nil:
		t.Errorf("%s: the client got other bytes, end %v: %s", x.name, res.Err, difference(played, res.Body))
	case code == "" && string(end) != terminator:
		t.Errorf("%s: the stream ends in %q, want the terminator", x.name, end)
	case code != "" && (!bytes.Contains(end, []byte(`"code":"`+code+`"`)) || bytes.Contains(end, []byte("[DONE]"))):
		t.Errorf("%s: the stream ends in %q, want the error %s", x.name, end, code)
	}
	e, _ := g.Entry(res)["error"].(map[string]any)
	if got, _ := e["code"].(string); got != code {
		t.Errorf("%s: the log has the error %q, want %q", x.name, got, code)
	}
}
