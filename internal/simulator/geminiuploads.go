package simulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	// chunkUnit divides the size of every chunk of an upload except the last.
	chunkUnit = 8 << 20
	// maxUploads is the limit of uploads in progress; the oldest are removed.
	maxUploads = 100
)

// A geminiUpload is a resumable upload in progress. Its content is hashed, and
// kept if it may be the input of a batch.
type geminiUpload struct {
	id   string
	file *storedFile
	want int64 // size in bytes, or -1 if unknown
	hash hash.Hash
	busy bool  // a chunk is read; guarded by the store's mu
	held int64 // bytes that are kept; guarded by the store's mu
}

func (f *fileStore) addUpload(u *geminiUpload) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uploads = append(f.uploads, u)
	if len(f.uploads) > maxUploads {
		f.held -= f.uploads[0].held
		f.uploads = f.uploads[1:]
	}
}

// takeUpload returns the upload for one chunk, and whether it is free; nil if
// there is none.
func (f *fileStore) takeUpload(id string) (u *geminiUpload, free bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.uploadIndex(id)
	if i < 0 {
		return nil, false
	}
	u = f.uploads[i]
	free, u.busy = !u.busy, true
	return u, free
}

// returnUpload ends what takeUpload began; the upload is removed if it is over.
func (f *fileStore) returnUpload(u *geminiUpload, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u.busy = false
	if i := f.uploadIndex(u.id); over && i >= 0 {
		f.held -= u.held
		f.uploads = slices.Delete(f.uploads, i, i+1)
	}
}

func (f *fileStore) uploadIndex(id string) int {
	return slices.IndexFunc(f.uploads, func(u *geminiUpload) bool { return u.id == id })
}

// hasUpload reports whether a request continues an upload: its address is the
// credential.
func (f *fileStore) hasUpload(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.HasPrefix(withoutVersion(r.URL.Path), "/upload/") && f.uploadIndex(r.URL.Query().Get("upload_id")) >= 0
}

// Headers of resumable uploads.
// https://developers.google.com/photos/library/guides/resumable-uploads
const (
	uploadStatus = "X-Goog-Upload-Status"
	uploadSize   = "X-Goog-Upload-Size-Received"
)

// startUpload answers the request that begins a resumable upload.
func (x *exchange) startUpload() {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	if x.r.Header.Get("X-Goog-Upload-Command") != "start" {
		x.refuse(statusOf, invalid("", "X-Goog-Upload-Command must be start"))
		return
	}
	u := &geminiUpload{id: "sim" + strconv.FormatInt(x.number, 10), want: -1, hash: sha256.New()}
	if text := x.r.Header.Get("X-Goog-Upload-Header-Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			x.refuse(statusOf, invalid("", "X-Goog-Upload-Header-Content-Length must be a number of bytes"))
			return
		}
		u.want = n
	}
	file, ok := x.describeFile(x.in)
	if !ok {
		return
	}
	file.mime = cmp.Or(x.r.Header.Get("X-Goog-Upload-Header-Content-Type"), file.mime)
	if len(file.mime) > maxMime {
		x.refuse(statusOf, invalid("", "X-Goog-Upload-Header-Content-Type must be at most "+itoa(maxMime)+" characters"))
		return
	}
	u.file = file
	x.sim.files.addUpload(u)
	scheme := "http://"
	if x.r.TLS != nil {
		scheme = "https://"
	}
	h := x.w.Header()
	h.Set("X-Goog-Upload-Url", scheme+x.r.Host+x.r.URL.Path+"?upload_id="+u.id+"&upload_protocol=resumable")
	h.Set("X-Goog-Upload-Chunk-Granularity", strconv.Itoa(chunkUnit))
	h.Set(uploadStatus, "active")
	x.sendBody(http.StatusOK, typeJSON, nil)
}

// continueUpload answers a request to the address of an upload.
func (x *exchange) continueUpload(id string) {
	if !x.begin(nil) {
		return
	}
	u, free := x.sim.files.takeUpload(id)
	switch {
	case u == nil:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "Upload not found: it is complete, cancelled or too old"})
		return
	case !free:
		x.refuse(statusOf, invalid("", "another request for this upload is in progress"))
		return
	}
	over := false
	defer func() { x.sim.files.returnUpload(u, over) }()
	add, finish := false, false
	for word := range strings.SplitSeq(x.r.Header.Get("X-Goog-Upload-Command"), ",") {
		switch strings.TrimSpace(word) {
		case "query":
		case "cancel":
			over = true
			x.sendUpload(u, "cancelled")
			return
		case "upload":
			add = true
		case "finalize":
			finish = true
		default:
			x.sendUploadError(u, "X-Goog-Upload-Command must be upload, finalize, query or cancel")
			return
		}
	}
	if add && !x.readChunk(u, finish) {
		return
	}
	if !finish {
		x.sendUpload(u, "active")
		return
	}
	over = true
	x.w.Header().Set(uploadStatus, "final")
	if u.want >= 0 && u.want != u.file.size {
		x.refuse(statusOf,
			invalid("", "the upload has "+strconv.FormatInt(u.file.size, 10)+" bytes and was started with "+strconv.FormatInt(u.want, 10)))
		return
	}
	u.file.sum = hex.EncodeToString(u.hash.Sum(nil))
	x.storeGemini(u.file)
}

// readChunk adds the body to the upload. It returns false after a response or
// if the client disconnected.
func (x *exchange) readChunk(u *geminiUpload, last bool) bool {
	text := x.r.Header.Get("X-Goog-Upload-Offset")
	if text != "" && text != strconv.FormatInt(u.file.size, 10) {
		x.sendUploadError(u, "X-Goog-Upload-Offset must be the size received, "+strconv.FormatInt(u.file.size, 10))
		return false
	}
	var to io.Writer = u.hash
	if u.file.holdsLines() {
		to = io.MultiWriter(u.hash, &keptWriter{&x.sim.files, u})
	}
	n, err := io.Copy(to, x.r.Body)
	u.file.size += n
	if err != nil {
		x.recordDisconnect()
		return false
	}
	if !last && n%chunkUnit != 0 {
		x.sendUploadError(u, "the size of a chunk except the last must be a multiple of "+strconv.Itoa(chunkUnit))
		return false
	}
	return true
}

// A keptWriter keeps the beginning of the content of an upload.
type keptWriter struct {
	store  *fileStore
	upload *geminiUpload
}

// Write keeps what all uploads together may keep.
func (w *keptWriter) Write(b []byte) (int, error) {
	w.store.mu.Lock()
	room := max(0, min(int64(len(b)), w.store.limit-w.store.held))
	if w.store.uploadIndex(w.upload.id) < 0 { // it has been removed
		room = 0
	}
	w.store.held += room
	w.upload.held += room
	w.store.mu.Unlock()
	w.upload.file.kept = append(w.upload.file.kept, b[:room]...)
	return len(b), nil
}

func (x *exchange) sendUpload(u *geminiUpload, status string) {
	x.w.Header().Set(uploadStatus, status)
	x.w.Header().Set(uploadSize, strconv.FormatInt(u.file.size, 10))
	x.sendBody(http.StatusOK, typeJSON, nil)
}

// sendUploadError refuses a request without an effect on the upload's status.
func (x *exchange) sendUploadError(u *geminiUpload, message string) {
	x.w.Header().Set(uploadStatus, "active")
	x.w.Header().Set(uploadSize, strconv.FormatInt(u.file.size, 10))
	x.refuse(statusOf, invalid("", message))
}
