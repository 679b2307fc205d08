package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// translated asks a target whose provider answers with these bytes.
func translated(t *testing.T, client clientFormat, target, response string, stream bool) (gatewaytest.Response, map[string]any) {
	t.Helper()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(response)})
	res := client.send(t, g, "@"+target, "m", stream)
	return res, g.Entry(res)
}

func sseOf(events ...string) string { return rawHead("text/event-stream") + strings.Join(events, "") }

// providerChoice is an event of chat for one of several choices; empty members are left out.
func providerChoice(index int, text, reason string) string {
	delta, end := "{}", "null"
	if text != "" {
		delta = `{"content":"` + text + `"}`
	}
	if reason != "" {
		end = `"` + reason + `"`
	}
	return fmt.Sprintf(`data: {"id":"c","model":"served","choices":[{"index":%d,"delta":%s,"finish_reason":%s}]}`+"\n\n", index, delta, end)
}

// Clients of most protocols wait for a reason, so a response that ended without one
// gets the usual one.
func TestAResponseWithoutAFinishReasonGetsTheDefault(t *testing.T) {
	t.Parallel()
	blockEnd, _, _ := strings.Cut(messageEnd, "event: message_delta")
	for _, tt := range []struct{ name, target, plain, stream string }{
		{"messages", "messages",
			`{"id":"m","type":"message","role":"assistant","model":"served","content":[{"type":"text","text":"hello"}],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":2}}`,
			messageStart + messageDelta("hello") + strings.Replace(messageEnd, `"end_turn"`, "null", 1)},
		{"messages without the event that has the reason", "messages", "",
			messageStart + messageDelta("hello") + blockEnd + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		{"chat", "chat", `{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
			providerChoice(0, "hello", "") + done},
	} {
		for _, client := range []struct {
			clientFormat
			reason string
		}{{clientFormats[0], `"finish_reason":"stop"`}, {clientFormats[1], `"stop_reason":"end_turn"`}, {clientFormats[3], `"finishReason":"STOP"`}, {clientFormats[4], `"stopReason":"end_turn"`}} {
			if client.name == tt.target {
				continue
			}
			for _, stream := range []bool{false, true} {
				response := sseOf(tt.stream)
				if !stream {
					if tt.plain == "" {
						continue
					}
					response = rawComplete(tt.plain)
				}
				t.Run(fmt.Sprintf("%s for %s, stream %t", tt.name, client.name, stream), func(t *testing.T) {
					res, e := translated(t, client.clientFormat, tt.target, response, stream)
					h := client.readResponse(t, res)
					if want := map[bool]string{true: "done", false: "complete"}[stream]; h.end != want || h.text != "hello" {
						t.Fatalf("end %s, text %q; want %s, hello: %s", h.end, h.text, want, res.Body)
					}
					if n := strings.Count(strings.ReplaceAll(string(res.Body), ": ", ":"), client.reason); n != 1 {
						t.Errorf("the client has %s %d times, want once: %s", client.reason, n, res.Body)
					}
					recorded(t, e, map[string]any{"status": 200, "error.code": nil})
				})
			}
		}
	}
}

// A stream of several choices is complete once each has its reason.
func TestAStreamOfSeveralChoicesEndsWithTheLastOfThem(t *testing.T) {
	t.Parallel()
	gemini := clientFormats[3]
	for _, tt := range []struct {
		name, stream string
		reasons      int
	}{
		{"each with its reason", providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(0, "", "stop") + providerChoice(1, "", "length") + done, 2},
		{"each with its reason, without a terminator", providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(1, "", "length") + providerChoice(0, "", "stop"), 2},
		{"one after the other, without a terminator", providerChoice(0, "a", "") + providerChoice(0, "", "stop") + providerChoice(1, "b", "") + providerChoice(1, "", "length"), 2},
		{"the second without a reason", providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(0, "", "stop") + done, 2},
		{"the first without a reason", providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(1, "", "stop") + done, 2},
		{"with a reason told twice", providerChoice(0, "a", "") + providerChoice(0, "", "stop") + providerChoice(0, "", "stop"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, e := translated(t, gemini, "chat", sseOf(tt.stream), true)
			h := gemini.readResponse(t, res)
			n := strings.Count(strings.ReplaceAll(string(res.Body), ": ", ":"), `"finishReason":"`)
			if h.end != "done" || e["error"] != nil || n != tt.reasons {
				t.Errorf("end %s, error %v, %d reasons; want done, none, %d: %s", h.end, e["error"], n, tt.reasons, res.Body)
			}
		})
	}
}

