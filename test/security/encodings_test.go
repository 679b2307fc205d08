package security

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// formPaths are routes of forms: one that is known, and pass-through.
var formPaths = []string{"/v1/audio/transcriptions", "/v1/invented/form"}

// partOf is a part of a form with the boundary x, with its own header lines.
func partOf(value string, header ...string) string {
	return "--x\r\n" + strings.Join(header, "\r\n") + "\r\n\r\n" + value + "\r\n"
}

// disposition is the header of a field, with further parameters.
func disposition(name, more string) string {
	return `Content-Disposition: form-data; name="` + name + `"` + more
}

// utf7 is the forbidden word in UTF-7.
const utf7 = "+AEIAbAB1AGUAYgBpAHIAZA-"

// sendsNothing fails the test unless a request is denied and the provider received nothing of
// what it says. An upload may have begun.
func sendsNothing(t *testing.T, p *provider, got response, secrets ...string) {
	t.Helper()
	if got.status != 446 && !(got.status == 403 && strings.Contains(string(got.body), "the model of this request cannot be known")) {
		t.Errorf("status %d, want 446: %.300s", got.status, got.body)
	}
	for _, secret := range append(secrets, forbidden) {
		if p.got(secret) {
			t.Errorf("the provider received %.60q", secret)
		}
	}
}

