package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/scim"
)

// mediaType is the content type of responses.
const mediaType = "application/scim+json"

// write writes an object with a status.
func write(w http.ResponseWriter, status int, o scim.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	w.Write(body)
	return nil
}

// writeError writes an error of the API in the form of SCIM.
func writeError(w http.ResponseWriter, err *apierr.Error) {
	kind := ""
	if err.Kind == apierr.Invalid {
		kind = scim.InvalidSyntax
	}
	if s := err.RetryAfter; s > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((s+time.Second-1)/time.Second)))
	}
	if err.Kind == apierr.Unauthenticated {
		w.Header().Set("Www-Authenticate", "Bearer")
	}
	writeSCIMError(w, &scim.Error{Status: err.Status(), Type: kind, Detail: err.Error()})
}

// writeSCIMError writes an error. Its status is a string, as RFC 7644 says.
func writeSCIMError(w http.ResponseWriter, e *scim.Error) {
	o := scim.Object{"schemas": []string{scim.ErrorURN}, "status": strconv.Itoa(e.Status), "detail": e.Detail}
	if e.Type != "" {
		o["scimType"] = e.Type
	}
	write(w, e.Status, o) // can be encoded
}

// answer writes err if it is an error of SCIM, and otherwise returns it.
func answer(w http.ResponseWriter, err error) error {
	e, ok := errors.AsType[*scim.Error](err)
	if !ok {
		return err
	}
	writeSCIMError(w, e)
	return nil
}

// notFound returns the error for an object that the directory cannot see.
func notFound(what, id string) *scim.Error {
	return &scim.Error{Status: http.StatusNotFound, Detail: fmt.Sprintf("%s %.60q not found", what, id)}
}

// conflict returns an error for a value in use.
func conflict(format string, args ...any) *scim.Error {
	return scim.Errorf(scim.Uniqueness, format, args...)
}

// checkType returns an error for a body that is not JSON.
func checkType(r *http.Request) error {
	text := r.Header.Get("Content-Type")
	if text == "" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(text); err == nil && (kind == mediaType || kind == "application/json") {
		return nil
	}
	return &scim.Error{Status: http.StatusUnsupportedMediaType, Detail: "the content type must be application/scim+json or application/json"}
}

// etag returns the tag of a version.
func etag(version int64) string { return fmt.Sprintf(`W/"%d"`, version) }

// matches reports whether a header names a version.
func matches(header string, version int64) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag(version), "W/") {
			return true
		}
	}
	return false
}

// checkMatch returns an error if If-Match names another version.
func checkMatch(r *http.Request, version int64) error {
	if h := r.Header.Get("If-Match"); h != "" && !matches(h, version) {
		return &scim.Error{Status: http.StatusPreconditionFailed, Detail: "the object was changed; read it again and retry"}
	}
	return nil
}

// location returns the address of a path below the base.
func location(c *route.Caller, path string) string { return c.AbsoluteLink(api.BasePath + base + path) }

// stamp returns the time of an object as SCIM writes it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// page is the part of a list that a request asks for.
type page struct {
	start  int // from 1
	count  int
	filter *scim.Filter
	scim.Projection
}

// Numbers of objects on a page.
const (
	defaultCount = 100
	maxCount     = 1000
)

// readPage reads the parameters of a list.
func readPage(r *http.Request, t *scim.Type) (p page, err error) {
	q := r.URL.Query()
	if p.start, err = readNumber(q.Get("startIndex"), 1, "startIndex"); err != nil {
		return p, err
	}
	if p.count, err = readNumber(q.Get("count"), defaultCount, "count"); err != nil {
		return p, err
	}
	p.start, p.count = max(p.start, 1), min(max(p.count, 0), maxCount)
	if text := q.Get("filter"); text != "" {
		if p.filter, err = scim.ParseFilter(text); err != nil {
			return p, err
		}
	}
	p.Projection, err = projection(r, t)
	return p, err
}

func projection(r *http.Request, t *scim.Type) (scim.Projection, error) {
	q := r.URL.Query()
	return t.ParseProjection(q.Get("attributes"), q.Get("excludedAttributes"))
}

func readNumber(text string, without int, name string) (int, error) {
	if text == "" {
		return without, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, scim.Errorf(scim.InvalidValue, "%s must be an integer", name)
	}
	return n, nil
}

// writeList writes a page of objects.
func writeList(w http.ResponseWriter, start, total int, list []scim.Object) error {
	if list == nil {
		list = []scim.Object{}
	}
	return write(w, http.StatusOK, scim.Object{
		"schemas": []string{scim.ListURN}, "totalResults": total, "startIndex": start, "itemsPerPage": len(list), "Resources": list,
	})
}

// writeOne writes an object, or says that the client has it.
func writeOne(w http.ResponseWriter, r *http.Request, o scim.Object, version int64) error {
	w.Header().Set("Etag", etag(version))
	if h := r.Header.Get("If-None-Match"); h != "" && matches(h, version) && r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return write(w, http.StatusOK, o)
}

// refuseUnknown answers what no route serves.
func refuseUnknown(_ context.Context, _ *route.Caller, w http.ResponseWriter, r *http.Request) error {
	name, _, _ := strings.Cut(r.PathValue("rest"), "/")
	e := &scim.Error{Status: http.StatusNotFound, Detail: "path not found"}
	switch strings.ToLower(name) {
	case "bulk", "me":
		e = &scim.Error{Status: http.StatusNotImplemented, Detail: "/" + name + " is not supported"}
	case "users", "groups", "schemas", "resourcetypes", "serviceproviderconfig":
		if r.Method != http.MethodGet {
			e = &scim.Error{Status: http.StatusMethodNotAllowed, Detail: "the method is not allowed at this path"}
		}
	}
	writeSCIMError(w, e)
	return nil
}
