package simulator_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

var anthropicVersion = []string{"Anthropic-Version", "2023-06-01"}

// vendorFile is a file of messages or gemini, as client libraries decode it.
type vendorFile struct {
	ID           string
	Type         string
	Filename     string
	MimeType     string `json:"mime_type"`
	SizeBytes    int64  `json:"size_bytes"`
	CreatedAt    string `json:"created_at"`
	ExpiresAt    string `json:"expires_at"`
	Downloadable *bool

	Name        string
	DisplayName string
	GeminiMime  string `json:"mimeType"`
	GeminiSize  string `json:"sizeBytes"`
	SHA256Hash  string `json:"sha256Hash"`
	URI         string
	DownloadURI string
	State       string
	Source      string
}

// fileForm returns a form with one file, as client libraries send it.
func fileForm(t *testing.T, disposition, mime, content string, fields ...string) (body string, header []string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {mime}})
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(content))
	for i := 0; i < len(fields); i += 2 {
		w.WriteField(fields[i], fields[i+1])
	}
	w.Close()
	return b.String(), append(slices.Clone(anthropicVersion), "Content-Type", w.FormDataContentType())
}

const csvFile = `form-data; name="file"; filename="data.csv"`

func TestMessagesFilesHaveTheirOwnShape(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	body, header := fileForm(t, csvFile, "text/csv", "item,value\napple,30\nbanana,70\n")
	var up, got vendorFile
	h.mustSend("POST", "/v1/files?beta=true", body, header...).mustDecodeInto(t, &up)
	// https://docs.anthropic.com/en/api/files-create
	if up.Type != "file" || !strings.HasPrefix(up.ID, "file_") || up.Filename != "data.csv" || up.MimeType != "text/csv" || up.SizeBytes != 30 || up.CreatedAt == "" || up.Downloadable == nil || *up.Downloadable {
		t.Errorf("upload = %+v", up)
	}
	h.mustSend("GET", "/v1/files/"+up.ID, "", anthropicVersion...).mustDecodeInto(t, &got)
	if got.ID != up.ID || got.SizeBytes != 30 {
		t.Errorf("file = %+v", got)
	}
	if a := h.mustSend("GET", "/v1/files/"+up.ID+"/content", "", anthropicVersion...); a.StatusCode != 400 || !strings.Contains(a.body, `"error_code":"file_not_downloadable"`) || !strings.Contains(a.body, `"type":"invalid_request_error"`) {
		t.Errorf("content of an upload: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", "/v1/files/"+up.ID, ""); a.StatusCode != 404 {
		t.Errorf("chat sees the file: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", "/v1/files/"+up.ID, "", anthropicVersion...); a.StatusCode != 200 || a.body != `{"id":"`+up.ID+`","type":"file_deleted"}` {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := h.mustSend(method, "/v1/files/"+up.ID, "", anthropicVersion...); a.StatusCode != 404 || !strings.Contains(a.body, `"type":"not_found_error"`) {
			t.Errorf("%s after delete: %d %s", method, a.StatusCode, a.body)
		}
	}
}

func TestMessagesFilesAreCheckedAsTheVendorDoes(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		name, disposition, mime string
		fields                  []string
		status                  int
		want                    string
	}{
		{"no name", `form-data; name="file"`, "text/csv", nil, 200, `"filename":"unnamed.csv"`},
		{"no media type", csvFile, "", nil, 200, `"mime_type":"application/octet-stream"`},
		{"a folder", `form-data; name="file"; filename="a/b.txt"`, "text/plain", nil, 200, `"filename":"b.txt"`},
		{"a forbidden character", `form-data; name="file"; filename="a|b"`, "text/plain", nil, 400, "Invalid filename"},
		{"a long name", `form-data; name="file"; filename="` + strings.Repeat("a", 256) + `"`, "text/plain", nil, 400, "Invalid filename"},
		{"another field", `form-data; name="data"`, "text/plain", nil, 400, "file: Field required"},
		{"an hour", csvFile, "text/csv", []string{"expires_in_seconds", "3600"}, 200, `"expires_at":"`},
		{"less than an hour", csvFile, "text/csv", []string{"expires_in_seconds", "3599"}, 400, "expires_in_seconds"},
		{"more than ninety days", csvFile, "text/csv", []string{"expires_in_seconds", "7776001"}, 400, "expires_in_seconds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, header := fileForm(t, tt.disposition, tt.mime, "x", tt.fields...)
			if a := h.mustSend("POST", "/v1/files", body, header...); a.StatusCode != tt.status || !strings.Contains(a.body, tt.want) {
				t.Errorf("status %d, want %d with %s: %s", a.StatusCode, tt.status, tt.want, a.body)
			}
		})
	}
	if a := h.mustSend("POST", "/v1/files", `{}`, append(slices.Clone(anthropicVersion), "Content-Type", "application/json")...); a.StatusCode != 400 || !strings.Contains(a.body, `"type":"error"`) {
		t.Errorf("no form: %d %s", a.StatusCode, a.body)
	}
}

