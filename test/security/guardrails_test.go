package security

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// forbidden is the word that the organisation's guardrail denies.
const forbidden = "Bluebird"

// guarded starts a gateway whose organisation denies requests with the forbidden word,
// and returns a key that may send requests.
func guarded(t *testing.T) (g *gateway, key string) {
	t.Helper()
	g = launch(t, options{})
	slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"no projects","organisation_id":"default","checks":[{"id":"default.contains","parameters":{"words":[%q],"operator":"none"}}],"actions":{"deny":true}}`, forbidden), "slug")
	g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, slug)).ok(t)
	key = g.key(t, rootKey, "default", []string{"completions.write"}, "")
	p := newProvider(t, nil)
	waittest.Until(t, "the guardrail applies", func() bool {
		return g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", forbidden, 1), toCustomHost(key, p)...).status == 446
	})
	return g, key
}

// A config of the client is applied after the organisation's guardrails were chosen:
// they must read the text that it puts into the body.
func TestConfigsPutNoTextPastTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	p := newProvider(t, nil)
	message := `{"messages":[{"role":"user","content":"` + forbidden + `"}]}`
	for _, c := range []struct{ name, path, body, config string }{
		{"an override", "/v1/chat/completions", chatBody, `"override_params":` + message},
		{"an override in other capitals", "/v1/chat/completions", chatBody, `"override_params":` + strings.Replace(message, "messages", "Messages", 1)},
		{"a default", "/v1/completions", `{"model":"gpt-4o","prompt":"x"}`, `"default_params":{"suffix":"` + forbidden + `"}`},
		{"an override of a prompt", "/v1/completions", `{"model":"gpt-4o","prompt":"x"}`, `"override_params":{"prompt":"` + forbidden + `"}`},
		{"an override of an input", "/v1/embeddings", `{"model":"gpt-4o","input":"x"}`, `"override_params":{"input":"` + forbidden + `"}`},
		{"an override on pass-through", "/v1/invented", `{"a":"b"}`, `"override_params":{"a":"` + forbidden + `"}`},
		{"a drop of the last message", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"` + forbidden + `"},{"role":"user","content":"x"}]}`, `"drop_params":["messages[1]"]`},
	} {
		for of, form := range map[string]string{"a target": `{%s,%s}`, "a fallback": `{"strategy":{"mode":"fallback"},"targets":[{%s,%s}]}`} {
			attack(t, "injection", c.name+" of "+of+" puts text past a guardrail", func(t *testing.T) {
				config := fmt.Sprintf(form, fmt.Sprintf(`"provider":"openai-compatible","custom_host":%q,"api_key":%q`, p.url, clientKey), c.config)
				p.reset()
				g.as(t, key, "POST", c.path, c.body, "x-gateway-config", config).refused(t, 446, "default.contains")
				if p.got(forbidden) {
					t.Error("the provider received the text")
				}
				harmless := strings.ReplaceAll(config, forbidden, "harmless")
				g.as(t, key, "POST", c.path, strings.ReplaceAll(c.body, forbidden, "x"), "x-gateway-config", harmless).ok(t)
				if !strings.Contains(c.config, "drop_params") && !p.got("harmless") {
					t.Errorf("the provider did not receive what the config sets: %s", p.seen()[0].body)
				}
			})
		}
	}
}

// chunked is the body in one chunk.
func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// withoutMark is a string in UTF-16 without its byte order mark.
func withoutMark(text string) string { return inUTF16(text, binary.LittleEndian)[2:] }