// A part of a form says how its text is encoded. Text that the gateway does not read as the
// provider could is not sent.
func TestNoEncodingOfAFormPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	prompt, other, text := disposition("prompt", ""), disposition("language", ""), "Content-Type: text/plain"
	wide := withoutMark(forbidden)
	encoded := base64.StdEncoding.EncodeToString([]byte("about " + forbidden))
	model := field("model", "gpt-4o")
	for _, c := range []struct{ name, kind, form, secret string }{
		{"UTF-16 without its mark", formKind, partOf(wide, prompt), wide},
		{"UTF-16 of the other order", formKind, partOf(inUTF16(forbidden, binary.BigEndian)[2:], prompt), "\x00B\x00l"},
		{"UTF-16 that its type names", formKind, partOf(wide, prompt, text+"; charset=utf-16le"), wide},
		{"UTF-7 that its type names", formKind, partOf(utf7, prompt, text+"; charset=utf-7"), utf7},
		{"UTF-7 that a second type names", formKind, partOf(utf7, prompt, text, text+"; charset=utf-7"), utf7},
		{"UTF-7 that a quoted charset names", formKind, partOf(utf7, prompt, text+`; charset="UTF-7"`), utf7},
		{"UTF-7 that a continued charset names", formKind, partOf(utf7, prompt, text+`; charset*0=utf; charset*1=-7`), utf7},
		{"UTF-7 that a type with two charsets names", formKind, partOf(utf7, prompt, text+`; charset=utf-8; charset=utf-7`), utf7},
		{"UTF-7 that the type of the form names", formKind + "; charset=utf-7", partOf(utf7, prompt), utf7},
		{"UTF-7 that the field _charset_ names", formKind, partOf("utf-7", disposition("_charset_", "")) + partOf(utf7, prompt), utf7},
		{"UTF-7 that a later field _charset_ names", formKind, partOf(utf7, prompt) + partOf("utf-7", disposition("_charset_", "")), ""},
		{"a code page that its type names", formKind, partOf("\u00c2\u0093", prompt, text+"; charset=cp037"), ""},
		{"HZ that its type names", formKind, partOf("~{NRWT~}", prompt, text+"; charset=hz-gb-2312"), "~{NRWT~}"},
		{"two dispositions", formKind, partOf(forbidden, disposition("file", `; filename="a.mp3"`), prompt), ""},
		{"two dispositions, the name first", formKind, partOf(forbidden, other, prompt), ""},
		{"an extended name", formKind, partOf(forbidden, disposition("language", `; name*=utf-8''prompt`)), ""},
		{"a continued name", formKind, partOf(forbidden, `Content-Disposition: form-data; name*0=pro; name*1=mpt`), ""},
		{"two names", formKind, partOf(forbidden, disposition("language", `; name="prompt"`)), ""},
		{"a name of a setting", formKind, partOf(forbidden, other), ""},
		{"a name of a setting, twice", formKind, partOf("en", other) + partOf(forbidden, other), ""},
		{"no name", formKind, partOf(forbidden, "Content-Type: text/plain"), ""},
		{"a file name", formKind, partOf("about "+forbidden, disposition("prompt", `; filename="a.txt"`)), ""},
		{"an empty file name", formKind, partOf("about "+forbidden, disposition("prompt", `; filename=""`)), ""},
		{"an extended file name", formKind, partOf("about "+forbidden, disposition("prompt", `; filename*=utf-8''a`)), ""},
		{"the word in a file name", formKind, partOf("x", disposition("file", `; filename="`+forbidden+`.mp3"`)), ""},
		{"the word in an extended file name", formKind, partOf("x", disposition("file", `; filename*=utf-8''Blue%62ird.mp3`)), "Blue%62ird"},
		{"the word in a name", formKind, partOf("x", disposition(forbidden, "")), ""},
		{"the word in a header of a part", formKind, partOf("x", prompt, "X-Note: "+forbidden), ""},
		{"base64", formKind, partOf(encoded, prompt, "Content-Transfer-Encoding: base64"), encoded},
		{"base64 after another encoding", formKind, partOf(encoded, prompt, "Content-Transfer-Encoding: 7bit", "Content-Transfer-Encoding: base64"), encoded},
		{"base64 with a comment", formKind, partOf(encoded, prompt, "Content-Transfer-Encoding: (x) base64"), encoded},
		{"quoted-printable", formKind, partOf("Blue=62ird", prompt, "content-transfer-encoding: Quoted-Printable"), "Blue=62ird"},
		{"a space before a colon", formKind, partOf("Blue=62ird", prompt, "Content-Transfer-Encoding : quoted-printable"), "Blue=62ird"},
		{"a content encoding", formKind, partOf(zipped(forbidden), prompt, "Content-Encoding: gzip"), zipped(forbidden)},
		{"a nested form", formKind, partOf("--y\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: base64\r\n\r\n"+encoded+"\r\n--y--", prompt, "Content-Type: multipart/mixed; boundary=y"), encoded},
		{"a nested message", formKind, partOf("Content-Transfer-Encoding: base64\r\n\r\n"+encoded, prompt, "Content-Type: message/rfc822"), encoded},
		{"a form of another kind", "multipart/mixed; boundary=x", partOf(encoded, prompt, "Content-Transfer-Encoding: base64"), encoded},
		{"related parts", "multipart/related; boundary=x", partOf(encoded, prompt, "Content-Transfer-Encoding: base64"), encoded},
		{"a form with two boundaries", "multipart/form-data; boundary=y; boundary=x", partOf(encoded, prompt, "Content-Transfer-Encoding: base64"), encoded},
		{"escapes in JSON", formKind, partOf(`{"a":"Blue\u0062ird"}`, prompt), `\u0062`},
		{"escapes in JSON by its type", formKind, partOf(`{"a":"Blue\u0062ird"}`, prompt, "Content-Type: application/json"), `\u0062`},
		{"escapes in JSON in JSON", formKind, partOf(`{"a":"{\"b\":\"Blue\\u0062ird\"}"}`, prompt), `u0062`},
		{"a surrogate of JSON", formKind, partOf(`["Blue\u0062\u0069rd"]`, prompt), `u0062`},
		{"an overlong letter", formKind, partOf("Blue\xc1\xa2ird", prompt), "\xc1\xa2"},
		{"a letter cut by a null", formKind, partOf("Blue\x00bird", prompt), "Blue\x00"},
	} {
		for _, path := range formPaths {
			attack(t, "injection", c.name+" in a form on "+path+" passes a guardrail", func(t *testing.T) {
				p := newProvider(t, nil)
				got := g.do(t, "POST", path, model+c.form+"--x--\r\n", toCustomHost(key, p, "Content-Type", c.kind)...)
				if c.secret == "" {
					c.secret = forbidden
				}
				if strings.HasPrefix(c.kind, "multipart/form-data; boundary=x") || path != formPaths[0] {
					sendsNothing(t, p, got, c.secret)
				} else if got.status < 400 || p.got(c.secret) { // not a form of this route
					t.Errorf("status %d: %.300s", got.status, got.body)
				}
			})
		}
	}
	attack(t, "injection", "harmless encodings of a form arrive", func(t *testing.T) {
		for _, path := range formPaths {
			p := newProvider(t, nil)
			form := model + partOf("ol\u00e9", prompt, text+"; charset=UTF-8") + partOf("en", other, text+"; charset=us-ascii") + partOf("utf-8", disposition("_charset_", "")) +
				partOf(`{"a":"\u00e9\n"}`, disposition("options", ""), "Content-Type: application/json", "Content-Transfer-Encoding: 8bit") +
				partOf("\x00\xffaudio\r\n", disposition("file", `; filename="a.mp3"; filename*=utf-8''%e2%82%ac.mp3`), "Content-Type: audio/mpeg") + "--x--\r\n"
			g.do(t, "POST", path, form, toCustomHost(key, p, "Content-Type", formKind)...).ok(t)
			for _, want := range []string{"ol\u00e9", "\x00\xffaudio\r\n\r\n", `{"a":"\u00e9\n"}`, "filename*=utf-8''%e2%82%ac.mp3"} {
				if !p.got(want) {
					t.Errorf("%s: the provider did not receive %q", path, want)
				}
			}
		}
	})
}

