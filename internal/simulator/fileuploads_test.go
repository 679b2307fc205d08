package simulator_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"mime/multipart"
	"strings"
	"testing"

	"modelgate/internal/simulator"
)

type partUpload struct {
	ID, Object, Status, Filename, Purpose string
	Bytes                                 int64
	Created                               int64 `json:"created_at"`
	Expires                               int64 `json:"expires_at"`
	File                                  *struct {
		ID    string
		Bytes int64
	}
}

const uploadBody = `{"bytes":6,"filename":"a.jsonl","mime_type":"application/jsonl","purpose":"batch"}`

// mustAddPart adds a part to an upload and returns its id.
func (h *fixture) addPart(t *testing.T, upload, content string) (id string, a *response) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("data", "upload")
	if err != nil {
		t.Fatal(err)
	}
	part.Write([]byte(content))
	w.Close()
	a = h.mustSend("POST", "/v1/uploads/"+upload+"/parts", b.String(), "Content-Type", w.FormDataContentType())
	var got struct {
		ID       string
		UploadID string `json:"upload_id"`
	}
	if a.StatusCode == 200 {
		if a.mustDecodeInto(t, &got); got.UploadID != upload {
			t.Errorf("part %s", a.body)
		}
	}
	return got.ID, a
}

func TestUploadsAreJoinedInTheOrderOfTheirParts(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	var u partUpload
	h.mustPost("/v1/uploads", uploadBody).mustDecodeInto(t, &u)
	if u.Object != "upload" || u.Status != "pending" || u.Bytes != 6 || u.Expires != u.Created+3600 || u.File != nil {
		t.Errorf("created %+v", u)
	}
	second, _ := h.addPart(t, u.ID, "def")
	first, _ := h.addPart(t, u.ID, "abc")
	if _, a := h.addPart(t, u.ID, "g"); a.StatusCode != 400 {
		t.Errorf("too much content: %d %s", a.StatusCode, a.body)
	}
	digest := md5.Sum([]byte("abcdef"))
	complete := func(ids, sum string) *response {
		return h.mustPost("/v1/uploads/"+u.ID+"/complete", `{"part_ids":[`+ids+`],"md5":"`+sum+`"}`)
	}
	both := `"` + first + `","` + second + `"`
	for name, a := range map[string]*response{
		"a part missing": complete(`"`+first+`"`, ""), "a part twice": complete(`"`+first+`","`+first+`"`, ""),
		"an unknown part": complete(`"part_none"`, ""), "a wrong sum": complete(both, "00"), "no parts": complete("", ""),
	} {
		if a.StatusCode != 400 || a.mustDecode(t).Error == nil {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	complete(both, hex.EncodeToString(digest[:])).mustDecodeInto(t, &u)
	if u.Status != "completed" || u.File == nil || u.File.Bytes != 6 {
		t.Fatalf("completed %+v", u)
	}
	if a := h.mustSend("GET", "/v1/files/"+u.File.ID+"/content", ""); a.body != "abcdef" {
		t.Errorf("content %q", a.body)
	}
	if a := complete(both, ""); a.StatusCode != 400 || !strings.Contains(a.body, "completed") {
		t.Errorf("completed twice: %d %s", a.StatusCode, a.body)
	}
}

func TestUploadsAreChecked(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct{ name, from, to, param string }{
		{"no size", `"bytes":6,`, ``, "bytes"},
		{"a size as text", `6`, `"6"`, "bytes"},
		{"no name", `"filename":"a.jsonl",`, ``, "filename"},
		{"no media type", `"mime_type":"application/jsonl",`, ``, "mime_type"},
		{"an unknown purpose", `"batch"`, `"fun"`, "purpose"},
		{"an unknown member", `{`, `{"x":1,`, "x"},
	} {
		a := h.mustPost("/v1/uploads", strings.Replace(uploadBody, tt.from, tt.to, 1))
		if e := a.mustDecode(t).Error; a.StatusCode != 400 || e == nil || deref(e.Param) != tt.param {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
	var u partUpload
	h.mustPost("/v1/uploads", uploadBody).mustDecodeInto(t, &u)
	if h.mustPost("/v1/uploads/"+u.ID+"/cancel", "").mustDecodeInto(t, &u); u.Status != "cancelled" {
		t.Errorf("cancelled %+v", u)
	}
	if _, a := h.addPart(t, u.ID, "abc"); a.StatusCode != 400 {
		t.Errorf("a part of a cancelled upload: %d %s", a.StatusCode, a.body)
	}
	for _, step := range []string{"parts", "complete", "cancel"} {
		if a := h.mustPost("/v1/uploads/upload_none/"+step, `{}`); a.StatusCode != 404 {
			t.Errorf("%s of an unknown upload: %d %s", step, a.StatusCode, a.body)
		}
	}
}

func TestFilesAreCheckedAndFiltered(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		name   string
		fields []string
		status int
		want   string
	}{
		{"no purpose", nil, 400, `"param":"purpose"`},
		{"an unknown purpose", []string{"purpose", "fun"}, 400, `"param":"purpose"`},
		{"a purpose of results", []string{"purpose", "batch_output"}, 400, `"param":"purpose"`},
		{"an unknown field", []string{"purpose", "batch", "colour", "red"}, 400, `"param":"colour"`},
		{"a lifetime", []string{"purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "3600"}, 200, `"expires_at":`},
		{"a short lifetime", []string{"purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "60"}, 400, `"param":"expires_after"`},
		{"no anchor", []string{"purpose", "batch", "expires_after[seconds]", "3600"}, 400, `"param":"expires_after"`},
		{"another purpose", []string{"purpose", "vision"}, 200, `"purpose":"vision"`},
	} {
		body, kind := form(t, []byte("x"), tt.fields...)
		if a := h.mustSend("POST", "/v1/files", body, "Content-Type", kind); a.StatusCode != tt.status || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s: %d %s", tt.name, a.StatusCode, a.body)
		}
	}
	for query, want := range map[string]int{"": 2, "?purpose=vision": 1, "?purpose=evals": 0, "?limit=1": 1, "?limit=1&order=asc": 1} {
		var got struct {
			Data []struct{ ID, Purpose string }
			More bool `json:"has_more"`
		}
		h.mustSend("GET", "/v1/files"+query, "").mustDecodeInto(t, &got)
		if len(got.Data) != want || got.More != strings.Contains(query, "limit") {
			t.Errorf("%s: %+v", query, got)
		}
		if want == 1 && (got.Data[0].Purpose == "vision") == strings.Contains(query, "asc") {
			t.Errorf("%s: %+v", query, got)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=10001", "?order=up", "?after=none", "?x=1"} {
		if a := h.mustSend("GET", "/v1/files"+query, ""); a.StatusCode != 400 {
			t.Errorf("%s: %d %s", query, a.StatusCode, a.body)
		}
	}
}
