package simulator

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxMime is the maximum length of a media type.
	// https://www.rfc-editor.org/rfc/rfc6838#section-4.2
	maxMime = 255
	// geminiLifetime is how long a file is kept by the provider.
	geminiLifetime = 48 * time.Hour
)

// geminiFileName is the form of names that clients choose.
// https://ai.google.dev/api/files#File
var geminiFileName = regexp.MustCompile(`^files/[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// serveGeminiUpload answers POST /upload/v1beta/files.
// https://ai.google.dev/api/files#method:-media.upload
func serveGeminiUpload(x *exchange) {
	query := x.r.URL.Query()
	if id := query.Get("upload_id"); id != "" {
		x.continueUpload(id)
		return
	}
	switch cmp.Or(x.r.Header.Get("X-Goog-Upload-Protocol"), query.Get("uploadType")) {
	case "resumable":
		x.startUpload()
	case "multipart":
		x.readRelated()
	case "raw", "media":
		file := &storedFile{upload: upload{mime: x.r.Header.Get("Content-Type")}}
		if err := file.readContent(x.r.Body, x.sim.files.limit); err != nil {
			x.recordDisconnect()
		} else if x.begin(nil) {
			x.storeGemini(file)
		}
	default:
		if x.readBody() && x.begin(nil) {
			x.refuse(statusOf, invalid("", "X-Goog-Upload-Protocol must be resumable, multipart or raw"))
		}
	}
}

// readRelated reads a file in one request: a part with its description and a
// part with its content.
func (x *exchange) readRelated() {
	kind, params, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		x.refuse(statusOf, invalid("", "Content-Type must be multipart/related with a boundary"))
		return
	}
	form := multipart.NewReader(x.r.Body, params["boundary"])
	var raw []byte
	part, err := form.NextPart()
	if err == nil {
		raw, err = io.ReadAll(io.LimitReader(part, maxField))
	}
	if err == nil {
		part, err = form.NextPart()
	}
	up := upload{}
	if err == nil {
		up.mime = part.Header.Get("Content-Type")
		err = up.readContent(part, x.sim.files.limit)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, x.r.Body)
	}
	if err != nil {
		x.refuse(statusOf, invalid("", "Multipart body cannot be read: it must have a part of JSON and a part with the content"))
		return
	}
	if !x.begin(nil) {
		return
	}
	if file, ok := x.describeFile(raw); ok {
		up.mime = cmp.Or(up.mime, file.mime)
		file.upload = up
		x.storeGemini(file)
	}
}

// describeFile reads the description of a file, which may be empty. It returns
// false after an error response.
func (x *exchange) describeFile(raw []byte) (*storedFile, bool) {
	file := new(storedFile)
	if len(raw) == 0 {
		return file, true
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		x.refuse(statusOf, invalid("", "Invalid JSON payload received: "+err.Error()))
		return nil, false
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "file")
	m := camel(c.child(body, "file", ""))
	c.checkMembers(m, "file", "name", "displayName", "mimeType", "sizeBytes", "createTime", "updateTime", "expirationTime",
		"sha256Hash", "uri", "downloadUri", "state", "source", "error", "videoMetadata")
	file.id, file.displayName, file.mime = c.text(m, "name", "file"), c.text(m, "displayName", "file"), c.text(m, "mimeType", "file")
	if len(file.mime) > maxMime {
		c.fail("file.mimeType", "must be at most %d characters", maxMime)
	}
	if file.id != "" {
		c.matches(file.id, "file.name", geminiFileName)
	}
	if len([]rune(file.displayName)) > 512 {
		c.fail("file.displayName", "must be at most 512 characters")
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return nil, false
	}
	return file, true
}

// storeGemini stores a complete file and answers with it.
func (x *exchange) storeGemini(file *storedFile) {
	file.number, file.protocol = x.number, x.protocol
	file.id = cmp.Or(strings.TrimPrefix(file.id, "files/"), "sim"+strconv.FormatInt(x.number, 10))
	file.created = x.began
	file.expires = x.began.Add(geminiLifetime)
	file.complete(x.plan.generated)
	if x.sim.files.find(x.protocol, file.id) != nil {
		x.refuse(http.StatusConflict, invalid("file.name", "Requested entity already exists: files/"+file.id))
		return
	}
	x.sim.files.add(file)
	x.out = append(file.appendGemini(append(x.out[:0], `{"file":`...)), '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func (file *storedFile) appendGemini(dst []byte) []byte {
	const address = "https://generativelanguage.googleapis.com/v1beta/files/"
	at := file.created.UTC().Format(time.RFC3339)
	dst = appendAll(dst, `{"name":"files/`, file.id, `"`)
	if file.displayName != "" {
		dst = appendAll(dst, `,"displayName":`, quoted(file.displayName))
	}
	sum, _ := hex.DecodeString(file.sum) // made by upload
	dst = appendAll(dst, `,"mimeType":`, quoted(file.mime), `,"sizeBytes":"`, strconv.FormatInt(file.size, 10), `","createTime":"`, at,
		`","updateTime":"`, at,
		`","expirationTime":"`, file.expires.UTC().Format(time.RFC3339), `","sha256Hash":"`, base64.StdEncoding.EncodeToString(sum),
		`","uri":"`, address, file.id, `","state":"ACTIVE"`)
	if file.generated {
		return appendAll(dst, `,"source":"GENERATED","downloadUri":"`, address, file.id, `:download?alt=media"}`)
	}
	return append(dst, `,"source":"UPLOADED"}`...)
}

// serveGeminiFiles answers GET /v1beta/files, newest first.
// https://ai.google.dev/api/files#method:-files.list
func serveGeminiFiles(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query := x.r.URL.Query()
	limit, list := 10, x.sim.files.list(x.protocol)
	if text := query.Get("pageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			x.refuse(statusOf, invalid("pageSize", "page_size must be a number"))
			return
		}
		limit = min(cmp.Or(n, limit), 100)
	}
	if text := query.Get("pageToken"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			x.refuse(statusOf, invalid("pageToken", "page_token is not valid"))
			return
		}
		list = slices.DeleteFunc(list, func(file *storedFile) bool { return file.number >= n })
	}
	x.out = append(x.out[:0], '{')
	for i, file := range list[:min(limit, len(list))] {
		separator := ","
		if i == 0 {
			separator = `"files":[`
		}
		x.out = file.appendGemini(append(x.out, separator...))
	}
	if len(list) > 0 {
		x.out = append(x.out, ']')
	}
	if len(list) > limit {
		x.out = appendAll(x.out, `,"nextPageToken":"`, strconv.FormatInt(list[limit-1].number, 10), `"`)
	}
	x.out = append(x.out, '}')
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveGeminiFile answers GET /v1beta/files/{id} and {id}:download.
func serveGeminiFile(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id, content := strings.CutSuffix(geminiFileID(x.r), ":download")
	file := x.sim.files.find(x.protocol, id)
	switch {
	case file == nil:
		x.refuse(http.StatusForbidden, noGeminiFile(id))
	case content && !file.generated:
		x.refuse(statusOf, invalid("", "File "+id+" cannot be downloaded: only generated files can"))
	case content && int64(len(file.kept)) < file.size:
		x.refuse(http.StatusNotFound, noContent)
	case content:
		if file.half {
			x.faulty, x.plan.cut = true, len(file.kept)/2+1
		}
		x.sendBody(http.StatusOK, []string{file.mime}, file.kept)
	default:
		x.out = file.appendGemini(x.out[:0])
		x.sendBody(http.StatusOK, typeJSON, x.out)
	}
}

// serveGeminiFileDelete answers DELETE /v1beta/files/{id}.
func serveGeminiFileDelete(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id := geminiFileID(x.r)
	if !x.sim.files.remove(x.protocol, id) {
		x.refuse(http.StatusForbidden, noGeminiFile(id))
		return
	}
	x.sendBody(http.StatusOK, typeJSON, []byte(`{}`))
}

func geminiFileID(r *http.Request) string {
	_, id, _ := strings.Cut(r.URL.Path, "/files/")
	return id
}

// noGeminiFile does not tell a missing file from one of another project.
func noGeminiFile(id string) providerError {
	return providerError{kind: invalidRequest, message: "You do not have permission to access the File " + id + " or it may not exist."}
}
