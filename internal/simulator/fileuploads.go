package simulator

import (
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	uploadFamily = "upload"
	// maxUploadParts is the limit of parts that an upload keeps.
	maxUploadParts = 10000
	// maxPartSize is the limit of a part in bytes.
	// https://platform.openai.com/docs/api-reference/uploads/add-part
	maxPartSize = 64 << 20
	// uploadLifetime is how long parts are accepted.
	uploadLifetime = time.Hour
)

// A partUpload is a file that is uploaded in parts.
type partUpload struct {
	mu      sync.Mutex
	id      string
	status  string
	size    int64 // as announced
	file    *storedFile
	created time.Time
	keep    time.Duration
	parts   map[string][]byte
	held    int64 // bytes of parts
}

// serveUploadCreate answers POST /uploads.
func serveUploadCreate(x *exchange) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "bytes", "filename", "mime_type", "purpose", "expires_after")
	u := &partUpload{id: "upload_sim" + strconv.FormatInt(x.number, 10), status: "pending", created: x.began, parts: map[string][]byte{}}
	if u.size = int64(c.integer(body, "bytes", "", 1)); body["bytes"] == nil {
		c.fail("bytes", "Field required")
	}
	u.file = &storedFile{purpose: c.filled(body, "purpose", "")}
	c.word(body, "purpose", "", filePurposes...)
	u.file.name, u.file.mime = c.filled(body, "filename", ""), c.filled(body, "mime_type", "")
	u.keep = c.lifetime(body, "expires_after")
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	x.sim.stored.add(uploadFamily, u.id, len(x.in), u)
	x.sendCreated(http.StatusOK, u.describe())
}

func (u *partUpload) describe() any {
	d := object{"id": u.id, "object": "upload", "bytes": u.size, "created_at": u.created.Unix(), "filename": u.file.name,
		"purpose": u.file.purpose, "status": u.status, "expires_at": u.created.Add(uploadLifetime).Unix(), "file": nil}
	if u.status == "completed" {
		d["file"] = object{"id": u.file.id, "object": "file", "bytes": u.file.size, "created_at": u.file.created.Unix(),
			"filename": u.file.name, "purpose": u.file.purpose, "status": "processed"}
	}
	return d
}

// serveUploadStep answers POST /uploads/{id}/parts, /complete and /cancel.
func serveUploadStep(x *exchange) {
	parts := x.segments("/uploads/")
	u, ok := findRecord[*partUpload](&x.sim.stored, uploadFamily, parts[0])
	steps := map[string]func(*exchange, *partUpload){"parts": addUploadPart, "complete": completeUpload, "cancel": cancelUpload}
	if !ok || len(parts) != 2 || steps[parts[1]] == nil {
		if x.begin(nil) {
			x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "No such upload: " + parts[0]})
		}
		return
	}
	steps[parts[1]](x, u)
}

// refusesStep sends an error for an upload that is not pending, and reports
// whether it did. The caller holds mu.
func (u *partUpload) refusesStep(x *exchange) bool {
	if u.status == "pending" && !x.began.Before(u.created.Add(uploadLifetime)) {
		u.status, u.parts = "expired", nil
	}
	if u.status != "pending" {
		x.refuse(statusOf, providerError{kind: invalidRequest, message: "The upload is " + u.status + " and must be pending."})
		return true
	}
	return false
}

func addUploadPart(x *exchange, u *partUpload) {
	up, ok := x.readForm(min(maxPartSize, x.sim.files.limit), "data")
	if !ok || !x.begin(nil) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refusesStep(x) {
		return
	}
	switch {
	case !up.found:
		x.refuse(statusOf, missing("data"))
	case up.size > maxPartSize:
		x.refuse(statusOf, invalid("data", "A part has at most "+itoa(maxPartSize)+" bytes."))
	case u.held+up.size > u.size:
		x.refuse(statusOf, invalid("data", "The parts are larger than the upload's "+strconv.FormatInt(u.size, 10)+" bytes."))
	case len(u.parts) >= maxUploadParts || int64(len(up.kept)) < up.size:
		x.refuse(http.StatusRequestEntityTooLarge, tooLarge)
	default:
		id := "part_sim" + strconv.FormatInt(x.number, 10)
		u.parts[id] = up.kept
		u.held += up.size
		x.sim.stored.grow(uploadFamily, u.id, len(up.kept))
		x.sendCreated(http.StatusOK, object{"id": id, "object": "upload.part", "created_at": x.began.Unix(), "upload_id": u.id})
	}
}

func completeUpload(x *exchange, u *partUpload) {
	body, ok := x.open(nil)
	if !ok {
		return
	}
	c := newChecker(x.protocol)
	c.checkMembers(body, "", "part_ids", "md5")
	sum := c.text(body, "md5", "")
	c.needList(body, "part_ids", "")
	ids := c.texts(body, "part_ids", "")
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	if u.refusesStep(x) {
		return
	}
	var content []byte
	used := map[string]bool{}
	for i, id := range ids {
		if _, ok := u.parts[id]; !ok || used[id] {
			x.refuse(statusOf, invalid(nth("part_ids", i), "There is no such part of this upload, or it is duplicated: "+id))
			return
		}
		used[id] = true
		content = append(content, u.parts[id]...)
	}
	digest := md5.Sum(content)
	switch {
	case int64(len(content)) != u.size:
		x.refuse(statusOf, invalid("part_ids", "The parts have "+itoa(len(content))+" bytes and the upload "+strconv.FormatInt(u.size, 10)+"."))
		return
	case sum != "" && sum != hex.EncodeToString(digest[:]):
		x.refuse(statusOf, invalid("md5", "The MD5 checksum does not match the content."))
		return
	}
	u.finish(x, content)
	x.sendCreated(http.StatusOK, u.describe())
}

// finish stores the file of an upload.
func (u *partUpload) finish(x *exchange, content []byte) {
	file := u.file
	file.number, file.id, file.created = x.number, "file-sim"+strconv.FormatInt(x.number, 10), x.began
	if u.keep > 0 {
		file.expires = x.began.Add(u.keep)
	}
	file.upload = madeUpload(file.name, content)
	x.sim.files.add(file)
	x.sim.stored.grow(uploadFamily, u.id, -int(u.held))
	u.status, u.parts = "completed", nil
}

func cancelUpload(x *exchange, u *partUpload) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.refusesStep(x) {
		return
	}
	x.sim.stored.grow(uploadFamily, u.id, -int(u.held))
	u.status, u.parts = "cancelled", nil
	x.sendJSON(http.StatusOK, u.describe())
}
