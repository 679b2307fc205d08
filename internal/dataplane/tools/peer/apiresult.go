package peer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/provider/health"
)

// maxAPIError is how much of the body of an error models read, in bytes.
const maxAPIError = 32 << 10

// resultOfAPI returns the result of a tool that a response of an API is.
func resultOfAPI(resp *http.Response, body []byte) []byte {
	if resp.StatusCode >= 400 {
		text := explainStatus(resp)
		if about := strings.ToValidUTF8(string(body), "\uFFFD"); about != "" && !strings.ContainsRune(about, 0) {
			text += "\n\n" + about
		}
		return toolText(text, true)
	}
	kind := strings.ToLower(mediaType(resp.Header.Get("Content-Type")))
	switch isText := utf8.Valid(body) && !strings.ContainsRune(string(body[:min(len(body), 1024)]), 0); {
	case len(body) == 0:
		return toolText(statusText(resp.StatusCode), false)
	case isText && isJSONType(kind) && json.Valid(body):
		return toolJSON(body)
	case strings.HasPrefix(kind, "image/"), strings.HasPrefix(kind, "audio/"):
		return toolBlob(kind, body)
	case isText:
		return toolText(string(body), false)
	}
	return toolBlob(kind, body)
}

func isJSONType(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func statusText(status int) string {
	return strings.TrimSpace("HTTP " + strconv.Itoa(status) + " " + http.StatusText(status))
}

// explainStatus returns what the status of an error means to who called the tool.
func explainStatus(resp *http.Response) string {
	text := statusText(resp.StatusCode)
	switch status := resp.StatusCode; {
	case status == http.StatusForbidden:
		text += ": the credential of the gateway may not do this"
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		text += ": the API asks to wait"
		if wait, ok := health.RetryAfter(resp.Header, time.Now()); ok {
			text += fmt.Sprintf(" %.0f s", min(max(wait, 0), maxWait).Seconds())
		}
	case status >= 500:
		text += ": the API failed"
	}
	return text
}

// toolText returns the result of a tool, of only a string.
func toolText(text string, isError bool) []byte {
	var b jsonedit.Builder
	openResult(&b)
	b.Name("type")
	b.String("text")
	b.Name("text")
	b.String(text)
	closeContent(&b)
	if isError {
		b.Name("isError")
		b.Bool(true)
	}
	b.Close('}')
	return b.Bytes()
}

// toolJSON returns the result of a tool that is JSON: as text, and an object also as structured
// content.
func toolJSON(body []byte) []byte {
	var b jsonedit.Builder
	openResult(&b)
	b.Name("type")
	b.String("text")
	b.Name("text")
	b.String(string(body))
	closeContent(&b)
	if isObject(body) {
		b.Name("structuredContent")
		b.Raw(body)
	}
	b.Close('}')
	return b.Bytes()
}

// toolBlob returns the result of a tool that is not text.
func toolBlob(kind string, body []byte) []byte {
	var b jsonedit.Builder
	openResult(&b)
	data := base64.StdEncoding.EncodeToString(body)
	before, _, _ := strings.Cut(kind, "/")
	b.Name("type")
	if before == "image" || before == "audio" {
		b.String(before)
		b.Name("data")
		b.String(data)
		b.Name("mimeType")
		b.String(kind)
	} else {
		b.String("resource")
		b.Name("resource")
		b.Open('{')
		b.Name("uri")
		b.String("urn:modelgate:response")
		if kind != "" {
			b.Name("mimeType")
			b.String(kind)
		}
		b.Name("blob")
		b.String(data)
		b.Close('}')
	}
	closeContent(&b)
	b.Close('}')
	return b.Bytes()
}

// openResult begins a result and its only content.
func openResult(b *jsonedit.Builder) {
	b.Open('{')
	b.Name("resultType")
	b.String("complete")
	b.Name("content")
	b.Open('[')
	b.Open('{')
}

func closeContent(b *jsonedit.Builder) {
	b.Close('}')
	b.Close(']')
}
