package dataplane_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// form returns a multipart body with these fields in order; one named file is a
// file of that many bytes.
func form(t *testing.T, fields ...[2]string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		if f[0] != "file" {
			w.WriteField(f[0], f[1])
			continue
		}
		part, err := w.CreateFormFile("file", f[1])
		if err != nil {
			t.Fatal(err)
		}
		part.Write(bytes.Repeat([]byte{0, 1, 2, 255}, 8<<10))
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func TestTheModelOfAFormIsRecorded(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for _, tt := range []struct {
		name   string
		fields [][2]string
	}{
		{"before the file", [][2]string{{"model", "whisper-1"}, {"file", "a.mp3"}}},
		{"after the file", [][2]string{{"file", "a.mp3"}, {"model", "whisper-1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, contentType := form(t, tt.fields...)
			res := g.Post("/audio/transcriptions", body, "Content-Type", contentType)
			if res.Status != http.StatusOK {
				t.Fatalf("status %d: %s", res.Status, res.Body)
			}
			e := g.Entry(res)
			if e["model"] != "whisper-1" || e["request_bytes"] != float64(len(body)) {
				t.Errorf("recorded model %v and %v bytes, want whisper-1 and %d", e["model"], e["request_bytes"], len(body))
			}
		})
	}
}

// heardForm is a form as the provider reads it.
type heardForm struct {
	uri    string
	length int64
	fields [][2]string // names and values in order; of a file its size
	err    error
}

// forms is a provider that reads forms.
type forms struct {
	mu   sync.Mutex
	last heardForm // guarded by mu
}

func (f *forms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := heardForm{uri: r.RequestURI, length: r.ContentLength}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		got.err = err
	}
	for parts := multipart.NewReader(r.Body, params["boundary"]); got.err == nil; {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if got.err = err; err != nil {
			break
		}
		var value strings.Builder
		if part.FileName() != "" {
			n, err := io.Copy(io.Discard, part)
			got.err = err
			fmt.Fprintf(&value, "%s of %d", part.FileName(), n)
		} else {
			_, got.err = io.Copy(&value, part)
		}
		got.fields = append(got.fields, [2]string{part.FormName(), value.String()})
	}
	f.mu.Lock()
	f.last = got
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"text":"hello"}`)
}

func (f *forms) taken() heardForm {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.last
	f.last = heardForm{}
	return got
}

func TestAFormNamesItsProviderInTheModel(t *testing.T) {
	t.Parallel()
	up := new(forms)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up, Settings: `version: 1
providers:
  - {slug: oa, provider: openai, custom_host: "SIMULATOR/oa", api_key: "${PAIR_KEY}"}
  - {slug: two, provider: openai, custom_host: "SIMULATOR/two", api_key: "${PAIR_KEY}"}
`})
	file := [2]string{"file", "a.mp3"}
	for _, tt := range []struct {
		name, path string
		fields     [][2]string
		uri        string
		want       [][2]string
	}{
		{"model first", "/audio/transcriptions", [][2]string{{"model", "@oa/whisper-1"}, file}, "/v1/oa/audio/transcriptions", [][2]string{{"model", "whisper-1"}, {"file", "a.mp3 of 32768"}}},
		{"model last", "/audio/transcriptions", [][2]string{file, {"language", "en"}, {"model", "@oa/whisper-1"}}, "/v1/oa/audio/transcriptions", [][2]string{{"file", "a.mp3 of 32768"}, {"language", "en"}, {"model", "whisper-1"}}},
		{"model in the middle", "/audio/translations", [][2]string{{"prompt", "p"}, file, {"model", "@two/org/m"}, {"temperature", "0"}}, "/v1/two/audio/translations", [][2]string{{"prompt", "p"}, {"file", "a.mp3 of 32768"}, {"model", "org/m"}, {"temperature", "0"}}},
		{"an edit of an image", "/images/edits", [][2]string{{"prompt", "@oa/x"}, file, {"model", "@two/gpt-image-1"}}, "/v1/two/images/edits", [][2]string{{"prompt", "@oa/x"}, {"file", "a.mp3 of 32768"}, {"model", "gpt-image-1"}}},
		{"a variation", "/images/variations", [][2]string{file, {"model", "@oa/dall-e-2"}}, "/v1/oa/images/variations", [][2]string{{"file", "a.mp3 of 32768"}, {"model", "dall-e-2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, contentType := form(t, tt.fields...)
			for _, chunked := range []bool{false, true} {
				req := g.Request(http.MethodPost, tt.path, body, "Content-Type", contentType)
				req.Header.Del("X-Gateway-Provider")
				if chunked {
					req.ContentLength, req.Body = -1, io.NopCloser(strings.NewReader(body))
				}
				res := g.Do(req)
				got := up.taken()
				if res.Status != http.StatusOK || got.err != nil || got.uri != tt.uri || fmt.Sprint(got.fields) != fmt.Sprint(tt.want) {
					t.Fatalf("chunked %t: status %d: %s\n got %s %q, %v\nwant %s %q", chunked, res.Status, res.Body, got.uri, got.fields, got.err, tt.uri, tt.want)
				}
				if !chunked && got.length <= 0 || chunked && got.length != -1 {
					t.Errorf("chunked %t: length %d at the provider", chunked, got.length)
				}
				e := g.Entry(res)
				if e["request_bytes"] != float64(len(body)) || e["provider_slug"] != strings.Split(tt.uri, "/")[2] {
					t.Errorf("recorded %v bytes and %v, want %d", e["request_bytes"], e["provider_slug"], len(body))
				}
				if model := e["model"]; model != tt.want[len(tt.want)-1][1] && tt.name != "model first" && tt.name != "model in the middle" {
					t.Errorf("recorded model %v", model)
				}
			}
		})
	}
	for _, tt := range []struct {
		name   string
		fields [][2]string
		status int
		code   string
	}{
		{"no model", [][2]string{file}, 400, "missing_provider"},
		{"a plain model", [][2]string{{"model", "whisper-1"}, file}, 400, "missing_provider"},
		{"a model in JSON", [][2]string{{"options", `{"model":"@oa/whisper-1"}`}, file}, 400, "missing_provider"},
		{"an unknown provider", [][2]string{{"model", "@nobody/whisper-1"}, file}, 404, "unknown_slug"},
		{"a model that is too long", [][2]string{{"model", "@oa/" + strings.Repeat("x", 300)}, file}, 400, "missing_provider"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, contentType := form(t, tt.fields...)
			req := g.Request(http.MethodPost, "/audio/transcriptions", body, "Content-Type", contentType)
			req.Header.Del("X-Gateway-Provider")
			res := g.Do(req)
			if got := up.taken(); res.Status != tt.status || !strings.Contains(string(res.Body), tt.code) || got.uri != "" {
				t.Errorf("status %d, want %d %s: %s; sent to %q", res.Status, tt.status, tt.code, res.Body, got.uri)
			}
		})
	}
	t.Run("a config that leaves the provider to the request", func(t *testing.T) {
		body, contentType := form(t, file, [2]string{"model", "@two/whisper-1"})
		req := g.Request(http.MethodPost, "/audio/transcriptions", body, "Content-Type", contentType, "x-gateway-config", `{"retry":{"attempts":1}}`)
		req.Header.Del("X-Gateway-Provider")
		if res := g.Do(req); res.Status != 200 || up.taken().uri != "/v1/two/audio/transcriptions" {
			t.Errorf("status %d: %s", res.Status, res.Body)
		}
	})
	t.Run("with a provider in the header the form is sent as it came", func(t *testing.T) {
		body, contentType := form(t, [2]string{"model", "@oa/whisper-1"}, file)
		res := g.Post("/audio/transcriptions", body, "Content-Type", contentType, "x-gateway-provider", "@two")
		if got := up.taken(); res.Status != 200 || got.length != int64(len(body)) || got.fields[0][1] != "@oa/whisper-1" {
			t.Errorf("status %d: sent %q of %d bytes", res.Status, got.fields, got.length)
		}
	})
}

// endless is a form whose file is longer than any limit of memory.
func endless(before, after string, size int64) io.Reader {
	return io.MultiReader(strings.NewReader("--b\r\n"+before+"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"),
		io.LimitReader(zeros{}, size), strings.NewReader("\r\n"+after+"--b--\r\n"))
}

const modelPart = "Content-Disposition: form-data; name=\"model\"\r\n\r\n@oa/whisper-1\r\n"

// The model is looked for in the first 32 MiB; what follows it is never held.
func TestALargeFormIsNotHeld(t *testing.T) {
	up := new(forms)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up, Settings: `version: 1
limits: {body_memory: 120 MB}
providers:
  - {slug: oa, provider: openai, custom_host: "SIMULATOR/oa", api_key: "${PAIR_KEY}"}
`})
	send := func(body io.Reader) gatewaytest.Response {
		req := g.Request(http.MethodPost, "/audio/transcriptions", "", "Content-Type", "multipart/form-data; boundary=b")
		req.Header.Del("X-Gateway-Provider")
		req.ContentLength, req.Body, req.GetBody = -1, io.NopCloser(body), nil
		return g.Do(req)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := send(endless(modelPart+"--b\r\n", "", 300<<20))
	runtime.ReadMemStats(&after)
	if got := up.taken(); res.Status != 200 || got.err != nil || len(got.fields) != 2 || got.fields[1][1] != fmt.Sprintf("a of %d", 300<<20) {
		t.Fatalf("the model first: status %d: %s; sent %q, %v", res.Status, res.Body, got.fields, got.err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 30<<20 {
		t.Errorf("%d bytes were allocated for 300 MiB", grown)
	}
	res = send(endless("", "--b\r\n"+modelPart, 25<<20))
	if got := up.taken(); res.Status != 200 || got.err != nil || len(got.fields) != 2 || got.fields[1][1] != "whisper-1" {
		t.Errorf("the model behind 25 MiB: status %d: %s; sent %q, %v", res.Status, res.Body, got.fields, got.err)
	}
	res = send(endless("", "--b\r\n"+modelPart, 40<<20))
	if got := up.taken(); res.Status != 400 || !strings.Contains(string(res.Body), "33554432") || got.uri != "" {
		t.Errorf("the model behind 40 MiB: status %d: %s; sent to %q", res.Status, res.Body, got.uri)
	}
	for i := range 6 { // memory that is held too long would run out
		if res := send(endless("", "--b\r\n"+modelPart, 25<<20)); res.Status != 200 {
			t.Fatalf("upload %d: status %d: %s", i, res.Status, res.Body)
		}
	}
}
