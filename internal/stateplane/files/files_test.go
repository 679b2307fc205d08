package files_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// start starts a gateway with OpenAI's files, of the simulator, as @openai.
func start(t *testing.T, settings string) *gatewaytest.Gateway {
	t.Helper()
	t.Setenv("SIM_KEY", gatewaytest.SimulatorKey)
	return gatewaytest.New(t, gatewaytest.Options{MasterKey: "files-master-key-0123456789abcdef", Data: t.TempDir(), Settings: `version: 1
providers:
  - {slug: openai, provider: openai, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
  - {slug: claude, provider: anthropic, custom_host: "SIMULATOR", api_key: "${SIM_KEY}"}
` + settings})
}

// field is a field of a form; one with a name is a file.
type field struct{ name, filename, content string }

// form returns a form and its content type.
func form(fields ...field) (body, contentType string) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf) // writes to memory
	for _, f := range fields {
		if f.filename == "" {
			w.WriteField(f.name, f.content)
			continue
		}
		part, _ := w.CreateFormFile(f.name, f.filename)
		io.WriteString(part, f.content)
	}
	w.Close()
	return buf.String(), w.FormDataContentType()
}

// send sends a form without naming a provider, unless headers do.
func send(g *gatewaytest.Gateway, path string, fields []field, h ...string) gatewaytest.Response {
	body, kind := form(fields...)
	return g.Post(path, body, append([]string{"x-gateway-provider", "", "Content-Type", kind}, h...)...)
}

func get(g *gatewaytest.Gateway, path string, h ...string) gatewaytest.Response {
	return g.Get(path, append([]string{"x-gateway-provider", ""}, h...)...)
}

// mustUpload returns the id of a new file.
func mustUpload(t *testing.T, g *gatewaytest.Gateway, content string, h ...string) string {
	t.Helper()
	res := send(g, "/files", []field{{"purpose", "", "user_data"}, {"file", "a b.txt", content}}, h...)
	if res.Status != 200 {
		t.Fatalf("upload: %d %s", res.Status, res.Body)
	}
	return res.JSON(t)["id"].(string)
}

