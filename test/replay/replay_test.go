// Package replay sends recorded provider traffic, and bodies of every size and
// kind, through a whole gateway.
//
// It promises that what providers really send and clients really ask reaches
// the other side unchanged, however the network cuts it, and that the log says
// of each exchange what the recording says. The recordings lie next to the
// repository; where they are absent their tests are left out. What single
// packages make of them is the subject of the tests next to those packages.
package replay

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const recordings = "../../../shared/recordings"

// tape is one recording: exchanges in the order they were made.
type tape struct {
	file      string
	Exchanges []*exchange
}

// exchange is one recorded call of a provider.
type exchange struct {
	name     string // file and number
	tape, n  int
	Provider string
	API      string
	Stream   bool
	Tags     []string
	Request  struct {
		Method  string
		URL     string
		Headers map[string]string
		Body    json.RawMessage
		Base64  []byte `json:"body_base64"`
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    string
		Base64  []byte `json:"body_base64"`
	}
}

// mustTapes reads the recordings that hold one of the APIs, in order of name.
func mustTapes(t *testing.T, apis ...string) []*tape {
	t.Helper()
	if _, err := os.Stat(recordings); err != nil {
		t.Skipf("no recordings in %s", recordings)
	}
	files, err := filepath.Glob(filepath.Join(recordings, "*", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tapes []*tape
	for _, file := range files {
		if api := filepath.Base(filepath.Dir(file)); !slices.Contains(apis, api) {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := &tape{file: strings.TrimPrefix(file, recordings+"/")}
		if err := json.Unmarshal(b, p); err != nil {
			t.Fatalf("%s: %v", p.file, err)
		}
		for n, x := range p.Exchanges {
			if len(x.Request.Body) > 0 && string(x.Request.Body) != "null" {
				x.Request.Body = x.asking(x.Request.Body)
			}
			x.tape, x.n, x.name = len(tapes), n, p.file+"#"+string(rune('0'+n%10))
			if n >= 10 {
				x.name = p.file + "#" + string(rune('0'+n/10)) + string(rune('0'+n%10))
			}
		}
		tapes = append(tapes, p)
	}
	return tapes
}

// body returns the response's bytes.
func (x *exchange) body() []byte {
	if x.Response.Base64 != nil {
		return x.Response.Base64
	}
	return []byte(x.Response.Body)
}

// streamed reports whether the response is a stream of events.
func (x *exchange) streamed() bool {
	return strings.HasPrefix(x.Response.Headers["content-type"], "text/event-stream")
}

// target returns path and query as in the request line.
func (x *exchange) target(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(x.Request.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.RequestURI()
}

const form = "--edge\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nrecorded-model\r\n" +
	"--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n\x00\x01\xff\r\n\r\n--edge--\r\n"

// sent returns the recorded request's body as in the recording, and
// its content type. One that was not recorded is made up.
func (x *exchange) sent() (body []byte, contentType string) {
	contentType = x.Request.Headers["content-type"]
	switch {
	case x.Request.Base64 != nil:
		return x.Request.Base64, contentType
	case len(x.Request.Body) > 0 && string(x.Request.Body) != "null":
		return x.Request.Body, "application/json"
	case x.Request.Method != http.MethodPost:
		return nil, contentType
	case x.API == "audio" || strings.HasSuffix(x.Request.URL, "/images/edits"):
		return []byte(form), "multipart/form-data; boundary=edge"
	}
	return x.asking(x.madeUp()), "application/json"
}

// asking returns the body with a request for the usage of a stream, so that the
// gateway does not make one and the client gets the stream as it was recorded.
func (x *exchange) asking(body []byte) []byte {
	if !x.streamed() || x.unifiedPath() == "" || x.API == "images" || bytes.Contains(body, []byte("stream_options")) {
		return body
	}
	return append([]byte(`{"stream_options": {"include_usage": true}, `), bytes.TrimLeft(body, "{ \n")...)
}

func (x *exchange) madeUp() []byte {
	conversation := x.API == "chat-completions" || x.API == "chat"
	switch {
	case x.API == "embeddings":
		return []byte(`{"model":"recorded-model", "input":"Hello."}`)
	case conversation && x.streamed():
		return []byte(`{"model":"recorded-model", "messages":[{"role":"user","content":"Hello."}], "stream":true}`)
	case conversation:
		return []byte(`{"model":"recorded-model", "messages":[{"role":"user","content":"Hello."}]}`)
	case x.streamed():
		return []byte(`{"model":"recorded-model", "prompt":"Hello.", "stream":true}`)
	}
	return []byte(`{"model":"recorded-model", "prompt":"Hello."}`)
}

// recorded reports whether the request's body is a JSON value of the recording.
func (x *exchange) recorded() bool {
	return len(x.Request.Body) > 0 && string(x.Request.Body) != "null"
}
