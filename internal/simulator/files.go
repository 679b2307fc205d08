package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxFileCount is the limit of stored files.
const maxFileCount = 1000

// A storedFile is one uploaded file.
type storedFile struct {
	number      int64 // greater than that of every older file
	id          string
	protocol    *protocol // whose clients see it
	purpose     string    // chat only
	displayName string    // gemini only
	created     time.Time
	expires     time.Time // zero means never
	generated   bool      // can be downloaded
	half        bool      // its content is cut half way
	upload
}

// content returns the content, or nil if it is not kept.
func (file *storedFile) content() []byte {
	if file.size > int64(len(file.kept)) {
		return nil
	}
	return file.kept
}

// weight returns the number of bytes that a client can make as large as it
// likes.
func (file *storedFile) weight() int64 {
	return int64(len(file.kept) + len(file.name) + len(file.purpose) + len(file.mime))
}

// fileStore keeps uploaded files in memory; the oldest are removed when it is
// full.
type fileStore struct {
	limit   int64 // bytes
	mu      sync.Mutex
	files   []*storedFile   // guarded by mu, oldest first
	size    int64           // guarded by mu
	uploads []*geminiUpload // guarded by mu, oldest first
	held    int64           // bytes that uploads in progress keep; guarded by mu
}

func (f *fileStore) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files, f.size, f.uploads, f.held = nil, 0, nil, 0
}

// add stores a file. A file larger than the store keeps its name, size and
// hash, but not its content.
func (f *fileStore) add(file *storedFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file.size > int64(len(file.kept)) {
		file.kept = nil
	}
	f.files = append(f.files, file)
	f.size += file.weight()
	for f.size > f.limit || len(f.files) > maxFileCount {
		f.size -= f.files[0].weight()
		f.files = f.files[1:]
	}
}

// find returns the file of a protocol, or nil.
func (f *fileStore) find(p *protocol, id string) *storedFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.index(p, id); i >= 0 {
		return f.files[i]
	}
	return nil
}

func (f *fileStore) remove(p *protocol, id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.index(p, id)
	if i < 0 {
		return false
	}
	f.size -= f.files[i].weight()
	f.files = slices.Delete(f.files, i, i+1)
	return true
}

func (f *fileStore) index(p *protocol, id string) int {
	return slices.IndexFunc(f.files, func(file *storedFile) bool { return file.protocol == p && file.id == id && !file.expired() })
}

// expired reports whether the file's time is over.
func (file *storedFile) expired() bool {
	return !file.expires.IsZero() && !time.Now().Before(file.expires)
}

// list returns the files of a protocol, newest first.
func (f *fileStore) list(p *protocol) []*storedFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*storedFile
	for _, file := range slices.Backward(f.files) {
		if file.protocol == p && !file.expired() {
			list = append(list, file)
		}
	}
	return list
}

// filePurposes are the purposes of uploads, and those of some vendors.
// https://platform.openai.com/docs/api-reference/files/create
var filePurposes = []string{"assistants", "batch", "fine-tune", "vision", "user_data", "evals"}

var vendorPurposes = map[string][]string{
	"groq": {"batch"}, "together": {"fine-tune", "batch-api", "eval"}, "mistral": {"fine-tune", "batch", "ocr", "audio"},
	"xai": append([]string{""}, filePurposes...), "fireworks": {"batch", "fine-tune"},
}

// serveUpload answers POST /files.
func serveUpload(x *exchange) {
	up, ok := x.readUpload(x.sim.files.limit)
	if !ok || !x.begin(nil) {
		return
	}
	file := &storedFile{number: x.number, id: "file-sim" + strconv.FormatInt(x.number, 10), purpose: up.fields["purpose"], upload: up}
	file.created, file.half = x.began, x.plan.halfContent
	if x.vendor() == "together" && !up.found {
		x.startTogetherUpload(file)
		return
	}
	if wrong := file.readFields(x.vendor()); wrong.kind != "" {
		x.refuse(http.StatusBadRequest, wrong)
		return
	}
	x.sim.files.add(file)
	x.out = x.appendFile(x.out[:0], file)
	if x.plan.lost {
		x.resetConn()
		return
	}
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// readFields reads the form of an upload and returns its mistake.
func (file *storedFile) readFields(vendor string) (wrong providerError) {
	purposes := filePurposes
	if own, ok := vendorPurposes[vendor]; ok {
		purposes = own
	}
	names := []string{"purpose", "expires_after[anchor]", "expires_after[seconds]"}
	switch vendor {
	case "mistral":
		names = []string{"purpose", "expiry", "visibility"}
	case "together":
		names = []string{"purpose", "file_name", "file_type", "checksum"}
	}
	for name := range file.fields {
		if !slices.Contains(names, name) {
			return unknownMember("", name)
		}
	}
	switch {
	case !file.found || file.name == "":
		return missing("file")
	case file.purpose == "" && !slices.Contains(purposes, ""):
		return missing("purpose")
	case !slices.Contains(purposes, file.purpose):
		return invalid("purpose", "'"+file.purpose+"' is not one of ['"+strings.Join(purposes, "', '")+"'] - 'purpose'")
	}
	anchor, seconds := file.fields["expires_after[anchor]"], file.fields["expires_after[seconds]"]
	if anchor == "" && seconds == "" {
		return wrong
	}
	n, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		n = 0
	}
	c := newChecker(nil)
	file.expires = file.created.Add(c.lifetime(map[string]any{"e": map[string]any{"anchor": anchor, "seconds": n}}, "e"))
	if c.wrong.kind != "" {
		return invalid("expires_after", "Invalid 'expires_after': the anchor must be created_at, and the seconds from 3600 to 2592000.")
	}
	return wrong
}

