package simulator

import (
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// notDownloadable is the code of the error for the content of an uploaded file:
// only files made by tools can be downloaded.
const notDownloadable = "file_not_downloadable"

// messagesFileID is the beginning of ids of files, followed by their number.
const messagesFileID = "file_sim"

// serveMessagesUpload answers POST /files with the header anthropic-version.
// The beta header is not required, since current client libraries do not send
// it.
//
//   - https://docs.anthropic.com/en/api/files-create
//   - https://docs.anthropic.com/en/docs/build-with-claude/files#error-handling
func serveMessagesUpload(x *exchange) {
	up, ok := x.readUpload(x.sim.files.limit)
	if !ok || !x.begin(nil) {
		return
	}
	if !up.found {
		x.refuse(statusOf, invalid("file", "file: Field required"))
		return
	}
	file := &storedFile{number: x.number, id: messagesFileID + strconv.FormatInt(x.number, 10), protocol: x.protocol, upload: up}
	file.created = x.began
	if text, ok := up.fields["expires_in_seconds"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 3600 || n > 7776000 {
			x.refuse(statusOf, invalid("expires_in_seconds", "expires_in_seconds: Input should be an integer from 3600 to 7776000"))
			return
		}
		file.expires = file.created.Add(time.Duration(n) * time.Second)
	}
	if len(up.name) > 255 || strings.ContainsFunc(up.name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`<>:"|?*\/`, r) }) {
		x.refuse(statusOf, invalid("file", "file: Invalid filename: at most 255 characters and none of <>:\"|?*\\/"))
		return
	}
	file.complete(x.plan.generated)
	if file.name == "" {
		file.name = "unnamed"
		if all, err := mime.ExtensionsByType(file.mime); err == nil && len(all) > 0 {
			file.name += all[0]
		}
	}
	x.sim.files.add(file)
	x.out = file.appendMessages(x.out[:0])
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// complete sets what a file has by default. Content that cannot be downloaded
// is not kept, except input of batches.
func (file *storedFile) complete(generated bool) {
	if file.mime == "" {
		file.mime = "application/octet-stream"
	}
	if file.generated = generated; !generated && !file.holdsLines() {
		file.kept = nil
	}
}

// holdsLines reports whether the file may be the input of a batch.
func (file *storedFile) holdsLines() bool { return strings.Contains(file.mime, "json") }

func (file *storedFile) appendMessages(dst []byte) []byte {
	dst = appendAll(dst, `{"type":"file","id":"`, file.id, `","filename":`, quoted(file.name), `,"mime_type":`, quoted(file.mime),
		`,"size_bytes":`, strconv.FormatInt(file.size, 10), `,"created_at":"`, file.created.UTC().Format(time.RFC3339),
		`","downloadable":`, strconv.FormatBool(file.generated))
	if !file.expires.IsZero() {
		dst = appendAll(dst, `,"expires_at":"`, file.expires.UTC().Format(time.RFC3339), `"`)
	}
	return append(dst, '}')
}

// serveMessagesFiles answers GET /files, newest first. Pages are found by their
// cursor, or by the ids of the beta: after_id and before_id.
// https://docs.anthropic.com/en/api/files-list
func serveMessagesFiles(x *exchange) {
	if !x.begin(nil) {
		return
	}
	query := x.r.URL.Query()
	list := x.sim.files.list(x.protocol)
	if ids := append(query["ids"], query["ids[]"]...); len(ids) > 0 {
		list = slices.DeleteFunc(list, func(file *storedFile) bool { return !slices.Contains(ids, file.id) })
		query = nil
	}
	list, more, wrong := pageOf(list, query)
	if wrong != "" {
		x.refuse(statusOf, invalid(wrong, wrong+": Input should be valid"))
		return
	}
	first, last, next := "null", "null", "null"
	x.out = append(x.out[:0], `{"data":[`...)
	for i, file := range list {
		if i > 0 {
			x.out = append(x.out, ',')
		} else {
			first = quoted(file.id)
		}
		last = quoted(file.id)
		x.out = file.appendMessages(x.out)
	}
	if more && query.Get("before_id") == "" {
		next = `"page_` + last[1:]
	}
	x.out = appendAll(x.out, `],"first_id":`, first, `,"last_id":`, last, `,"has_more":`, strconv.FormatBool(more), `,"next_page":`, next, `}`)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

// pageOf returns the files of a page, and whether more follow in its direction.
// wrong is the name of an invalid parameter.
func pageOf(list []*storedFile, query url.Values) (page []*storedFile, more bool, wrong string) {
	limit := 20
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return nil, false, "limit"
		}
		limit = n
	}
	for _, name := range []string{"page", "after_id", "before_id"} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimPrefix(text, "page_"), messagesFileID), 10, 64)
		if err != nil {
			return nil, false, name
		}
		before := name == "before_id"
		list = slices.DeleteFunc(list, func(file *storedFile) bool { return before != (file.number > n) || file.number == n })
		if before {
			from := max(len(list)-limit, 0)
			return list[from:], from > 0, ""
		}
	}
	return list[:min(limit, len(list))], len(list) > limit, ""
}

// serveMessagesFile answers GET /files/{id} and /files/{id}/content.
func serveMessagesFile(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id, content := strings.CutSuffix(fileID(x.r), "/content")
	file := x.sim.files.find(x.protocol, id)
	switch {
	case file == nil:
		x.refuse(http.StatusNotFound, noMessagesFile(id))
	case content && !file.generated:
		x.refuse(statusOf,
			providerError{kind: invalidRequest, code: notDownloadable, message: "File " + id +
				" is not downloadable: only files that tools create are"})
	case content && int64(len(file.kept)) < file.size:
		x.refuse(http.StatusNotFound, noContent)
	case content:
		x.sendBody(http.StatusOK, []string{file.mime}, file.kept)
	default:
		x.out = file.appendMessages(x.out[:0])
		x.sendBody(http.StatusOK, typeJSON, x.out)
	}
}

// serveMessagesFileDelete answers DELETE /files/{id}.
func serveMessagesFileDelete(x *exchange) {
	if !x.begin(nil) {
		return
	}
	id := fileID(x.r)
	if !x.sim.files.remove(x.protocol, id) {
		x.refuse(http.StatusNotFound, noMessagesFile(id))
		return
	}
	x.out = appendAll(x.out[:0], `{"id":`, quoted(id), `,"type":"file_deleted"}`)
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func noMessagesFile(id string) providerError {
	return providerError{kind: invalidRequest, message: "File not found: " + id}
}
