package dataplane_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// filesProvider stores the last upload that arrived complete, and sends a file.
type filesProvider struct {
	file     string // sent by GET
	kind     string // its type
	packed   bool
	uploaded atomic.Pointer[string] // content of the part file
	partial  atomic.Pointer[string] // bytes of an upload, however it ended
}

func (p *filesProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", p.kind)
		body := []byte(p.file)
		if p.packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write(body)
			z.Close()
			body = b.Bytes()
			w.Header().Set("Content-Encoding", "gzip")
		}
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusPartialContent)
			body = body[1:]
		}
		w.Write(body)
		return
	}
	body, err := io.ReadAll(r.Body)
	text := string(body)
	p.partial.Store(&text)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	file, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	content, _ := io.ReadAll(file)
	text = string(content)
	p.uploaded.Store(&text)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"file-1","object":"file","purpose":%q,"bytes":%d}`, r.FormValue("purpose"), len(content))
}

func newFiles(file, kind string) *filesProvider {
	p := &filesProvider{file: file, kind: kind}
	none := ""
	p.uploaded.Store(&none)
	p.partial.Store(&none)
	return p
}

func batchRow(id, text string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":%q}]}}`, id, text)
}

// formOf returns a form with a file, and its type. before is whether the purpose comes
// first.
func formOf(t *testing.T, purpose, content string, before bool, header ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if before {
		w.WriteField("purpose", purpose)
	}
	h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="rows.jsonl"`}, "Content-Type": {"application/jsonl"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	part, err := w.CreatePart(h)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(part, content)
	if !before {
		w.WriteField("purpose", purpose)
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func sendFile(g *gatewaytest.Gateway, config, body, kind string) gatewaytest.Response {
	return g.Post("/files", body, "x-gateway-provider", "", "x-gateway-config", config, "Content-Type", kind)
}

func TestRowsOfBatchesAreCheckedBeforeTheyLeave(t *testing.T) {
	t.Parallel()
	p := newFiles("", "")
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded})
	deny := guarded(`"input_guardrails":[` + denyBad + `]`)
	fine := batchRow("a", "hi") + "\n" + batchRow("b", "there")
	long := strings.Repeat(batchRow("x", strings.Repeat("long ", 2000))+"\n", 40)
	cases := []struct {
		name, purpose, content string
		header                 []string
		status                 int
		want                   string // in the response
	}{
		{"fine rows", "batch", fine, nil, 200, `"bytes":`},
		{"fine rows with a line at the end", "batch", fine + "\r\n\r\n", nil, 200, `"bytes":`},
		{"many fine rows", "batch", long, nil, 200, `"bytes":`},
		{"a denied row", "batch", fine + "\n" + batchRow("c", "so bad"), nil, 446, `row 3 (custom_id \"c\")`},
		{"a denied row after many", "batch", long + batchRow("c", "so bad"), nil, 446, `row 41`},
		{"escaped", "batch", strings.ReplaceAll(batchRow("c", "so bad"), "bad", `b\u0061d`), nil, 446, "row 1"},
		{"an unknown address", "batch", strings.ReplaceAll(batchRow("c", "so bad"), "chat/completions", "other"), nil, 446, "row 1"},
		{"two bodies", "batch", strings.Replace(batchRow("c", "so bad"), `"body"`, `"body":{"messages":[]},"body"`, 1), nil, 446, "row 1: is not"},
		{"two rows in a line", "batch", batchRow("a", "hi") + " " + batchRow("c", "so bad"), nil, 446, "request_unchecked"},
		{"no JSON", "batch", "so bad", nil, 446, "request_unchecked"},
		{"a byte order mark", "batch", "\ufeff" + batchRow("c", "so bad"), nil, 446, "request_unchecked"},
		{"a transfer encoding", "batch", "c28gYmFk", []string{"Content-Transfer-Encoding", "base64"}, 446, "request_unchecked"},
		{"training data", "fine-tune", `{"messages":[{"role":"user","content":"so bad"}]}`, nil, 446, "row 1"},
		{"another file", "assistants", "so bad", nil, 200, `"bytes":6`},
	}
	for _, before := range []bool{true, false} { // a broken upload may be noticed late
		for _, tt := range cases {
			none := ""
			p.uploaded.Store(&none)
			p.partial.Store(&none)
			body, kind := formOf(t, tt.purpose, tt.content, before, tt.header...)
			res := sendFile(g, deny, body, kind)
			got, part := *p.uploaded.Load(), *p.partial.Load()
			if res.Status != tt.status || !strings.Contains(string(res.Body), tt.want) {
				t.Errorf("%s, purpose first %t: status %d, want %d with %s: %.400s", tt.name, before, res.Status, tt.status, tt.want, res.Body)
			}
			if tt.status == 200 && got != tt.content {
				t.Errorf("%s, purpose first %t: the provider got %.200q, want %.200q", tt.name, before, got, tt.content)
			}
			if tt.status != 200 && (got != "" || before && strings.Contains(part, "so bad")) {
				t.Errorf("%s, purpose first %t: the provider has the file %.100q of %.300q", tt.name, before, got, part)
			}
		}
	}
}

