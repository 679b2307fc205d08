package simulator

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// findStorage returns the service of a request for objects of Google: below /gcs
// as in its XML API, or in its JSON API.
// https://cloud.google.com/storage/docs/json_api
func findStorage(path string) (s service, ok bool) {
	switch {
	case strings.HasPrefix(path, "/gcs/"):
		return service{serveStorageXML, &s3Protocol}, true
	case strings.HasPrefix(path, "/storage/v1/b/"):
		return service{serveStorage, &geminiProtocol}, true
	case strings.HasPrefix(path, "/upload/storage/v1/b/"):
		return service{serveStorageUpload, &geminiProtocol}, true
	}
	return s, false
}

// serveStorageXML answers PUT, GET, HEAD and DELETE of /gcs/{bucket}/{key}.
func serveStorageXML(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	x.serveObject(gsFamily, strings.TrimPrefix(x.r.URL.Path, "/gcs/"))
}

// serveStorageUpload answers POST /upload/storage/v1/b/{bucket}/o with an object
// as the body.
func serveStorageUpload(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	query := x.r.URL.Query()
	bucket, rest, _ := strings.Cut(strings.TrimPrefix(x.r.URL.Path, "/upload/storage/v1/b/"), "/")
	if rest != "o" || query.Get("uploadType") != "media" || query.Get("name") == "" {
		x.refuse(statusOf, invalid("uploadType", "the upload must have the type media and a name"))
		return
	}
	o := &bucketObject{name: bucket + "/" + query.Get("name"), content: bytes.Clone(x.in), kind: x.r.Header.Get("Content-Type"),
		half: x.plan.halfContent}
	x.sim.putObject(gsFamily, o)
	x.sendCreated(http.StatusOK, o.describe())
}

// describe returns the metadata of an object of Google.
func (o *bucketObject) describe() any {
	bucket, key, _ := strings.Cut(o.name, "/")
	at := o.modified.UTC().Format(time.RFC3339)
	return object{"kind": "storage#object", "id": o.name, "name": key, "bucket": bucket, "contentType": o.kind, "etag": o.tag,
		"size": strconv.Itoa(len(o.content)), "timeCreated": at, "updated": at}
}

// serveStorage answers GET and DELETE of /storage/v1/b/{bucket}/o/{key}, and the
// list of objects.
func serveStorage(x *exchange) {
	if !x.begin(nil) {
		return
	}
	bucket, rest, _ := strings.Cut(strings.TrimPrefix(x.r.URL.EscapedPath(), "/storage/v1/b/"), "/")
	escaped, isObject := strings.CutPrefix(rest, "o/")
	key, err := url.PathUnescape(escaped)
	query := x.r.URL.Query()
	name := bucket + "/" + key
	o, ok := findRecord[*bucketObject](&x.sim.stored, gsFamily, name)
	switch {
	case rest == "o" && x.r.Method == http.MethodGet:
		x.listStorage(bucket, query)
	case !isObject || err != nil || !ok:
		x.refuse(http.StatusNotFound, providerError{kind: invalidRequest, message: "No such object: " + name})
	case x.r.Method == http.MethodDelete:
		x.sim.stored.remove(gsFamily, name)
		x.w.WriteHeader(http.StatusNoContent)
	case query.Get("alt") == "media":
		x.sendObject(o)
	default:
		x.sendJSON(http.StatusOK, o.describe())
	}
}

func (x *exchange) listStorage(bucket string, query url.Values) {
	list := x.sim.objectsBelow(gsFamily, bucket+"/"+query.Get("prefix"))
	page, next, wrong := pageByToken(list, url.Values{"pageSize": query["maxResults"], "pageToken": query["pageToken"]},
		func(o *bucketObject) string { return o.name })
	if wrong.kind != "" {
		x.refuse(statusOf, wrong)
		return
	}
	items := make([]any, len(page))
	for i, o := range page {
		items[i] = o.describe()
	}
	x.sendJSON(http.StatusOK, withToken(object{"kind": "storage#objects", "items": items}, next))
}