func TestAStreamThatLacksAReasonAndItsTerminatorIsIncomplete(t *testing.T) {
	t.Parallel()
	gemini := clientFormats[3]
	for name, stream := range map[string]string{
		"of the only choice":   providerChoice(0, "a", ""),
		"of the first choice":  providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(1, "", "stop"),
		"of the second choice": providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(0, "", "stop"),
	} {
		t.Run(name, func(t *testing.T) {
			res, e := translated(t, gemini, "chat", sseOf(stream), true)
			if h := gemini.readResponse(t, res); h.end != "error" {
				t.Errorf("end %s, want an error: %s", h.end, res.Body)
			}
			recorded(t, e, map[string]any{"error.code": "upstream_stream_incomplete", "error.source": "provider"})
		})
	}
}

// A provider's error has a reason even if its message is empty.
func TestAProvidersErrorWithoutAMessageIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, fault, message string
		status               int // for a client that wants no stream
	}{
		{"a message", `{"message":"too much","type":"overloaded_error"}`, "too much", 529},
		{"a type alone", `{"message":"","type":"overloaded_error"}`, "overloaded_error", 529},
		{"nothing", `{"message":"","type":""}`, "without a message", 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := messageStart + messageDelta("hello") + "event: error\ndata: {\"type\":\"error\",\"error\":" + tt.fault + "}\n\n" + messageDelta("hello")
			res, e := translated(t, clientFormats[0], "messages", sseOf(stream), true)
			if h := clientFormats[0].readResponse(t, res); h.end != "error" || h.text != "hello" {
				t.Errorf("end %s, text %q; want an error after one hello: %s", h.end, h.text, res.Body)
			}
			recorded(t, e, map[string]any{"error.source": "provider", "error.code": "provider_error"})
			if message := fmt.Sprint(e["error"].(map[string]any)["message"]); !strings.Contains(message, tt.message) {
				t.Errorf("recorded message %q, want %q in it", message, tt.message)
			}
			res, _ = translated(t, clientFormats[0], "messages", sseOf(stream), false)
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.message) {
				t.Errorf("for a client that wants no stream: status %d, want %d with %q: %s", res.Status, tt.status, tt.message, res.Body)
			}
		})
	}
}

// The reason that is recorded is that of the first choice.
func TestTheFirstChoicesReasonIsRecorded(t *testing.T) {
	t.Parallel()
	stream := providerChoice(0, "a", "") + providerChoice(1, "b", "") + providerChoice(0, "", "stop") + providerChoice(1, "", "length") + done
	_, e := translated(t, clientFormats[3], "chat", sseOf(stream), true)
	if e["finish_reason"] != "stop" {
		t.Errorf("recorded finish_reason %v, want stop (entry %v)", e["finish_reason"], e)
	}
	plain := `{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"}]}`
	_, e = translated(t, clientFormats[3], "chat", rawComplete(plain), false)
	if e["finish_reason"] != "stop" {
		t.Errorf("recorded finish_reason of a complete response %v, want stop (entry %v)", e["finish_reason"], e)
	}
}

// A stream for a client that wants a complete response is collected, unless a part of it
// cannot be read or is missing.
func TestACollectedStreamMustBeReadableAndComplete(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stream string
		status       int
		words        string
	}{
		{"complete", messageStart + messageDelta("hello") + messageEnd, 200, "hello"},
		{"with a comment", messageStart + ": waiting\n\n" + messageDelta("hello") + messageEnd, 200, "hello"},
		{"with a part of a frame", messageStart + messageDelta("hello") + "data: {\"type\":\"content_block_delta\",\"ind\n\n" + messageEnd, 502, "upstream_unreadable"},
		{"without its end", messageStart + messageDelta("hello"), 502, "finish reason"},
		{"without anything", "", 502, "upstream_unreadable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, client := range []clientFormat{clientFormats[0], clientFormats[3]} {
				res, e := translated(t, client, "messages", sseOf(tt.stream), false)
				code, _ := e["error"].(map[string]any)
				if res.Status != tt.status || !strings.Contains(string(res.Body)+fmt.Sprint(code["code"]), tt.words) {
					t.Errorf("%s: status %d, want %d with %q: %s", client.name, res.Status, tt.status, tt.words, res.Body)
				}
			}
		})
	}
}