func TestMessagesFilesAreListedByPage(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	var ids []string
	for range 5 {
		body, header := fileForm(t, csvFile, "text/csv", "x")
		var up vendorFile
		h.mustSend("POST", "/v1/files", body, header...).mustDecodeInto(t, &up)
		ids = append([]string{up.ID}, ids...)
	}
	form, kind := form(t, []byte("of chat"), "purpose", "batch")
	h.mustSend("POST", "/v1/files", form, "Content-Type", kind)
	for _, tt := range []struct {
		query       string
		want        []string
		more        bool
		next        string
		first, last string
	}{
		{"", ids, false, "", ids[0], ids[4]},
		{"?limit=2", ids[:2], true, "page_" + ids[1], ids[0], ids[1]},
		{"?limit=2&page=page_" + ids[1], ids[2:4], true, "page_" + ids[3], ids[2], ids[3]},
		{"?limit=2&page=page_" + ids[3], ids[4:], false, "", ids[4], ids[4]},
		{"?limit=2&after_id=" + ids[3], ids[4:], false, "", ids[4], ids[4]},
		{"?limit=2&before_id=" + ids[3], ids[1:3], true, "", ids[1], ids[2]},
		{"?limit=2&before_id=" + ids[1], ids[:1], false, "", ids[0], ids[0]},
		{"?ids=" + ids[2] + "&ids=none", ids[2:3], false, "", ids[2], ids[2]},
		{"?after_id=" + ids[4], nil, false, "", "", ""},
	} {
		t.Run(tt.query, func(t *testing.T) {
			var got struct {
				Data    []vendorFile
				HasMore bool    `json:"has_more"`
				FirstID *string `json:"first_id"`
				LastID  *string `json:"last_id"`
				Next    *string `json:"next_page"`
			}
			h.mustSend("GET", "/v1/files"+tt.query, "", anthropicVersion...).mustDecodeInto(t, &got)
			var list []string
			for _, f := range got.Data {
				list = append(list, f.ID)
			}
			text := func(s *string) string {
				if s == nil {
					return ""
				}
				return *s
			}
			if !slices.Equal(list, tt.want) || got.HasMore != tt.more || text(got.FirstID) != tt.first || text(got.LastID) != tt.last || text(got.Next) != tt.next {
				t.Errorf("files %q of %q to %q, more %t, next %q", list, text(got.FirstID), text(got.LastID), got.HasMore, text(got.Next))
			}
		})
	}
	for _, query := range []string{"?limit=0", "?limit=1001", "?limit=x", "?page=x", "?after_id=x", "?before_id=x"} {
		if a := h.mustSend("GET", "/v1/files"+query, "", anthropicVersion...); a.StatusCode != 400 {
			t.Errorf("%s: status %d", query, a.StatusCode)
		}
	}
}

