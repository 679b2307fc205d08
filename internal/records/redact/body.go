package redact

import (
	"bytes"
	"net/url"
	"strings"
)

// Body returns the redacted start of a body with a media type, which has no
// parameters. The result does not share memory with body. Elements that the end
// of body cuts are redacted like complete ones, but a cut value may be too
// short to be recognised.
func (r *Redactor) Body(media string, body []byte) []byte {
	switch {
	case r == nil || len(body) == 0:
		return bytes.Clone(body)
	case media == "text/event-stream":
		return r.lines(body, eventData)
	case strings.HasSuffix(media, "ndjson"), strings.HasSuffix(media, "jsonl"), strings.HasSuffix(media, "json-seq"):
		return r.lines(body, entireLine)
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return r.json(make([]byte, 0, len(body)), body)
	case media == "application/x-www-form-urlencoded":
		return r.form(body)
	}
	return r.loose(make([]byte, 0, len(body)), body)
}

// loose appends what looks like JSON, or is text.
func (r *Redactor) loose(dst, b []byte) []byte {
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) > 0 && (t[0] == '{' || t[0] == '[' || t[0] == '"') {
		return r.json(dst, b)
	}
	return append(dst, r.Text(string(b))...)
}

// lines applies the rules line by line. Payload returns the offset of the
// content in a line; the bytes before it are unchanged.
func (r *Redactor) lines(body []byte, payload func(line []byte) int) []byte {
	dst := make([]byte, 0, len(body))
	for len(body) > 0 {
		n := bytes.IndexAny(body, "\r\n")
		if n < 0 {
			n = len(body)
		}
		at := payload(body[:n])
		dst = r.loose(append(dst, body[:at]...), body[at:n])
		for n < len(body) && (body[n] == '\r' || body[n] == '\n') {
			dst = append(dst, body[n])
			n++
		}
		body = body[n:]
	}
	return dst
}

func entireLine([]byte) int { return 0 }

// eventData returns the offset of the value in a line of an event. Comments and
// event names are redacted too.
func eventData(line []byte) int {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return 0
	}
	if i++; i < len(line) && line[i] == ' ' {
		i++
	}
	return i
}

// form applies the rules to the decoded values of a form. Names of denied
// fields apply as in JSON.
func (r *Redactor) form(body []byte) []byte {
	dst := make([]byte, 0, len(body))
	for i, pair := range strings.Split(string(body), "&") {
		if i > 0 {
			dst = append(dst, '&')
		}
		name, value, said := strings.Cut(pair, "=")
		dst = append(dst, r.escaped(name)...)
		if !said {
			continue
		}
		if plain, err := url.QueryUnescape(name); err == nil && r.fields[plain] {
			value = url.QueryEscape(fieldMark)
		}
		dst = append(append(dst, '='), r.escaped(value)...)
	}
	return dst
}

// escaped applies the patterns to a part of a form.
func (r *Redactor) escaped(part string) string {
	plain, err := url.QueryUnescape(part)
	if err != nil { // cut, or not a form
		return r.Text(part)
	}
	if kept := r.Text(plain); kept != plain {
		return url.QueryEscape(kept)
	}
	return part
}
