package guarding

import (
	"cmp"
	"context"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// outsideTexts returns the text of a request outside of its body, as far as it may reach a
// provider: the query and, on pass-through, words of the path and headers. Each is there as it was sent and as it
// is decoded.
func outsideTexts(r *exchange.Request) (texts []string) {
	for pair := range strings.SplitSeq(r.StripGatewayKey(r.Received.Query), "&") {
		name, value, assigned := strings.Cut(strings.ReplaceAll(pair, "+", " "), "=")
		if credentialParameters[strings.ToLower(urlpath.Decode(name))] {
			continue
		}
		if !assigned || !bodytext.IsFieldName([]byte(name)) {
			texts = append(texts, outsideReadings(name)...)
		}
		texts = append(texts, outsideReadings(value)...)
	}
	if r.Operation != api.Proxy {
		return texts
	}
	for segment := range strings.SplitSeq(r.Received.Path, "/") {
		if !isPathName(urlpath.Decode(segment)) {
			texts = append(texts, outsideReadings(segment)...)
		}
	}
	return append(texts, headerTexts(r)...)
}

// credentialParameters are the parameters of queries in which providers take credentials, or the
// signature of an address.
var credentialParameters = map[string]bool{
	"key": true, "api_key": true, "api-key": true, "apikey": true, "access_token": true, "token": true, "sig": true, "signature": true,
	"x-amz-signature": true, "x-amz-credential": true, "x-amz-security-token": true, "x-goog-signature": true, "x-goog-credential": true,
}

// isPathName reports whether a segment of a path is a name of an API or an identifier.
func isPathName(segment string) bool {
	return segment == "" || bodytext.IsFieldName([]byte(segment)) || isIdentifier(segment)
}

// isIdentifier reports whether a text is a word with a digit.
func isIdentifier(text string) bool {
	return strings.ContainsAny(text, "0123456789") && !strings.ContainsFunc(text, func(c rune) bool {
		return c >= utf8.RuneSelf || !isWordByte(byte(c)) && !strings.ContainsRune("-.:@", c)
	})
}

// protocolHeaders are headers of clients whose values servers and libraries read, not models.
var protocolHeaders = map[string]bool{
	"User-Agent": true, "Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Accept-Charset": true, "Content-Type": true,
	"Content-Encoding": true, "Content-Language": true, "Content-Md5": true, "Content-Range": true,
	"Content-Disposition": true, "Cache-Control": true, "Pragma": true, "Range": true,
	"Date": true, "Digest": true, "Dnt": true, "Origin": true, "Priority": true, "Idempotency-Key": true,
	"Traceparent": true, "Tracestate": true, "Upgrade-Insecure-Requests": true,
	"If-Match": true, "If-None-Match": true, "If-Modified-Since": true, "If-Unmodified-Since": true, "If-Range": true,
	"Anthropic-Version": true, "Anthropic-Beta": true, "Openai-Beta": true, "Openai-Organization": true,
	"Openai-Project": true, "X-Request-Id": true,
}

// headerTexts returns the text of the headers that pass to a provider.
func headerTexts(r *exchange.Request) (texts []string) {
	h := make(http.Header, len(r.Received.Header))
	upstream.CopyRequestHeader(h, r.Received.Header)
	upstream.DropFamilies(h, r.Received.HeaderPrefixes)
	maps.DeleteFunc(h, func(name string, values []string) bool {
		return protocolHeaders[name] || strings.HasPrefix(name, "X-Stainless-") || strings.HasPrefix(name, "Sec-") || r.Received.HoldsKey(values)
	})
	for _, name := range slices.Sorted(maps.Keys(h)) {
		texts = append(texts, outsideReadings(strings.ReplaceAll(name, "-", " "))...)
		for _, value := range h[name] {
			texts = append(texts, outsideReadings(value)...)
		}
	}
	return texts
}

// decodings are how texts outside of bodies are encoded.
var decodings = [...]func(string) string{urlpath.Decode, decodeWords}

func decodeWords(text string) string {
	var d mime.WordDecoder
	if plain, err := d.DecodeHeader(text); err == nil {
		return plain
	}
	return text
}

// maxDecodings is how often a text is decoded: servers behind each other may each do it.
const maxDecodings = 3

// outsideReadings returns a text outside of a body as it was sent and as it is decoded.
func outsideReadings(text string) (list []string) {
	if text == "" {
		return nil
	}
	list = append(list, text)
	for range maxDecodings {
		for _, decode := range decodings {
			if plain := decode(text); plain != text {
				list, text = append(list, plain), plain
			}
		}
	}
	for _, reading := range bodytext.Readings(text, bodytext.Content) {
		list = append(list, reading.Text)
	}
	return list
}

// checkEncoding returns the denial of a request of which readers could read other text than the
// hooks, by what it says about its encoding. outside is its text outside of the body.
func checkEncoding(r *exchange.Request, outside []string, g *exchange.Guards, l *CheckLog) error {
	problem := ""
	if slices.ContainsFunc(outside, func(text string) bool { return !isReadable([]byte(text)) }) {
		problem = "has text in its path, query or headers that is not in UTF-8"
	}
	if r.Received.Upload != nil && len(r.Received.Upload.Trailer) > 0 {
		problem = cmp.Or(problem, "has trailers, which follow what is checked")
	}
	if r.Received.Upload != nil || r.Received.Body != nil && r.Received.Body.Len() > 0 {
		problem = cmp.Or(problem, charsetProblem(r.Received.Header["Content-Type"]))
	}
	switch {
	case problem == "":
		return nil
	case acts(g.Before):
		return unchecked("the request %s", problem)
	}
	l.notCovered("encoding")
	return nil
}

// checkAside runs the hooks on texts next to the rows. They cannot be changed.
func (c *rowChecks) checkAside(texts []string) error {
	if len(texts) == 0 || len(c.hooks) == 0 {
		return nil
	}
	in := guardrail.Input{Event: c.on, Request: c.log.facts(c.request, nil), Parts: asideParts(texts), Aside: true}
	out := guardrail.Run(c.ctx, c.hooks, &in, nil)
	if c.ctx.Err() != nil {
		return apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(c.ctx))
	}
	if out.Failed || out.Transformed {
		hideTexts(c.on, out.Results)
		c.log.record(c.on, c.path, out.Results)
	}
	if out.Denied {
		return denied(exchange.HookResults{Before: out.Results})
	}
	return checkUnchanged(in.Parts, out)
}