func TestAFileIsKeptAndReadInRanges(t *testing.T) {
	g := start(t, "")
	content := strings.Repeat("0123456789", 20_000)
	for _, order := range [][]field{
		{{"purpose", "", "user_data"}, {"file", "a b.txt", content}},
		{{"file", "a b.txt", content}, {"purpose", "", "user_data"}, {"expires_after[anchor]", "", "created_at"}, {"expires_after[seconds]", "", "3600"}},
	} {
		res := send(g, "/files", order)
		f := res.JSON(t)
		if res.Status != 200 || f["object"] != "file" || f["bytes"] != 200_000.0 || f["filename"] != "a b.txt" || f["purpose"] != "user_data" || f["status"] != "processed" {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		if expires, ok := f["expires_at"].(float64); ok != (len(order) > 2) || ok && expires-f["created_at"].(float64) != 3600 {
			t.Errorf("expires at %v", f["expires_at"])
		}
		path := "/files/" + f["id"].(string)
		if shown := get(g, path).JSON(t); fmt.Sprint(shown) != fmt.Sprint(f) {
			t.Errorf("read %v, want %v", shown, f)
		}
		whole := get(g, path+"/content")
		if string(whole.Body) != content || whole.Header.Get("X-Content-Type-Options") != "nosniff" || whole.Header.Get("Content-Disposition") != `attachment; filename="a b.txt"` {
			t.Errorf("content: %d bytes, %v", len(whole.Body), whole.Header)
		}
		for asked, want := range map[string]string{"bytes=5-14": content[5:15], "bytes=-3": "789", "bytes=199999-": "9", "bytes=131060-131080": content[131060:131081]} {
			if part := get(g, path+"/content", "Range", asked); part.Status != 206 || string(part.Body) != want {
				t.Errorf("%s: %d %.50q", asked, part.Status, part.Body)
			}
		}
		if part := get(g, path+"/content", "Range", "bytes=200000-"); part.Status != 416 {
			t.Errorf("beyond the end: %d", part.Status)
		}
		if same := get(g, path+"/content", "If-None-Match", whole.Header.Get("Etag")); same.Status != 304 || len(same.Body) != 0 {
			t.Errorf("unchanged: %d", same.Status)
		}
		head := g.Do(g.Request("HEAD", path+"/content", "", "x-gateway-provider", ""))
		if head.Status != 200 || head.Header.Get("Content-Length") != "200000" || len(head.Body) != 0 {
			t.Errorf("HEAD: %d %v", head.Status, head.Header)
		}
	}
}

func TestContentIsSealedOnDisk(t *testing.T) {
	g := start(t, "")
	mustUpload(t, g, strings.Repeat("canary ", 1000))
	found := 0
	filepath.WalkDir(filepath.Join(filepath.Dir(g.Settings), "blob"), func(path string, d os.DirEntry, _ error) error {
		if b, err := os.ReadFile(path); err == nil {
			found++
			if bytes.Contains(b, []byte("canary")) {
				t.Errorf("%s has the plain content", path)
			}
		}
		return nil
	})
	if found != 1 {
		t.Errorf("%d files on disk, want 1", found)
	}
}

func TestUploadsAreRefusedByName(t *testing.T) {
	g := start(t, "files: {max_size: 1 MB, workspace_quota: 2 MB}\nbatches: {max_size: 1 MB}\n")
	ok := field{"purpose", "", "user_data"}
	for name, tt := range map[string]struct {
		fields      []field
		status      int
		param, code string
	}{
		"no file":         {[]field{ok}, 400, "file", "missing_required_parameter"},
		"no purpose":      {[]field{{"file", "a", "x"}}, 400, "purpose", "missing_required_parameter"},
		"purpose":         {[]field{{"file", "a", "x"}, {"purpose", "", "fun"}}, 400, "purpose", ""},
		"result purpose":  {[]field{{"file", "a", "x"}, {"purpose", "", "batch_output"}}, 400, "purpose", ""},
		"two files":       {[]field{ok, {"file", "a", "x"}, {"file", "b", "x"}}, 400, "file", ""},
		"empty":           {[]field{ok, {"file", "a", ""}}, 400, "file", "file_empty"},
		"hostile name":    {[]field{ok, {"file", "../..", "x"}}, 400, "file", "invalid_filename"},
		"long name":       {[]field{ok, {"file", strings.Repeat("n", 256), "x"}}, 400, "file", "invalid_filename"},
		"unknown field":   {[]field{ok, {"file", "a", "x"}, {"colour", "", "red"}}, 400, "colour", "unknown_parameter"},
		"expires early":   {[]field{ok, {"file", "a", "x"}, {"expires_after[anchor]", "", "created_at"}, {"expires_after[seconds]", "", "3599"}}, 400, "expires_after", ""},
		"expires without": {[]field{ok, {"file", "a", "x"}, {"expires_after[anchor]", "", "created_at"}}, 400, "expires_after", ""},
		"too large":       {[]field{ok, {"file", "a", strings.Repeat("x", 1<<20+1)}}, 413, "file", "file_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			res := send(g, "/files", tt.fields)
			e, _ := res.JSON(t)["error"].(map[string]any)
			if res.Status != tt.status || e["param"] != tt.param || tt.code != "" && e["code"] != tt.code {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	if res := g.Post("/files", `{"file":"x"}`, "x-gateway-provider", ""); res.Status != 400 {
		t.Errorf("JSON: %d %s", res.Status, res.Body)
	}
	if list := get(g, "/files").JSON(t)["data"].([]any); len(list) != 0 {
		t.Errorf("a refused file was stored: %v", list)
	}
	for range 2 {
		mustUpload(t, g, strings.Repeat("x", 1<<20))
	}
	res := send(g, "/files", []field{ok, {"file", "a", "x"}})
	if e := res.JSON(t)["error"].(map[string]any); res.Status != 413 || e["code"] != "quota_exceeded" || !strings.Contains(e["message"].(string), "2097152 of at most 2097152") {
		t.Errorf("beyond the quota: %d %s", res.Status, res.Body)
	}
}

// TestACutUploadLeavesNothing ends connections in the middle of a form.
func TestACutUploadLeavesNothing(t *testing.T) {
	g := start(t, "")
	body, kind := form(field{"purpose", "", "user_data"}, field{"file", "a", strings.Repeat("x", 300_000)})
	for _, sent := range []int{200, 100_000, len(body) - 3} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: x\r\nx-gateway-api-key: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			gatewaytest.Key, kind, len(body), body[:sent])
		conn.Close()
	}
	waittest.Until(t, "the records of three requests", func() bool {
		return strings.Count(string(get(g, "/logs?operation=files").Body), `"method":"POST"`) == 3
	})
	if list := get(g, "/files").JSON(t)["data"].([]any); len(list) != 0 {
		t.Errorf("a cut upload was stored: %v", list)
	}
	filepath.WalkDir(filepath.Join(filepath.Dir(g.Settings), "blob"), func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.Type().IsRegular() {
			t.Errorf("%s was left", path)
		}
		return nil
	})
}

// TestWorkspacesDoNotSeeEachOthersFiles has files here and at a provider, and asks with the
// key of another workspace.
func TestWorkspacesDoNotSeeEachOthersFiles(t *testing.T) {
	g := start(t, "")
	own, theirs := mustUpload(t, g, "secret"), mustUpload(t, g, "secret", "x-gateway-provider", "@openai")
	other := g.Post("/admin/workspaces", `{"name":"other"}`, "x-gateway-provider", "").JSON(t)
	made := g.Post("/api-keys/workspace/service", fmt.Sprintf(`{"name":"o","workspace_id":%q,"scopes":["completions.write"]}`, other["id"]), "x-gateway-provider", "")
	key, ok := made.JSON(t)["key"].(string)
	if !ok {
		t.Fatalf("%s", made.Body)
	}
	ask := func(method, path string, h ...string) gatewaytest.Response {
		return g.Do(g.Request(method, path, "", append([]string{"x-gateway-provider", "", "x-gateway-api-key", key}, h...)...))
	}
	for _, id := range []string{own, theirs, "file-unknown"} {
		for _, r := range []string{"GET /files/", "DELETE /files/"} {
			method, path, _ := strings.Cut(r, " ")
			for _, end := range []string{"", "/content"} {
				if method == "DELETE" && end != "" {
					continue
				}
				for _, h := range [][]string{nil, {"x-gateway-provider", "@openai"}} {
					res, unknown := ask(method, path+id+end, h...), ask(method, path+"file-none"+end, h...)
					if res.Status != 404 || !bytes.Equal(res.Body, unknown.Body) {
						t.Errorf("%s%s%s %v: %d %s, an unknown one: %s", r, id, end, h, res.Status, res.Body, unknown.Body)
					}
				}
			}
		}
	}
	if list := ask("GET", "/files").JSON(t)["data"].([]any); len(list) != 0 {
		t.Errorf("another workspace lists %v", list)
	}
	for _, id := range []string{own, theirs} {
		if res := get(g, "/files/"+id+"/content"); res.Status != 200 || string(res.Body) != "secret" {
			t.Errorf("%s: %d %s", id, res.Status, res.Body)
		}
		if res := g.Do(g.Request("DELETE", "/files/"+id, "", "x-gateway-provider", "")); res.Status != 200 {
			t.Errorf("deleting %s: %d %s", id, res.Status, res.Body)
		}
		if res := get(g, "/files/"+id); res.Status != 404 {
			t.Errorf("%s after it was deleted: %d", id, res.Status)
		}
	}
}

// TestUploadsInParts sends parts in another order than that of the file.
func TestUploadsInParts(t *testing.T) {
	g := start(t, "")
	post := func(path, body string) gatewaytest.Response { return g.Post(path, body, "x-gateway-provider", "") }
	begin := func() string {
		res := post("/uploads", `{"bytes":9,"filename":"x.txt","mime_type":"text/plain","purpose":"user_data"}`)
		if res.Status != 200 || res.JSON(t)["status"] != "pending" {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		return "/uploads/" + res.JSON(t)["id"].(string)
	}
	part := func(upload, content string) string {
		res := send(g, upload+"/parts", []field{{"data", "blob", content}})
		if res.Status != 200 {
			t.Fatalf("part: %d %s", res.Status, res.Body)
		}
		return res.JSON(t)["id"].(string)
	}
	upload := begin()
	last, first, spare := part(upload, "6789"), part(upload, "12345"), part(upload, "spare")
	for name, body := range map[string]string{
		"no parts":     `{"part_ids":[]}`,
		"unknown part": `{"part_ids":["gw_part_x"]}`,
		"part twice":   fmt.Sprintf(`{"part_ids":[%q,%q]}`, first, first),
		"too short":    fmt.Sprintf(`{"part_ids":[%q]}`, first),
		"too long":     fmt.Sprintf(`{"part_ids":[%q,%q,%q]}`, first, last, spare),
		"checksum":     fmt.Sprintf(`{"part_ids":[%q,%q],"md5":"00"}`, first, last),
	} {
		if res := post(upload+"/complete", body); res.Status != 400 {
			t.Errorf("%s: %d %s", name, res.Status, res.Body)
		}
	}
	sum := md5.Sum([]byte("123456789"))
	res := post(upload+"/complete", fmt.Sprintf(`{"part_ids":[%q,%q],"md5":%q}`, first, last, hex.EncodeToString(sum[:])))
	file, _ := res.JSON(t)["file"].(map[string]any)
	if res.Status != 200 || res.JSON(t)["status"] != "completed" || file["bytes"] != 9.0 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	path := "/files/" + file["id"].(string) + "/content"
	if all, middle := get(g, path), get(g, path, "Range", "bytes=3-6"); string(all.Body) != "123456789" || string(middle.Body) != "4567" {
		t.Errorf("content %q, the middle %q", all.Body, middle.Body)
	}
	if res := post(upload+"/complete", fmt.Sprintf(`{"part_ids":[%q,%q]}`, first, last)); res.Status != 400 {
		t.Errorf("completed twice: %d %s", res.Status, res.Body)
	}
	upload = begin()
	part(upload, "123456789")
	if res := post(upload+"/cancel", ""); res.Status != 200 || res.JSON(t)["status"] != "cancelled" {
		t.Errorf("cancelled: %d %s", res.Status, res.Body)
	}
	if res := send(g, upload+"/parts", []field{{"data", "blob", "x"}}); res.Status != 400 {
		t.Errorf("a part after the end: %d", res.Status)
	}
	count := 0
	filepath.WalkDir(filepath.Join(filepath.Dir(g.Settings), "blob"), func(path string, d os.DirEntry, _ error) error {
		if d != nil && d.Type().IsRegular() {
			count++
		}
		return nil
	})
	if count != 2 {
		t.Errorf("%d files on disk, want the two parts", count)
	}
}

// TestLimitsOfLists pages through files.
func TestLimitsOfLists(t *testing.T) {
	g := start(t, "")
	var ids []string
	for i := range 3 {
		ids = append(ids, mustUpload(t, g, fmt.Sprint("content ", i)))
	}
	for query, status := range map[string]int{"limit=0": 400, "limit=10001": 400, "limit=x": 400, "order=up": 400, "purpose=fun": 400, "after=nope": 404, "limit=1": 200} {
		if res := get(g, "/files?"+query); res.Status != status {
			t.Errorf("%s: %d, want %d", query, res.Status, status)
		}
	}
	page := get(g, "/files?limit=2&order=asc").JSON(t)
	if page["first_id"] != ids[0] || page["last_id"] != ids[1] || page["has_more"] != true {
		t.Errorf("%v", page)
	}
	page = get(g, "/files?limit=2&order=asc&after="+ids[1]).JSON(t)
	if page["first_id"] != ids[2] || page["has_more"] != false {
		t.Errorf("%v", page)
	}
	if page = get(g, "/files?purpose=batch").JSON(t); len(page["data"].([]any)) != 0 {
		t.Errorf("%v", page)
	}
}

// TestAConfigReachesTheProviderOfAFileOnly asks for a file with configs.
func TestAConfigReachesTheProviderOfAFileOnly(t *testing.T) {
	g := start(t, "")
	id := mustUpload(t, g, "content", "x-gateway-provider", "@openai")
	for config, status := range map[string]int{
		`{"provider":"@openai"}`: 200, `{"provider":"@claude"}`: 400,
		`{"strategy":{"mode":"fallback"},"targets":[{"provider":"@openai"},{"provider":"@claude"}]}`: 400,
	} {
		if res := get(g, "/files/"+id, "x-gateway-config", config); res.Status != status {
			t.Errorf("%s: %d %s", config, res.Status, res.Body)
		}
	}
}
