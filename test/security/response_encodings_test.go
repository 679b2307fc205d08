package security

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// guardedOutput starts a gateway whose organisation denies responses with the forbidden word,
// or replaces it, and returns a key that may send requests.
func guardedOutput(t *testing.T, check string) (g *gateway, key string) {
	t.Helper()
	g = launch(t, options{})
	slug := g.create(t, rootKey, "/v1/guardrails", `{"name":"no projects","organisation_id":"default","checks":[`+check+`],"actions":{"deny":true}}`, "slug")
	g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"output_guardrails":[%q]}`, slug)).ok(t)
	key = g.key(t, rootKey, "default", []string{"completions.write"}, "")
	p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, strings.Replace(chatResponse, `"hi"`, `"`+forbidden+`"`, 1))
	})
	waittest.Until(t, "the guardrail applies", func() bool {
		return !strings.Contains(string(g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...).body), forbidden)
	})
	return g, key
}

// packed returns the first bytes of a text in gzip, or all of it if there are fewer.
func packed(text string, first int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, text)
	z.Close()
	return string(b.Bytes()[:min(first, b.Len())])
}

// outputChecks deny or replace the forbidden word.
var outputChecks = map[string]string{
	"denied":   `{"id":"default.contains","parameters":{"words":["` + forbidden + `"],"operator":"none"}}`,
	"replaced": `{"id":"default.regexReplace","parameters":{"rule":"\\b` + forbidden + `\\b","redactText":"[gone]"}}`,
}

// However a provider writes its response, text in it is read or nothing of it passes.
func TestNoEncodingOfAResponsePassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	const object = `{"a":"` + forbidden + `"}`
	event := func(fields string) string { return "data: " + strings.ReplaceAll(fields, "\n", "\ndata: ") + "\n\n" }
	arguments := `{"q":"Blue\u0062ird"}`
	inString := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arguments) + `"`
	for what, check := range outputChecks {
		g, key := guardedOutput(t, check)
		for _, c := range []struct{ name, kind, coding, body, secret string }{
			{"lines of JSON", "application/x-ndjson", "", "{\"a\":1}\n" + object + "\n", ""},
			{"lines of JSON of another type", "application/jsonl", "", "{\"a\":1}\n" + object + "\n", ""},
			{"lines of JSON in capitals", "Application/X-NDJSON; Charset=utf-8", "", object + "\n", ""},
			{"a word in two lines of JSON", "application/x-ndjson", "", "{\"m\":{\"content\":\"Blue\"}}\n{\"m\":{\"content\":\"bird\"}}\n", `"bird"`},
			{"lines of escaped JSON", "application/x-ndjson", "", "{\"a\":\"Blue\\u0062ird\"}\n", "u0062"},
			{"an array in a line", "application/x-ndjson", "", "[\"" + forbidden + "\"]\n", ""},
			{"text in a line", "application/x-ndjson", "", "{\"a\":1}\nabout " + forbidden + "\n", ""},
			{"a line without its end", "application/x-ndjson", "", object, ""},
			{"an unfinished line", "application/x-ndjson", "", "{\"a\":\"" + forbidden, ""},
			{"lines of JSON, packed", "application/x-ndjson", "gzip", packed("{\"a\":1}\n"+object+"\n", 1<<20), ""},
			{"stream+json", "application/stream+json", "", object + "\n{\"a\":\" " + forbidden + "\"}\n", ""},
			{"stream+json with one value", "application/stream+json", "", object, ""},
			{"json-seq", "application/json-seq", "", "\x1e{\"a\":1}\n\x1e" + object + "\n", ""},
			{"json-seq of a vendor", "application/geo+json-seq", "", "\x1e" + object + "\n", ""},
			{"values without space", "application/json", "", `{"a":1}` + object, ""},
			{"lines of the type of JSON", "application/json", "", "{\"a\":1}\n" + object + "\n", ""},
			{"lines of a type of a vendor", "application/vnd.x+json", "", "{\"a\":1}\n" + object + "\n", ""},
			{"JSON with a byte order mark", "application/json", "", "\xef\xbb\xbf" + object, ""},
			{"JSON in UTF-16", "application/json", "", inUTF16(object, binary.LittleEndian), "B\x00l\x00"},
			{"JSON in UTF-16 that its type names", "application/json; charset=utf-16", "", withoutMark(object), "B\x00l\x00"},
			{"JSON in UTF-7 that its type names", "application/json; charset=utf-7", "", `{"a":"` + utf7 + `"}`, utf7},
			{"text in UTF-7 that its type names", "text/plain; charset=utf-7", "", utf7, utf7},
			{"text in UTF-16", "text/plain; charset=utf-16le", "", withoutMark(forbidden), "B\x00l\x00"},
			{"events in UTF-7 that their type names", "text/event-stream; charset=utf-7", "", event(`{"a":"` + utf7 + `"}`), utf7},
			{"JSON that is invalid", "application/json", "", object[:len(object)-1], ""},
			{"JSON with comments", "application/json", "", "/**/" + object, ""},
			{"JSON with another coding", "application/json", "zz", object, ""},
			{"events with another coding", "text/event-stream", "zz", event(object), ""},
			{"text with another coding", "text/plain", "zz", forbidden, ""},
			{"lines with another coding", "application/x-ndjson", "zz", object, ""},
			{"no type", "", "", object, ""},
			{"text without a type", "", "", "about " + forbidden, ""},
			{"events without a type", "", "", event(`{"a":"Blue"}`) + event(`{"a":"bird"}`), `"bird"`},
			{"JSON of the type of bytes", "application/octet-stream", "", object, ""},
			{"text of the type of bytes", "application/octet-stream", "", "about " + forbidden, ""},
			{"text of an unknown type", "application/x-unknown", "", "about " + forbidden, ""},
			{"YAML", "application/yaml", "", "a: \"Blue\\x62ird\"\n", "x62"},
			{"JavaScript", "application/javascript", "", "f(" + object + ")", ""},
			{"XML with references", "application/xml", "", "<a>Blue&#98;ird</a>", "&#98;"},
			{"HTML with references", "text/html", "", "<p>Blue&#x62;ird</p>", "&#x62;"},
			{"XML in another encoding", "text/xml", "", `<?xml version='1.0' encoding='utf-7'?><a>` + utf7 + `</a>`, utf7},
			{"an image of text", "image/svg+xml", "", "<svg><text>" + forbidden + "</text></svg>", ""},
			{"escapes of JSON in JSON", "application/json", "", `{"a":` + inString + `}`, "u0062"},
			{"events with escapes of JSON in JSON", "text/event-stream", "", event(`{"a":` + inString + `}`), "u0062"},
			{"events that end with CR", "text/event-stream", "", "data: {\"a\":\"Blue\"}\r\rdata: {\"a\":\"bird\"}\r\r", `"bird"`},
			{"events of several data", "text/event-stream", "", event("{\"a\":\n\"" + forbidden + "\"}"), ""},
			{"events of text", "text/event-stream", "", event("about " + forbidden), ""},
			{"events with a byte order mark", "text/event-stream", "", "\xef\xbb\xbf" + event(object), ""},
		} {
			for _, method := range []string{"POST", "GET"} {
				if method == "GET" && strings.HasPrefix(c.name, "a word in two lines") { // rows of a file
					continue
				}
				attack(t, "injection", c.name+" of "+method+" that must be "+what+" in a response", func(t *testing.T) {
					p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header()["Content-Type"] = nil
						if c.kind != "" {
							w.Header().Set("Content-Type", c.kind)
						}
						if c.coding != "" {
							w.Header().Set("Content-Encoding", c.coding)
						}
						io.WriteString(w, c.body)
					})
					body := ""
					if method == "POST" {
						body = `{"a":"b"}`
					}
					got := g.do(t, method, "/v1/invented/path", body, toCustomHost(key, p)...)
					text := string(got.body)
					if got.header.Get("Content-Encoding") == "gzip" {
						t.Error("the response is packed")
					}
					if strings.Contains(text, forbidden) || c.secret != "" && strings.Contains(text, c.secret) {
						t.Errorf("status %d, the client received %.200q", got.status, text)
					}
					if len(p.seen()) != 1 {
						t.Errorf("the provider received %d requests", len(p.seen()))
					}
				})
			}
		}
		for _, c := range []struct{ name, header, value, secret string }{
			{"a header", "X-Answer", "about " + forbidden, ""}, {"a header of one word", "X-Answer", forbidden, ""}, {"an encoded header", "X-Answer", "Blue%62ird", "%62ird"},
			{"a header in encoded words", "X-Answer", "=?utf-8?b?" + base64.StdEncoding.EncodeToString([]byte(forbidden)) + "?=", "=?utf-8"}, {"JSON in a header", "X-Answer", `{"a":"Blue\u0062ird"}`, "u0062"},
			{"a location", "Location", "https://example.com/?q=" + forbidden, ""}, {"a link", "Link", "<https://example.com/" + forbidden + ">; rel=next", ""},
			{"a trailer", http.TrailerPrefix + "X-Answer", forbidden, ""}, {"an announced trailer", "Trailer", "X-Answer", ""},
		} {
			attack(t, "injection", c.name+" that must be "+what+" in a response", func(t *testing.T) {
				p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set(c.header, c.value)
					io.WriteString(w, `{"a":"b"}`)
					if c.header == "Trailer" {
						w.Header().Set("X-Answer", forbidden)
					}
				})
				text, _ := g.raw(t, "POST /v1/invented/path HTTP/1.1\r\nhost: x\r\nconnection: close\r\nte: trailers\r\nx-gateway-api-key: "+key+"\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: "+p.url+
					"\r\nauthorization: Bearer "+clientKey+"\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
				if strings.Contains(text, forbidden) || c.secret != "" && strings.Contains(text, c.secret) || len(p.seen()) != 1 {
					t.Errorf("the client received %.400s", text)
				}
			})
		}
		attack(t, "injection", "harmless headers pass where text is "+what, func(t *testing.T) {
			p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Request-Id", "req_0123456789abcdef")
				w.Header().Set("X-Note", "two words; a=1")
				io.WriteString(w, `{"a":"b"}`)
			})
			got := g.do(t, "POST", "/v1/invented/path", `{"a":"b"}`, toCustomHost(key, p)...).ok(t)
			if got.header.Get("X-Note") != "two words; a=1" {
				t.Errorf("the client received %v", got.header)
			}
		})
		attack(t, "injection", "harmless responses pass as they are where text is "+what, func(t *testing.T) {
			for _, c := range []struct{ kind, body string }{
				{"application/x-ndjson", "{\"a\":1}\r\n{\"a\":\"\\u00e9\"}\n"}, {"application/json-seq", "\x1e{\"a\":1}\n\x1e[2]\n"}, {"application/json", "{\"a\":1}\n{\"a\":2}"},
				{"application/json; charset=ISO-8859-1", `{"a":"x"}`}, {"text/plain; charset=utf-8", "ol\u00e9"}, {"text/xml", "<a>&amp;</a>"}, {"", "plain"}, {"application/octet-stream", "\x00\xff\x01"},
				{"audio/mpeg", "\xff\xfb" + forbidden}, {"application/pdf", "%PDF-1.7 " + forbidden}, {"text/event-stream", event(`{"a":"x"}`)}, {"application/stream+json", "{\"a\":1}\n"}, {"application/x-unknown", "a: b"},
				{"application/json", "\xef\xbb\xbf{\"a\":\"b\\\"c\"}"}, {"application/x-ndjson", ""},
			} {
				p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = nil
					if c.kind != "" {
						w.Header().Set("Content-Type", c.kind)
					}
					io.WriteString(w, c.body)
				})
				if got := g.do(t, "POST", "/v1/invented/path", `{"a":"b"}`, toCustomHost(key, p)...).ok(t); string(got.body) != c.body {
					t.Errorf("%s: %q arrived as %q", c.kind, c.body, got.body)
				}
			}
		})
	}
}