// The length, the content type and the syntax of a body are the client's choice: none of
// them may lead its text past a guardrail that denies.
func TestNoFormOfABodyPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	p := newProvider(t, nil)
	const object = `{"a":"` + forbidden + `"}`
	const json = "content-type: application/json\r\n"
	for _, c := range []struct{ name, header, body string }{
		{"an object", json, object},
		{"an array", json, `["` + forbidden + `"]`},
		{"a string", json, `"` + forbidden + `"`},
		{"two objects", json, `{"a":1}` + object},
		{"an object in the second line", json, "{\"a\":1}\n" + object},
		{"text after an object", json, `{"a":1} ` + forbidden},
		{"other quotes", json, `{'a':'` + forbidden + `'}`},
		{"a comment", json, `/**/` + object},
		{"NaN", json, `{"b":NaN,"a":"` + forbidden + `"}`},
		{"a duplicate key", json, `{"a":"` + forbidden + `","a":"x"}`},
		{"UTF-16", json, withoutMark(object)},
		{"UTF-16 with its mark", json, inUTF16(object, binary.LittleEndian)},
		{"a byte order mark", json, "\xef\xbb\xbf" + object},
		{"leading spaces", json, strings.Repeat(" ", 9000) + object},
		{"two megabytes", json, `{"b":"` + strings.Repeat("x ", 1<<20) + `","a":"` + forbidden + `"}`},
		{"five thousand bytes without a space", json, `{"a":"` + strings.Repeat("a_long_text_", 400) + forbidden + `"}`},
		{"five thousand small letters", json, `{"a":"` + strings.Repeat("alongtext", 600) + `.` + forbidden + `"}`},
		{"text after five thousand bytes of base64", json, `{"a":"` + strings.Repeat("aB3d", 1300) + strings.Repeat("_text", 60) + "." + forbidden + `"}`},
		{"no content type", "", object},
		{"the type of text", "content-type: text/plain\r\n", object},
		{"the type of bytes", "content-type: application/octet-stream\r\n", object},
		{"the type of an image", "content-type: image/png\r\n", object},
		{"the type of a form", "content-type: multipart/form-data\r\n", object},
		{"the coding identity", json + "content-encoding: identity\r\n", object},
		{"gzip", json + "content-encoding: gzip\r\n", zipped(object)},
	} {
		for _, path := range []string{"/v1/invented/path", "/v1/messages/batches"} {
			for _, framing := range []string{"chunked", "by length"} {
				attack(t, "injection", c.name+" "+framing+" on "+path+" passes a guardrail", func(t *testing.T) {
					p.reset()
					header := "POST " + path + " HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-gateway-api-key: " + key + "\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: " + p.url + "\r\nauthorization: Bearer " + clientKey + "\r\n" + c.header
					send := func(body string) response {
						text, _ := g.raw(t, header+"transfer-encoding: chunked\r\n\r\n"+chunked(body))
						if framing != "chunked" {
							text, _ = g.raw(t, header+fmt.Sprintf("content-length: %d\r\n\r\n", len(body))+body)
						}
						return responses(t, text)[0]
					}
					if got := send(c.body); got.status != 446 {
						t.Errorf("status %d, want 446: %.300s", got.status, got.body)
					}
					if len(p.seen()) > 0 {
						t.Errorf("the provider received %.200q", p.seen()[0].body)
					}
				})
			}
		}
	}
	attack(t, "injection", "files and harmless text pass as they are", func(t *testing.T) {
		for _, body := range []string{"\x89PNG\r\n\x1a\n" + forbidden, `["harmless"]`, "{\"a\":1}\n{\"a\":2}\n", `{"b":"` + strings.Repeat("x ", 1<<20) + `"}`} {
			p.reset()
			g.do(t, "POST", "/v1/invented/path", body, toCustomHost(key, p, "Content-Type", "application/octet-stream")...).ok(t)
			if got := p.seen(); len(got) != 1 || string(got[0].body) != body {
				t.Errorf("%.20q did not arrive as it was sent: %.100q", body, got)
			}
		}
	})
}