// Rows of batches are read in the encoding in which the provider reads them.
func TestNoEncodingOfABatchPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	row := `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","messages":[{"role":"user","content":"` + forbidden + `"}]}}`
	harmless := strings.ReplaceAll(row, forbidden, "x")
	escaped := strings.ReplaceAll(row, `"content":"`+forbidden, `"content":"{\"a\":\"Blue\\u0062ird\"}`)
	batch, file := partOf("batch", disposition("purpose", "")), disposition("file", `; filename="a.jsonl"`)
	for _, c := range []struct{ name, form string }{
		{"UTF-16", batch + partOf(inUTF16(row+"\n", binary.LittleEndian), file)},
		{"UTF-16 without its mark", batch + partOf(withoutMark(row+"\n"), file)},
		{"UTF-16 before the purpose", partOf(withoutMark(row+"\n"), file) + batch},
		{"UTF-7 that its type names", batch + partOf(strings.ReplaceAll(row, forbidden, utf7)+"\n", file, "Content-Type: application/jsonl; charset=utf-7")},
		{"a byte order mark", batch + partOf("\xef\xbb\xbf"+row+"\n", file)},
		{"lines that end with CR", batch + partOf(harmless+"\r"+row+"\r", file)},
		{"two rows in a line", batch + partOf(harmless+row+"\n", file)},
		{"gzip", batch + partOf(zipped(row+"\n"), file)},
		{"gzip that its header names", batch + partOf(zipped(row+"\n"), file, "Content-Encoding: gzip")},
		{"escapes", batch + partOf(strings.ReplaceAll(row, forbidden, `Blue\u0062ird`)+"\n", file)},
		{"escapes of JSON in JSON", batch + partOf(escaped+"\n", file)},
		{"a field without a file name", batch + partOf(row+"\n", disposition("file", ""))},
		{"another name of the file", batch + partOf(row+"\n", disposition("upload", `; filename="a.jsonl"`))},
		{"a purpose in a file", partOf("batch", disposition("purpose", `; filename="a"`)) + partOf("{\"a\":1}\nabout "+forbidden+"\n", file)},
		{"a purpose in UTF-16", partOf(withoutMark("batch"), disposition("purpose", "")) + partOf(row+"\n", file)},
		{"a second purpose", partOf("user_data", disposition("purpose", "")) + batch + partOf("about "+forbidden+"\n", file)},
		{"a later purpose", partOf("about "+forbidden+"\n", file) + batch},
	} {
		attack(t, "injection", c.name+" in a batch passes a guardrail", func(t *testing.T) {
			p := newProvider(t, nil)
			got := g.do(t, "POST", "/v1/files", c.form+"--x--\r\n", toCustomHost(key, p, "Content-Type", formKind)...)
			if got.status != 446 {
				t.Errorf("status %d, want 446: %.300s", got.status, got.body)
			}
			for _, r := range p.seen() {
				if strings.HasSuffix(strings.TrimSpace(string(r.body)), "--x--") {
					t.Errorf("the provider received a complete form: %.300q", r.body)
				}
			}
		})
	}
	attack(t, "injection", "a harmless batch arrives", func(t *testing.T) {
		p := newProvider(t, nil)
		form := batch + partOf(harmless+"\n"+harmless+"\r\n", file, "Content-Type: application/jsonl; charset=utf-8") + "--x--\r\n"
		g.do(t, "POST", "/v1/files", form, toCustomHost(key, p, "Content-Type", formKind)...).ok(t)
		if !p.got(harmless + "\n" + harmless) {
			t.Errorf("the provider received %q", p.seen()[0].body)
		}
	})
}

