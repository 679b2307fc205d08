package redact

import (
	"bytes"
	"net/url"
	"strings"
)

// Body returns what may be kept of the beginning of a body of a media type,
// which is given without parameters. The result shares nothing with body. What
// is cut in the middle is treated like what is whole; a value that the end of
// body cuts may be too short to be found.
func (r *Redactor) Body(media string, body []byte) []byte {
	switch {
	case r == nil || len(body) == 0:
		return bytes.Clone(body)
	case media == "text/event-stream":
		return r.lines(body, eventData)
	case strings.HasSuffix(media, "ndjson"), strings.HasSuffix(media, "jsonl"), strings.HasSuffix(media, "json-seq"):
		return r.lines(body, whole)
	case media == "application/json", strings.HasSuffix(media, "+json"):
		return r.json(make([]byte, 0, len(body)), body)
	case media == "application/x-www-form-urlencoded":
		return r.form(body)
	}
	return r.loose(make([]byte, 0, len(body)), body)
}

// loose appends what may be JSON by its beginning, or is text.
func (r *Redactor) loose(dst, b []byte) []byte {
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) > 0 && (t[0] == '{' || t[0] == '[' || t[0] == '"') {
		return r.json(dst, b)
	}
	return append(dst, r.Text(string(b))...)
}

// lines applies the rules line by line. Payload returns where in a line the
// content begins; what is before it stays.
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

func whole([]byte) int { return 0 }

// eventData returns where the value of a field of an event begins. Comments and
// names of events are looked into as well.
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

// form applies the rules to the decoded values of a form. A name of a denied
// field counts as in JSON.
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
	if err != nil { // cut, or no form at all
		return r.Text(part)
	}
	if kept := r.Text(plain); kept != plain {
		return url.QueryEscape(kept)
	}
	return part
}