func TestGeneratedFilesCanBeDownloaded(t *testing.T) {
	h := mustServe(t, simulator.Options{MaxFiles: 100})
	generated := []string{"X-Simulator-Fault", "generated"}
	var up vendorFile
	body, header := fileForm(t, csvFile, "text/csv", "1,2\n")
	h.mustSend("POST", "/v1/files", body, append(header, generated...)...).mustDecodeInto(t, &up)
	if a := h.mustSend("GET", "/v1/files/"+up.ID+"/content", "", anthropicVersion...); a.StatusCode != 200 || a.body != "1,2\n" || a.Header.Get("Content-Type") != "text/csv" || !*up.Downloadable {
		t.Errorf("messages: %+v, %d %s %q", up, a.StatusCode, a.Header, a.body)
	}
	made := h.mustUpload(t, "raw", "1,3\n", append(generated, "Content-Type", "text/csv")...)
	if made.Source != "GENERATED" || !strings.HasSuffix(made.DownloadURI, made.Name+":download?alt=media") {
		t.Errorf("gemini: %+v", made)
	}
	if a := h.mustSend("GET", "/v1beta/"+made.Name+":download?alt=media", ""); a.StatusCode != 200 || a.body != "1,3\n" {
		t.Errorf("gemini: %d %q", a.StatusCode, a.body)
	}
	large := h.mustUpload(t, "raw", strings.Repeat("x", 101), append(generated, "Content-Type", "text/csv")...)
	if a := h.mustSend("GET", "/v1beta/"+large.Name+":download?alt=media", ""); a.StatusCode != 404 || large.GeminiSize != "101" {
		t.Errorf("a file over the limit: %+v, %d", large, a.StatusCode)
	}
}

// mustUpload uploads a file in one request.
func (h *fixture) mustUpload(t *testing.T, protocol, body string, header ...string) vendorFile {
	t.Helper()
	var up struct{ File vendorFile }
	h.mustSend("POST", "/upload/v1beta/files", body, append(header, "X-Goog-Upload-Protocol", protocol)...).mustDecodeInto(t, &up)
	return up.File
}

func related(description, mime, content string) (body string, header []string) {
	return "--b\r\nContent-Type: application/json\r\n\r\n" + description + "\r\n--b\r\nContent-Type: " + mime + "\r\n\r\n" + content + "\r\n--b--\r\n",
		[]string{"Content-Type", "multipart/related; boundary=b"}
}

func hash64(content string) string {
	s := sha256.Sum256([]byte(content))
	return base64.StdEncoding.EncodeToString(s[:])
}

func TestGeminiFilesAreUploadedInOneRequest(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	body, header := related(`{"file":{"display_name":"Ærø","name":"files/my-1"}}`, "text/plain", "content")
	up := h.mustUpload(t, "multipart", body, header...)
	// https://ai.google.dev/api/files#File
	want := vendorFile{Name: "files/my-1", DisplayName: "Ærø", GeminiMime: "text/plain", GeminiSize: "7", SHA256Hash: hash64("content"),
		URI: "https://generativelanguage.googleapis.com/v1beta/files/my-1", State: "ACTIVE", Source: "UPLOADED"}
	if up != want {
		t.Errorf("file = %+v", up)
	}
	var got vendorFile
	h.mustSend("GET", "/v1beta/files/my-1", "").mustDecodeInto(t, &got)
	if got != want {
		t.Errorf("file = %+v", got)
	}
	if a := h.mustSend("POST", "/upload/v1beta/files?uploadType=multipart", body, header...); a.StatusCode != 409 || !strings.Contains(a.body, `"ALREADY_EXISTS"`) {
		t.Errorf("the same name again: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("GET", "/v1beta/files/my-1:download?alt=media", ""); a.StatusCode != 400 {
		t.Errorf("download of an upload: %d %s", a.StatusCode, a.body)
	}
	if a := h.mustSend("DELETE", "/v1beta/files/my-1", ""); a.StatusCode != 200 || a.body != "{}" {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := h.mustSend(method, "/v1beta/files/my-1", ""); a.StatusCode != 403 || !strings.Contains(a.body, "PERMISSION_DENIED") || !strings.Contains(a.body, "may not exist") {
			t.Errorf("%s after delete: %d %s", method, a.StatusCode, a.body)
		}
	}
	for description, want := range map[string]string{
		`{"file":{"name":"files/-a"}}`:                                "file.name",
		`{"file":{"name":"a"}}`:                                       "file.name",
		`{"file":{"name":"files/` + strings.Repeat("a", 41) + `"}}`:   "file.name",
		`{"file":{"displayName":"` + strings.Repeat("a", 513) + `"}}`: "file.displayName",
		`{"file":{"mimeType":"` + strings.Repeat("a", 256) + `"}}`:    "file.mimeType",
		`{"file":{"purpose":"x"}}`:                                    `Unknown name \"purpose\" at 'file'`,
		`{"purpose":"x"}`:                                             `Unknown name \"purpose\"`,
		`{"file":[]}`:                                                 "file",
		`{`:                                                           "Invalid JSON",
		`{"file":{"sizeBytes":7,"mimeType":"text/csv","displayName":null}}`: "",
		`{"file":{"name":"files/` + strings.Repeat("a", 40) + `"}}`:         "",
		`{"file":{"displayName":"` + strings.Repeat("ø", 512) + `"}}`:       "",
	} {
		body, header := related(description, "text/plain", "x")
		a := h.mustSend("POST", "/upload/v1beta/files", body, append(header, "X-Goog-Upload-Protocol", "multipart")...)
		if ok := want == ""; ok != (a.StatusCode == 200) || !ok && a.StatusCode != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%.60s: %d %s", description, a.StatusCode, a.body)
		}
	}
	for _, tt := range []struct{ protocol, body, kind string }{
		{"multipart", "x", "text/plain"},
		{"multipart", "--b\r\n\r\n{}\r\n--b--", "multipart/related; boundary=b"},
		{"", `{"file":{}}`, "application/json"},
		{"other", `{"file":{}}`, "application/json"},
	} {
		if a := h.mustSend("POST", "/upload/v1beta/files", tt.body, "X-Goog-Upload-Protocol", tt.protocol, "Content-Type", tt.kind); a.StatusCode != 400 {
			t.Errorf("%+v: %d %s", tt, a.StatusCode, a.body)
		}
	}
}