// formWith returns a form with a field and an audio file, and its type.
func formWith(field, value string, file []byte) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	w.WriteField("model", "gpt-4o")
	part, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="a.mp3"`}, "Content-Type": {"audio/mpeg"}})
	part.Write(file)
	w.WriteField(field, value)
	w.Close()
	return b.String(), w.FormDataContentType()
}

func TestNoFieldOfAFormPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	p := newProvider(t, nil)
	toOpenAI := func(p *provider, more ...string) []string {
		return append([]string{"x-gateway-api-key", key, "x-gateway-provider", "openai", "x-gateway-custom-host", p.url, "Authorization", "Bearer " + clientKey}, more...)
	}
	file := bytes.Repeat([]byte("\n{\x00\xff audio"), 3<<20/8)
	for _, path := range []string{"/v1/audio/transcriptions", "/v1/audio/translations", "/v1/invented/form"} {
		for _, c := range []struct{ name, field, value string }{
			{"a prompt", "prompt", "about " + forbidden},
			{"another field", "context", forbidden},
			{"a setting that is none", "language", strings.Repeat("x", 64) + forbidden},
			{"a field in UTF-16", "prompt", inUTF16(forbidden, binary.LittleEndian)},
			{"a long field", "prompt", strings.Repeat("x ", 1<<20) + forbidden},
		} {
			attack(t, "injection", c.name+" of a form on "+path+" passes a guardrail", func(t *testing.T) {
				body, kind := formWith(c.field, c.value, file)
				if got := g.do(t, "POST", path, body, toOpenAI(p, "Content-Type", kind)...); got.status != 446 {
					t.Errorf("status %d, want 446: %.300s", got.status, got.body)
				}
				for _, r := range p.seen() {
					if bytes.Contains(r.body, []byte(forbidden)) {
						t.Error("the provider received the field")
					}
				}
			})
		}
		attack(t, "injection", "a harmless form on "+path+" arrives complete", func(t *testing.T) {
			p := newProvider(t, nil)
			body, kind := formWith("prompt", "two\nlines", file)
			g.do(t, "POST", path, body, toOpenAI(p, "Content-Type", kind)...).ok(t)
			if got := p.seen(); len(got) != 1 || !bytes.Contains(got[0].body, file) || !bytes.Contains(got[0].body, []byte("\r\n\r\ntwo\nlines\r\n")) {
				t.Errorf("the provider received %d requests, the first without the file or the field", len(got))
			}
		})
	}
}

// Who may not remove a default guardrail of a workspace may not make it harmless either.
func TestDefaultGuardrailsAreNotWeakenedFromBelow(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := launch(t, o)
		const strict = `"checks":[{"id":"default.contains","parameters":{"words":["x"],"operator":"none"}}],"actions":{"deny":true}`
		admin := g.member(t, "admin", "admin", `[]`)
		manager := g.member(t, "manager", "member", `[{"id":"default","role":"manager"}]`)
		wide := g.key(t, rootKey, "default", []string{"guardrails.update", "guardrails.delete", "workspaces.update"}, "")
		slug := g.create(t, manager, "/v1/guardrails", `{"name":"strict","workspace_id":"default",`+strict+`}`, "slug")
		other := g.create(t, manager, "/v1/guardrails", `{"name":"other","workspace_id":"default",`+strict+`}`, "slug")
		for _, list := range []string{"input_guardrails", "output_guardrails"} {
			g.as(t, admin, "PUT", "/v1/admin/workspaces/default", fmt.Sprintf(`{"defaults":{%q:[%q]}}`, list, slug)).ok(t)
			for who, token := range map[string]string{"a manager": manager, "a key of the workspace": wide} {
				for change, body := range map[string]string{
					"does not deny": `{"actions":{"deny":false}}`, "only observes": `{"actions":{"deny":true,"mode":"shadow"}}`,
					"looks for another word": `{"checks":[{"id":"default.contains","parameters":{"words":["never"],"operator":"none"}}]}`,
				} {
					attack(t, "escalation", who+" changes one of "+list+" so that it "+change, func(t *testing.T) {
						g.as(t, token, "PUT", "/v1/guardrails/"+slug, body).refused(t, 403, "AB03", "default of its workspace")
					})
				}
				attack(t, "escalation", who+" archives one of "+list, func(t *testing.T) {
					if got := g.as(t, token, "DELETE", "/v1/guardrails/"+slug, ""); got.status != 403 {
						t.Errorf("status %d, want 403: %.300s", got.status, got.body)
					}
				})
			}
		}
		g.as(t, manager, "PUT", "/v1/guardrails/"+slug, `{"name":"renamed"}`).ok(t)
		g.as(t, manager, "PUT", "/v1/guardrails/"+other, `{"actions":{"deny":false}}`).ok(t)
		g.as(t, admin, "PUT", "/v1/guardrails/"+slug, `{"actions":{"deny":false}}`).ok(t)
	})
}
