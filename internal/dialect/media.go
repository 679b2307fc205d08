package dialect

import (
	"encoding/base64"
	"net/url"
	"path"
	"strings"

	"modelgate/internal/model/llm"
)

// ParseDataURL splits a data: URL (RFC 2397) into its MIME type and its base64
// content. ok is false if s is not a data: URL. An empty type is text/plain, as
// in the RFC.
func ParseDataURL(s string) (mime, data string, ok bool) {
	if len(s) < 5 || !strings.EqualFold(s[:5], "data:") {
		return "", "", false
	}
	head, data, ok := strings.Cut(s[5:], ",")
	if !ok {
		return "", "", false
	}
	mime, rest, _ := strings.Cut(head, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	if mime == "" {
		mime = "text/plain"
	}
	for param := range strings.SplitSeq(rest, ";") {
		if strings.EqualFold(strings.TrimSpace(param), "base64") {
			return mime, data, true
		}
	}
	text, err := url.PathUnescape(data)
	if err != nil {
		return "", "", false
	}
	return mime, base64.StdEncoding.EncodeToString([]byte(text)), true
}

// MediaKindOf returns the kind for a MIME type: a document unless it is an
// image, audio or video.
func MediaKindOf(mime string) llm.MediaKind {
	switch kind, _, _ := strings.Cut(mime, "/"); kind {
	case "image":
		return llm.Image
	case "audio":
		return llm.Audio
	case "video":
		return llm.Video
	}
	return llm.Document
}

// TypeByName returns the MIME type for the extension of a file name or URL,
// empty if it is unknown.
func TypeByName(name string) string {
	if u, err := url.Parse(name); err == nil && u.Path != "" {
		name = u.Path
	}
	return types[strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))]
}

var types = map[string]string{
	"jpeg": "image/jpeg", "jpg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp",
	"bmp": "image/bmp", "tiff": "image/tiff", "tif": "image/tiff", "heic": "image/heic", "heif": "image/heif", "svg": "image/svg+xml",
	"pdf": "application/pdf", "csv": "text/csv", "txt": "text/plain", "md": "text/markdown", "html": "text/html", "htm": "text/html",
	"json": "application/json", "xml": "application/xml",
	"doc": "application/msword", "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	"xls": "application/vnd.ms-excel", "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"mp3": "audio/mp3", "wav": "audio/wav", "aac": "audio/aac", "flac": "audio/flac", "ogg": "audio/ogg", "m4a": "audio/m4a",
	"opus": "audio/ogg",
	"mov":  "video/mov", "mp4": "video/mp4", "mpeg": "video/mpeg", "mpg": "video/mpg", "avi": "video/avi", "wmv": "video/wmv",
	"flv": "video/flv", "webm": "video/webm", "mkv": "video/mkv", "3gp": "video/3gpp",
}