// A content type names the charset of the body: a provider that follows it must not read
// other text than the guardrail.
func TestNoCharsetPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	const object = `{"model":"gpt-4o","prompt":"` + utf7 + `","input":"` + utf7 + `","messages":[{"role":"user","content":"` + utf7 + `"}]}`
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings", "/v1/invented/path"} {
		for name, kind := range map[string]string{
			"UTF-7": "application/json; charset=utf-7", "UTF-7 in quotes": `application/json; Charset="UTF-7"`, "an unknown charset": "application/json; charset=x-unknown",
			"two charsets": "application/json; charset=utf-8; charset=utf-7", "a charset in pieces": "application/json; charset*=us-ascii''utf-7",
		} {
			attack(t, "injection", name+" on "+path+" passes a guardrail", func(t *testing.T) {
				p := newProvider(t, nil)
				object := object
				if path == "/v1/responses" {
					object = `{"model":"gpt-4o","input":"` + utf7 + `"}`
				}
				sendsNothing(t, p, g.do(t, "POST", path, object, toCustomHost(key, p, "Content-Type", kind)...), utf7)
			})
		}
		attack(t, "injection", "two content types on "+path+" pass a guardrail", func(t *testing.T) {
			p := newProvider(t, nil)
			got := g.do(t, "POST", path, object, toCustomHost(key, p, "Content-Type", "application/json", "Content-Type", "application/json; charset=utf-7")...)
			if got.status < 400 || p.got(utf7) {
				t.Errorf("status %d: %.300s", got.status, got.body)
			}
		})
	}
	for _, c := range []struct{ name, kind, body string }{
		{"text in UTF-7", "text/plain; charset=utf-7", utf7},
		{"text in a code page of IBM", "text/plain; charset=cp500", "x"},
		{"a form in UTF-7", "application/x-www-form-urlencoded; charset=utf-7", "a=" + url.QueryEscape(utf7)},
		{"a form that names UTF-7", "application/x-www-form-urlencoded", "_charset_=utf-7&a=" + url.QueryEscape(utf7)},
		{"a form in UTF-16", "application/x-www-form-urlencoded", "a=" + url.QueryEscape(withoutMark(forbidden))},
		{"a form with escapes of Unicode", "application/x-www-form-urlencoded", "a=Blue%u0062ird"},
		{"a form with JSON with escapes", "application/x-www-form-urlencoded", "payload=" + url.QueryEscape(`{"a":"Blue\u0062ird"}`)},
		{"a form with other separators", "application/x-www-form-urlencoded", "a=x;b=Blue%62ird"},
		{"text that is JSON in lines", "text/plain", "{\"a\":1}\n{\"a\":\"Blue\\u0062ird\"}\n"},
		{"JSON of a vendor", "application/vnd.api+json", `{"a":"Blue\u0062ird"}`},
		{"a sequence of JSON texts", "application/json-seq", "\x1e{\"a\":1}\n\x1e{\"a\":\"Blue\\u0062ird\"}\n"},
		{"JSON in one line", "application/x-ndjson", `{"a":1} {"a":"Blue\u0062ird"}`},
		{"YAML with escapes", "application/yaml", `a: "Blue\x62ird"`},
		{"XML with references", "application/xml", `<a>Blue&#98;ird</a>`},
		{"HTML with references", "text/html", `<p>Blue&#x62;ird</p>`},
		{"XML in another encoding", "text/xml", `<?xml version="1.0" encoding="UTF-7"?><a>` + utf7 + `</a>`},
		{"UTF-16 without its mark", "text/plain", withoutMark("about " + forbidden)},
		{"UTF-32", "text/plain", strings.Join(strings.Split("about "+forbidden, ""), "\x00\x00\x00") + "\x00\x00\x00"},
		{"overlong letters", "text/plain", "Blue\xc1\xa2ird"},
	} {
		attack(t, "injection", c.name+" passes a guardrail", func(t *testing.T) {
			p := newProvider(t, nil)
			sendsNothing(t, p, g.do(t, "POST", "/v1/invented/path", c.body, toCustomHost(key, p, "Content-Type", c.kind)...), c.body)
		})
	}
	attack(t, "injection", "harmless charsets arrive", func(t *testing.T) {
		for kind, body := range map[string]string{
			"application/json; charset=utf-8": chatBody, `application/json;charset="UTF8"`: chatBody, "application/json; charset=iso-8859-1": chatBody, "text/plain; charset=us-ascii": "plain",
			"text/plain; charset=UTF-8": "ol\u00e9", "application/x-www-form-urlencoded; charset=utf-8": "a=%C3%A9&_charset_=UTF-8", "application/yaml": "a: \u00e9", "text/xml": `<?xml version="1.0" encoding="utf-8"?><a>&amp;</a>`,
		} {
			p := newProvider(t, nil)
			g.do(t, "POST", "/v1/invented/path", body, toCustomHost(key, p, "Content-Type", kind)...).ok(t)
			if got := p.seen(); len(got) != 1 || string(got[0].body) != body {
				t.Errorf("%s: %q did not arrive as it was sent", kind, body)
			}
		}
	})
}