// mustStart begins a resumable upload and returns the path to send it to.
func (h *fixture) mustStart(t *testing.T, body string, header ...string) string {
	t.Helper()
	a := h.mustSend("POST", "/upload/v1beta/files", body, append(header, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start")...)
	address := a.Header.Get("X-Goog-Upload-Url")
	if a.StatusCode != 200 || a.Header.Get("X-Goog-Upload-Status") != "active" || a.Header.Get("X-Goog-Upload-Chunk-Granularity") != strconv.Itoa(8<<20) {
		t.Fatalf("start: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	return strings.TrimPrefix(address, h.url)
}

func TestGeminiFilesAreUploadedInChunks(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	content := strings.Repeat("0123456789abcdef", 512<<10) + "rest"
	const unit = 8 << 20
	path := h.mustStart(t, `{"file":{"displayName":"big"}}`, "X-Goog-Upload-Header-Content-Type", "video/mp4", "X-Goog-Upload-Header-Content-Length", strconv.Itoa(len(content)))
	step := func(command, offset, body string) *response {
		t.Helper()
		return h.mustSend("POST", path, body, "X-Goog-Upload-Command", command, "X-Goog-Upload-Offset", offset)
	}
	a := step("upload", "0", content[:unit])
	if a.StatusCode != 200 || a.Header.Get("X-Goog-Upload-Status") != "active" || a.Header.Get("X-Goog-Upload-Size-Received") != strconv.Itoa(unit) {
		t.Fatalf("chunk: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	a = step("upload, finalize", "0", content[unit:])
	if a.StatusCode != 400 || a.Header.Get("X-Goog-Upload-Status") != "active" {
		t.Fatalf("wrong offset: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a = step("query", "", ""); a.Header.Get("X-Goog-Upload-Size-Received") != strconv.Itoa(unit) {
		t.Fatalf("query: %d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a = step("begin", "", ""); a.StatusCode != 400 {
		t.Errorf("unknown command: %d %s", a.StatusCode, a.body)
	}
	var up struct{ File vendorFile }
	a = step("upload, finalize", strconv.Itoa(unit), content[unit:])
	a.mustDecodeInto(t, &up)
	if f := up.File; a.Header.Get("X-Goog-Upload-Status") != "final" || f.GeminiSize != strconv.Itoa(len(content)) || f.SHA256Hash != hash64(content) || f.DisplayName != "big" || f.GeminiMime != "video/mp4" || f.State != "ACTIVE" {
		t.Errorf("file = %+v, %v", f, a.Header)
	}
	if a = step("query", "", ""); a.StatusCode != 404 {
		t.Errorf("a finished upload: %d %s", a.StatusCode, a.body)
	}
}

func TestUnfinishedUploadsMakeNoFile(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "k"})
	key := []string{"X-Goog-Api-Key", "k"}
	for _, tt := range []struct {
		name, want, body string
		commands         []string
		status           int
	}{
		{"cancelled", "", "", []string{"cancel"}, 200},
		{"a small chunk", "", "abc", []string{"upload"}, 400},
		{"too short", "4", "abc", []string{"upload, finalize"}, 400},
		{"too long", "2", "abc", []string{"upload, finalize"}, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := slices.Clone(key)
			if tt.want != "" {
				header = append(header, "X-Goog-Upload-Header-Content-Length", tt.want)
			}
			path := h.mustStart(t, "", header...)
			for _, command := range tt.commands {
				// The address is the credential.
				if a := h.mustSend("POST", path, tt.body, "X-Goog-Upload-Command", command); a.StatusCode != tt.status {
					t.Errorf("%s: %d %s", command, a.StatusCode, a.body)
				}
			}
		})
	}
	if a := h.mustSend("GET", "/v1beta/files", "", key...); a.body != "{}" {
		t.Errorf("files %s", a.body)
	}
	for _, path := range []string{"/upload/v1beta/files?upload_id=none", "/upload/v1beta/files"} {
		if a := h.mustSend("POST", path, ""); a.StatusCode != 401 {
			t.Errorf("%s without a key: %d", path, a.StatusCode)
		}
	}
	for _, size := range []string{"x", "-1"} {
		if a := h.mustSend("POST", "/upload/v1beta/files", "", append(key, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "start", "X-Goog-Upload-Header-Content-Length", size)...); a.StatusCode != 400 {
			t.Errorf("size %s: %d", size, a.StatusCode)
		}
	}
	if a := h.mustSend("POST", "/upload/v1beta/files", "", append(key, "X-Goog-Upload-Protocol", "resumable", "X-Goog-Upload-Command", "upload")...); a.StatusCode != 400 {
		t.Errorf("no start: %d", a.StatusCode)
	}
	oldest := h.mustStart(t, "", key...)
	for range 100 {
		h.mustStart(t, "", key...)
	}
	if a := h.mustSend("POST", oldest, "", append(key, "X-Goog-Upload-Command", "query")...); a.StatusCode != 404 {
		t.Errorf("the oldest of 101 uploads: %d", a.StatusCode)
	}
}

func TestGeminiFilesAreListedByPage(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	var names []string
	for i := range 12 {
		body, header := related(fmt.Sprintf(`{"file":{"name":"files/f%d"}}`, i), "text/plain", "x")
		names = append([]string{h.mustUpload(t, "multipart", body, header...).Name}, names...)
	}
	var got []string
	var sizes []int
	for query := "?"; query != ""; {
		var page struct {
			Files []vendorFile
			Next  string `json:"nextPageToken"`
		}
		h.mustSend("GET", "/v1beta/files"+query, "").mustDecodeInto(t, &page)
		for _, f := range page.Files {
			got = append(got, f.Name)
		}
		sizes = append(sizes, len(page.Files))
		if query = ""; page.Next != "" {
			query = "?pageSize=1&pageToken=" + page.Next
		}
	}
	if !slices.Equal(got, names) || !slices.Equal(sizes, []int{10, 1, 1}) {
		t.Errorf("files %q in pages of %v", got, sizes)
	}
	for _, query := range []string{"?pageSize=x", "?pageSize=-1", "?pageToken=x"} {
		if a := h.mustSend("GET", "/v1beta/files"+query, ""); a.StatusCode != 400 || !strings.Contains(a.body, "INVALID_ARGUMENT") {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
	if a := h.mustSend("GET", "/v1beta/files?pageSize=1000", ""); a.StatusCode != 200 {
		t.Errorf("a large page: %d", a.StatusCode)
	}
}

// What a client makes as long as it likes counts, not only content.
func TestLongDescriptionsCrowdOutFiles(t *testing.T) {
	h := mustServe(t, simulator.Options{MaxFiles: 3000})
	for range 4 {
		h.mustUpload(t, "raw", "x", "Content-Type", "text/"+strings.Repeat("x", 1000))
	}
	var page struct{ Files []vendorFile }
	if h.mustSend("GET", "/v1beta/files", "").mustDecodeInto(t, &page); len(page.Files) != 2 {
		t.Errorf("%d files", len(page.Files))
	}
}