func (file *storedFile) appendJSON(dst []byte) []byte {
	dst = append(append(append(dst, `{"id":"`...), file.id...), `","object":"file","bytes":`...)
	dst = strconv.AppendInt(dst, file.size, 10)
	dst = strconv.AppendInt(append(dst, `,"created_at":`...), file.created.Unix(), 10)
	if !file.expires.IsZero() {
		dst = strconv.AppendInt(append(dst, `,"expires_at":`...), file.expires.Unix(), 10)
	}
	dst = appendRaw(append(dst, `,"filename":"`...), file.name)
	dst = appendRaw(append(dst, `","purpose":"`...), file.purpose)
	dst = append(append(dst, `","status":"processed","status_details":null,"sha256":"`...), file.sum...)
	return append(dst, `"}`...)
}

// appendFile appends a file in the shape of the vendor that was asked.
func (x *exchange) appendFile(dst []byte, file *storedFile) []byte {
	dst = file.appendJSON(dst)
	switch x.vendor() {
	case "mistral":
		kind := map[string]string{"batch": "batch_request", "batch_output": "batch_result"}[file.purpose]
		return appendAll(dst[:len(dst)-1], `,"sample_type":"`, valueOr(kind, "instruct"), `","source":"upload","num_lines":null,"mimetype":null}`)
	case "together":
		return append(dst[:len(dst)-1], `,"FileType":"jsonl","Processed":true,"processing_status":"COMPLETED"}`...)
	}
	return dst
}

// filePages are the pages of the list of files.
// https://platform.openai.com/docs/api-reference/files/list
var filePages = pager{usual: 10000, most: 10000}

// serveFiles answers GET /files, newest first.
func serveFiles(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query, ok := x.query("purpose", "after", "limit", "order", "page", "page_size")
	if !ok {
		return
	}
	list := x.sim.files.list(x.protocol)
	if purpose := query.Get("purpose"); purpose != "" {
		list = slices.DeleteFunc(list, func(file *storedFile) bool { return file.purpose != purpose })
	}
	collection[*storedFile]{filePages, list, func(file *storedFile) string { return file.id },
		func(file *storedFile) any { return json.RawMessage(x.appendFile(nil, file)) }}.send(x, query)
}

// serveFile answers GET /files/{id}, /files/{id}/content and, for Mistral, the
// address of the content: /files/{id}/url.
func serveFile(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id, content := strings.CutSuffix(fileID(x.r), "/content")
	if x.vendor() == "mistral" {
		var address bool
		if id, address = strings.CutSuffix(id, "/url"); address && x.sim.files.find(x.protocol, id) != nil {
			x.sendJSON(http.StatusOK, object{"url": x.signedURL(strings.TrimSuffix(x.r.URL.Path, "/url") + "/content")})
			return
		}
	}
	file := x.sim.files.find(x.protocol, id)
	switch {
	case file == nil:
		x.refuse(http.StatusNotFound, noFile)
	case content && int64(len(file.kept)) < file.size:
		x.refuse(http.StatusNotFound, noContent)
	case content:
		if file.half {
			x.faulty, x.plan.cut = true, len(file.kept)/2+1
		}
		x.sendBody(http.StatusOK, []string{"application/octet-stream"}, file.kept)
	default:
		x.out = x.appendFile(x.out[:0], file)
		x.sendBody(http.StatusOK, typeJSON, x.out)
	}
}

// serveFileDelete answers DELETE /files/{id}.
func serveFileDelete(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id := fileID(x.r)
	if !x.sim.files.remove(x.protocol, id) {
		x.refuse(http.StatusNotFound, noFile)
		return
	}
	x.out = appendRaw(append(x.out[:0], `{"id":"`...), id)
	x.out = append(x.out, `","object":"file","deleted":true}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func fileID(r *http.Request) string {
	return strings.TrimPrefix(withoutVersion(r.URL.Path), "/files/")
}