// JSON in a string of JSON has escapes of its own.
func TestNoEscapesOfJSONInJSONPassTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	// in returns text as a string of JSON.
	in := func(text string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"` }
	const escaped = `{"q":"Blue\u0062ird"}`
	twice := `{"q":` + in(`{"r":"Blue\u0062ird"}`) + `}`
	for name, arguments := range map[string]string{
		"escapes": escaped, "escapes in JSON in them": twice, "escapes three deep": `[` + in(twice) + `]`, "an escaped name": `{"Blue\u0062ird":1}`,
		"a string": `"Blue\u0062ird"`, "an escaped tab": `{"q":"a\t` + forbidden + `"}`, "several values": `{"a":1} ` + escaped,
		"single quotes": `{'q':'Blue\u0062ird'}`, "no quotes": `{q: Blue\u0062ird}`, "a comment": `{"q":"Blue\u0062ird"} // x`, "a list in single quotes": `['Blue\x62ird']`,
		"single quotes in JSON": `{"a":` + in(`{'q':'Blue\u0062ird'}`) + `}`,
	} {
		for path, body := range map[string]string{
			"/v1/chat/completions":   `{"model":"gpt-4o","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":%s}}]}]}`,
			"/v1/chat/completions?x": `{"model":"gpt-4o","messages":[{"role":"user","content":%s}]}`,
			"/v1/responses":          `{"model":"gpt-4o","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c1","name":"f","arguments":%s}]}`,
			"/v1/embeddings":         `{"model":"gpt-4o","input":[%s]}`,
			"/v1/completions":        `{"model":"gpt-4o","prompt":%s}`,
			"/v1/invented/path":      `{"payload":%s}`,
			"/v1/invented/list":      `[%s]`,
		} {
			attack(t, "injection", name+" in JSON on "+path+" pass a guardrail", func(t *testing.T) {
				p := newProvider(t, nil)
				sendsNothing(t, p, g.do(t, "POST", path, fmt.Sprintf(body, in(arguments)), toCustomHost(key, p)...), "u0062")
				p.reset()
				harmless := fmt.Sprintf(body, in(strings.NewReplacer(forbidden, "x", "Blue", "Re").Replace(arguments)))
				if got := g.do(t, "POST", path, harmless, toCustomHost(key, p)...); got.status == 446 || len(p.seen()) != 1 {
					t.Errorf("harmless: status %d, %d requests: %.300s", got.status, len(p.seen()), got.body)
				}
			})
		}
	}
}