func TestRowsOfBatchesAreRedacted(t *testing.T) {
	t.Parallel()
	p := newFiles("", "")
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded})
	body, kind := formOf(t, "batch", batchRow("a", "hello you")+"\n"+batchRow("b", "fine")+"\n", true)
	res := sendFile(g, guarded(`"input_guardrails":[{"default.regexReplace":{"rule":"hello","redactText":"[gone]"}}]`), body, kind)
	if want := batchRow("a", "[gone] you") + "\n" + batchRow("b", "fine") + "\n"; res.Status != 200 || *p.uploaded.Load() != want {
		t.Errorf("status %d, the provider got %q, want %q", res.Status, *p.uploaded.Load(), want)
	}
	res = sendFile(g, guarded(`"input_guardrails":[{"deny":true,"default.modelWhitelist":{"models":["other"]}}]`), body, kind)
	if res.Status != 446 || !strings.Contains(string(res.Body), "row 1") {
		t.Errorf("rows with a model that is not allowed: status %d: %s", res.Status, res.Body)
	}
}

func TestLogSaysWhatOfBatchesWasNotChecked(t *testing.T) {
	t.Parallel()
	files := newFiles("", "")
	up := httptest.NewServer(files)
	defer up.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: files, Settings: unrecorded, Managed: []snapshot.ManagedProvider{
		{Slug: "openai", Provider: "openai", Settings: provider.Settings{Key: secret.New("k"), CustomHost: up.URL + "/v1"}},
	}})
	shadow := guarded(`"input_guardrails":[{"mode":"shadow","default.contains":{"words":["bad"],"operator":"none"}}]`)
	deny := guarded(`"input_guardrails":[` + denyBad + `]`)
	body, kind := formOf(t, "batch", batchRow("a", "so bad"), true)
	plain, plainKind := formOf(t, "assistants", "so bad", true)
	for _, tt := range []struct {
		name, want string
		res        gatewaytest.Response
	}{
		{"rows in shadow mode", "rows for async and shadow guardrails", sendFile(g, shadow, body, kind)},
		{"a file without rows", "request body", sendFile(g, deny, plain, plainKind)},
		{"a batch", "batch file", g.Post("/batches", `{"input_file_id":"file-2","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "x-gateway-provider", "", "x-gateway-config", strings.Replace(deny, "@simulator", "@openai", 1))},
	} {
		entry := entryOf(t, g, tt.res.Header.Get("x-gateway-trace-id"))
		if at(entry, "unchecked.0") != tt.want {
			t.Errorf("%s: status %d, unchecked = %v, want %s: %s", tt.name, tt.res.Status, entry["unchecked"], tt.want, tt.res.Body)
		}
	}
}

func TestRowsOfResultsAreCheckedAsTheyPass(t *testing.T) {
	t.Parallel()
	result := func(id, text string) string {
		return fmt.Sprintf(`{"id":"r","custom_id":%q,"response":{"status_code":200,"body":{"object":"chat.completion","choices":[{"message":{"role":"assistant","content":%q}}]}},"error":null}`, id, text)
	}
	const message = `{"custom_id":"c","result":{"type":"succeeded","message":{"content":[{"type":"text","text":"so bad"}]}}}`
	deny := guarded(`"output_guardrails":[` + denyBad + `]`)
	redact := guarded(`"output_guardrails":[{"default.regexReplace":{"rule":"bad","redactText":"[gone]"}}]`)
	for _, tt := range []struct {
		name, file, kind, config string
		status                   int
		want                     []string
	}{
		{"a denied row", result("a", "fine") + "\n" + result("b", "so bad") + "\n", "application/octet-stream", deny, 200, []string{result("a", "fine") + "\n", `"custom_id":"b","error":{"code":"denied_by_guardrail"`}},
		{"a row of messages", message, "application/x-jsonl", deny, 200, []string{`"custom_id":"c"`, `"type":"errored"`}},
		{"a changed row", result("a", "so bad") + "\n", "application/jsonl", redact, 200, []string{result("a", "so [gone]") + "\n"}},
		{"a first line other than JSON", "{so bad\n" + result("a", "fine") + "\n", "application/jsonl", deny, 200, []string{result("a", "fine"), "request_unchecked"}},
		{"a later line other than JSON", result("a", "fine") + "\n{so bad\n", "text/plain", deny, 200, []string{result("a", "fine"), "request_unchecked"}},
		{"a line other than JSON", result("a", "fine") + "\nso bad\n", "application/jsonl", deny, 200, []string{result("a", "fine"), "request_unchecked"}},
	} {
		for _, packed := range []bool{false, true} {
			p := newFiles(tt.file, tt.kind)
			p.packed = packed
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded})
			res := g.Get("/files/file-1/content", "x-gateway-provider", "", "x-gateway-config", tt.config)
			if res.Status != tt.status || strings.Contains(string(res.Body), "so bad") {
				t.Errorf("%s, packed %t: status %d: %s", tt.name, packed, res.Status, res.Body)
			}
			for _, part := range tt.want {
				if !strings.Contains(string(res.Body), part) {
					t.Errorf("%s, packed %t: %s lacks %s", tt.name, packed, res.Body, part)
				}
			}
			if res := g.Get("/files/file-1/content", "x-gateway-provider", "", "x-gateway-config", tt.config, "Range", "bytes=1-"); res.Status != 446 {
				t.Errorf("%s: a part of the file has status %d: %s", tt.name, res.Status, res.Body)
			}
		}
	}
	for _, tt := range []struct{ file, kind string }{
		{"%PDF so bad", "application/pdf"},
		{"{template} so bad\nso bad\n" + result("a", "so bad") + "\n", "text/plain"},
		{"{\n  \"so bad\": 1\n}", "application/octet-stream"},
	} {
		p := newFiles(tt.file, tt.kind)
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: p, Settings: unrecorded})
		for _, path := range []string{"/files/file-1/content", "/unknown/notes.txt"} {
			res := g.Get(path, "x-gateway-provider", "", "x-gateway-config", deny)
			if res.Status != 200 || string(res.Body) != p.file {
				t.Errorf("%s without rows at %s: status %d: %s", tt.kind, path, res.Status, res.Body)
			}
			if got := at(entryOf(t, g, res.Header.Get("x-gateway-trace-id")), "unchecked.0"); got != "response body" {
				t.Errorf("%s without rows at %s: unchecked %v, want the response body", tt.kind, path, got)
			}
		}
	}
}

// unrecorded are settings that let requests through to objects without a record.
const unrecorded = "files: {unrecorded: pass}\n"