// Tool arguments and JSON in the text of a stream have escapes that may be cut anywhere.
func TestNoEscapesInAStreamPassTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	const arguments = `{"path":"a\\b","q":"about Blue\u0062ird\n","r":"{\"s\":\"Blue\\u0062ird\"}"}`
	quoted := func(text string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"` }
	chunk := func(delta string) string {
		return `data: {"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	const end = `data: {"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	for what, check := range outputChecks {
		g, key := guardedOutput(t, check)
		for name, delta := range map[string]string{
			"content":        `{"role":"assistant","content":%s}`,
			"tool arguments": `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":%s}}]}`,
		} {
			for _, size := range []int{1, 2, 5, 7, 1000} {
				attack(t, "injection", fmt.Sprintf("escapes in %s by %d bytes that must be %s in a stream", name, size, what), func(t *testing.T) {
					p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "text/event-stream")
						for rest := arguments; rest != ""; {
							n := min(size, len(rest))
							io.WriteString(w, chunk(fmt.Sprintf(delta, quoted(rest[:n]))))
							w.(http.Flusher).Flush()
							rest = rest[n:]
						}
						io.WriteString(w, end)
					})
					got := g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1), toCustomHost(key, p)...)
					text := joinDeltas(t, got.body)
					if strings.Contains(text, "u0062") || strings.Contains(text, forbidden) {
						t.Errorf("status %d, the client received %s", got.status, text)
					}
					if what == "replaced" && text != `{"path":"a\\b","q":"about [gone]\u000a","r":"{\"s\":\"[gone]\"}"}` {
						t.Errorf("status %d, the client received %s", got.status, text)
					}
				})
			}
		}
		attack(t, "injection", "harmless escapes arrive in a stream where text is "+what, func(t *testing.T) {
			p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, chunk(`{"content":`+quoted(`{"a":"\u00e9\n`)+`}`)+chunk(`{"content":`+quoted(`"}`)+`}`)+end)
			})
			got := g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1), toCustomHost(key, p)...).ok(t)
			if text := joinDeltas(t, got.body); text != `{"a":"\u00e9\n"}` {
				t.Errorf("the client received %s", text)
			}
		})
	}
}

