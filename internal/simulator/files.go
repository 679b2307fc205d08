package simulator

import (
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
	expires     time.Time // zero means never
	generated   bool      // can be downloaded
	upload
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
}

func (f *fileStore) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files, f.size, f.uploads = nil, 0, nil
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
	return slices.IndexFunc(f.files, func(file *storedFile) bool { return file.protocol == p && file.id == id })
}

// list returns the files of a protocol, newest first.
func (f *fileStore) list(p *protocol) []*storedFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*storedFile
	for _, file := range slices.Backward(f.files) {
		if file.protocol == p {
			list = append(list, file)
		}
	}
	return list
}

// serveUpload answers POST /files.
func serveUpload(x *exchange) {
	up, ok := x.readUpload(x.sim.files.limit)
	if !ok || !x.begin(nil) {
		return
	}
	switch {
	case up.name == "":
		x.refuse(http.StatusBadRequest, missing("file"))
		return
	case up.fields["purpose"] == "":
		x.refuse(http.StatusBadRequest, missing("purpose"))
		return
	}
	file := &storedFile{number: x.number, id: "file-sim" + strconv.FormatInt(x.number, 10), purpose: up.fields["purpose"], upload: up}
	x.sim.files.add(file)
	x.out = file.appendJSON(x.out[:0])
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func (file *storedFile) appendJSON(dst []byte) []byte {
	dst = append(append(append(dst, `{"id":"`...), file.id...), `","object":"file","bytes":`...)
	dst = strconv.AppendInt(dst, file.size, 10)
	dst = appendRaw(append(dst, `,"created_at":`+created+`,"filename":"`...), file.name)
	dst = appendRaw(append(dst, `","purpose":"`...), file.purpose)
	dst = append(append(dst, `","status":"processed","sha256":"`...), file.sum...)
	return append(dst, `"}`...)
}

// serveFiles answers GET /files, newest first.
func serveFiles(x *exchange) {
	if !x.begin(nil) {
		return
	}
	x.out = append(x.out[:0], `{"object":"list","data":[`...)
	for i, file := range x.sim.files.list(x.protocol) {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = file.appendJSON(x.out)
	}
	x.out = append(x.out, `],"has_more":false}`...)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// serveFile answers GET /files/{id} and /files/{id}/content.
func serveFile(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id, content := strings.CutSuffix(fileID(x.r), "/content")
	file := x.sim.files.find(x.protocol, id)
	switch {
	case file == nil:
		x.refuse(http.StatusNotFound, noFile)
	case content && int64(len(file.kept)) < file.size:
		x.refuse(http.StatusNotFound, noContent)
	case content:
		x.sendBody(http.StatusOK, []string{"application/octet-stream"}, file.kept)
	default:
		x.out = file.appendJSON(x.out[:0])
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