// checkUnchanged returns the denial of a request if a hook changed one of the strings outside of its
// body, which are the last parts that it read.
func checkUnchanged(outside []guardrail.Part, out *guardrail.Outcome) error {
	first := len(out.Parts) - len(outside)
	if first < 0 {
		return nil
	}
	for i, part := range outside {
		if out.Parts[first+i].Text != part.Text {
			return apierr.New(apierr.Denied, "a guardrail changes text in the query, the path, a header, or the name of a field or file of the request, which the gateway cannot rewrite; remove it, or send it in the body").WithCode(codeRequestUnchecked)
		}
	}
	return nil
}

// withoutFields returns a query without the parameters that have the name of a header field that
// only hooks set, in any spelling: a server may take them for the same.
func withoutFields(query string, fields []string) string {
	if len(fields) == 0 || query == "" {
		return query
	}
	var b strings.Builder
	changed := false
	for rest := query; rest != ""; {
		n := strings.IndexAny(rest, "&;") + 1
		if n == 0 {
			n = len(rest)
		}
		name, _, _ := strings.Cut(strings.TrimRight(rest[:n], "&;"), "=")
		name, _, _ = strings.Cut(urlpath.Decode(name), "[")
		if guardrail.IsField(name, fields) {
			changed = true
		} else {
			b.WriteString(rest[:n])
		}
		rest = rest[n:]
	}
	if !changed {
		return query
	}
	return strings.TrimRight(b.String(), "&;")
}