// joinDeltas returns the content and the arguments of a stream of the chat API.
func joinDeltas(t *testing.T, stream []byte) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(string(stream)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		o := response{body: []byte(data)}.object(t)
		choices, _ := o["choices"].([]any)
		for _, c := range choices {
			delta, _ := c.(map[string]any)["delta"].(map[string]any)
			text, _ := delta["content"].(string)
			all.WriteString(text)
			calls, _ := delta["tool_calls"].([]any)
			for _, call := range calls {
				f, _ := call.(map[string]any)["function"].(map[string]any)
				text, _ := f["arguments"].(string)
				all.WriteString(text)
			}
		}
	}
	return all.String()
}

// A response that is cut, or is not in its coding, is the provider's failure: it must not fill the
// gateway's log with errors of its own.
func TestBrokenCodingsOfResponsesAreTheProvidersFailure(t *testing.T) {
	t.Parallel()
	g, key := guardedOutput(t, outputChecks["denied"])
	long := `{"a":"` + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("some text that is packed"), 100)) + `"}`
	events := strings.Repeat("data: {\"a\":\"x\"}\n\n", 500)
	for _, c := range []struct{ name, kind, coding, body string }{
		{"gzip without content", "application/json", "gzip", ""},
		{"gzip that ends in its header", "application/json", "gzip", packed(long, 5)},
		{"gzip that ends in its content", "application/json", "gzip", packed(long, 60)},
		{"gzip that ends before its sum", "application/json", "gzip", packed(long, len(packed(long, 1<<20))-3)},
		{"gzip that is not", "application/json", "gzip", long},
		{"deflate that is not", "application/json", "deflate", "\x78\x9c\xff\xff\xff"},
		{"zstd that is not", "application/json", "zstd", long},
		{"br that is not", "application/json", "br", "\xff\xff\xff\xff"},
		{"events in gzip that end in their header", "text/event-stream", "gzip", packed(events, 5)},
		{"lines in gzip that end in their header", "application/x-ndjson", "gzip", packed(events, 5)},
		{"text in gzip that ends in its content", "text/plain", "gzip", packed(long, 60)},
		{"bytes in gzip that end in their content", "application/octet-stream", "gzip", packed(long, 60)},
	} {
		for _, path := range []string{"/v1/invented/path", "/v1/files/f/content"} {
			for _, method := range []string{"POST", "GET"} {
				if path != "/v1/invented/path" && method == "POST" {
					continue
				}
				attack(t, "bodies", c.name+" of "+method+" "+path, func(t *testing.T) {
					p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", c.kind)
						w.Header().Set("Content-Encoding", c.coding)
						io.WriteString(w, c.body)
					})
					body := ""
					if method == "POST" {
						body = `{"a":"b"}`
					}
					got := g.do(t, method, path, body, toCustomHost(key, p)...)
					if got.status != 502 || !strings.Contains(string(got.body), "upstream_unreadable") {
						t.Errorf("status %d, want 502: %.300s", got.status, got.body)
					}
				})
			}
		}
	}
	attack(t, "bodies", "events in gzip that end in their content", func(t *testing.T) {
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, packed(events, len(packed(events, 1<<20))-9))
		})
		if got := g.do(t, "POST", "/v1/invented/path", `{"a":"b"}`, toCustomHost(key, p)...); got.status == 200 && got.err == nil {
			t.Errorf("the response seems complete: %d bytes", len(got.body))
		}
	})
	if log := g.output.String(); strings.Contains(log, "ERROR") {
		t.Errorf("the gateway's log has errors: %.600s", log[strings.Index(log, "ERROR"):])
	}
}