// What a client says outside of the body reaches the provider too.
func TestNoQueryOrHeaderPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g, key := guarded(t)
	const form = "a=b"
	for _, method := range []string{"GET", "DELETE", "POST", "POST a form", "POST text", "POST bytes", "PUT lines"} {
		verb, how, _ := strings.Cut(method, " ")
		body, kind := "", ""
		switch how {
		case "":
			if verb == "POST" {
				body = `{"a":"b"}`
			}
		case "a form":
			body, kind = field("a", "b")+"--x--\r\n", formKind
		case "text":
			body, kind = form, "text/plain"
		case "bytes":
			body, kind = "\x00\xff", "application/octet-stream"
		case "lines":
			body, kind = "{\"a\":1}\n{\"a\":2}\n", "application/x-ndjson"
		}
		for _, c := range []struct{ name, target, header, value, secret string }{
			{"a query", "/v1/invented/path?q=about+" + forbidden, "", "", ""},
			{"an encoded query", "/v1/invented/path?q=Blue%62ird", "", "", "%62ird"},
			{"a query that is encoded twice", "/v1/invented/path?q=Blue%2562ird", "", "", "%2562ird"},
			{"a name of the query", "/v1/invented/path?Blue%62ird=1", "", "", "%62ird"},
			{"a query without a name", "/v1/invented/path?" + forbidden, "", "", ""},
			{"JSON in a query", "/v1/invented/path?body=" + url.QueryEscape(`{"a":"Blue\u0062ird"}`), "", "", "u0062"},
			{"an invalid query", "/v1/invented/path?q=%zz" + forbidden, "", "", ""},
			{"a query in UTF-16", "/v1/invented/path?q=" + url.QueryEscape(withoutMark(forbidden)), "", "", "%00"},
			{"a header", "/v1/invented/path", "X-Prompt", "about " + forbidden, ""},
			{"a header of a vendor", "/v1/invented/path", "Cf-Aig-Metadata", `{"a":"Blue\u0062ird"}`, "u0062"},
			{"an encoded header", "/v1/invented/path", "X-Prompt", "Blue%62ird", "%62ird"},
			{"a header in encoded words", "/v1/invented/path", "X-Prompt", "=?utf-8?q?Blue=62ird?=", "=62ird"},
			{"a name of a header", "/v1/invented/path", "X-" + forbidden, "1", ""},
			{"a header in other letters", "/v1/invented/path", "x_prompt", forbidden, ""},
			{"a header of addresses", "/v1/invented/path", "From", forbidden + "@example.com", ""},
			{"the referrer", "/v1/invented/path", "Referer", "https://x/" + forbidden, ""},
			{"a word of the path", "/v1/invented/" + forbidden, "", "", ""},
			{"an encoded path", "/v1/invented/about%20Blue%62ird", "", "", "%62ird"},
		} {
			attack(t, "injection", c.name+" of "+method+" passes a guardrail", func(t *testing.T) {
				p := newProvider(t, nil)
				header := toCustomHost(key, p)
				if c.header != "" {
					header = append(header, c.header, c.value)
				}
				if kind != "" {
					header = append(header, "Content-Type", kind)
				}
				got := g.do(t, verb, c.target, body, header...)
				if c.secret == "" {
					c.secret = forbidden
				}
				if got.status != 446 && got.status != 400 || p.got(c.secret) {
					t.Errorf("status %d, the provider received it: %t: %.300s", got.status, p.got(c.secret), got.body)
				}
			})
		}
		if how == "bytes" {
			attack(t, "injection", "a trailer passes a guardrail", func(t *testing.T) {
				p := newProvider(t, nil)
				text, _ := g.raw(t, "POST /v1/invented/path HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntrailer: x-prompt\r\nx-gateway-api-key: "+key+"\r\nx-gateway-provider: openai-compatible\r\nx-gateway-custom-host: "+p.url+
					"\r\nauthorization: Bearer "+clientKey+"\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n2\r\n\x00\xff\r\n0\r\nx-prompt: "+forbidden+"\r\n\r\n")
				if got := responses(t, text)[0]; got.status != 446 || len(p.seen()) > 0 {
					t.Errorf("status %d, the provider received %v", got.status, p.seen())
				}
			})
		}
		attack(t, "injection", "a harmless query and headers of "+method+" arrive", func(t *testing.T) {
			p := newProvider(t, nil)
			header := toCustomHost(key, p, "X-Note", "ol\u00e9 %zz", "User-Agent", "sdk/1.0 (linux; 10.0.0.1)")
			if kind != "" {
				header = append(header, "Content-Type", kind)
			}
			g.do(t, verb, "/v1/invented/path?limit=20&after=obj_123&q=a%20b", body, header...).ok(t)
			if got := p.seen(); len(got) != 1 || got[0].target != "/v1/invented/path?limit=20&after=obj_123&q=a%20b" || got[0].header.Get("X-Note") != "ol\u00e9 %zz" {
				t.Errorf("the provider received %+v", got)
			}
		})
	}
}
