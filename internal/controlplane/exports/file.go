package exports

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Validity of links, and the time limits for finding the export of a link and for
// downloading its file.
const (
	linkLife = 15 * time.Minute
	findTime = 5 * time.Second
	readTime = time.Hour
)

const (
	filesBefore = api.BasePath + "/logs/exports/"
	filesAfter  = "/file"
)

// IsFile reports whether [Runner.ServeHTTP] serves a path.
func IsFile(path string) bool {
	id, ok := strings.CutPrefix(path, filesBefore)
	id, file := strings.CutSuffix(id, filesAfter)
	return ok && file && id != "" && !strings.Contains(id, "/")
}

func newLinkKey() string { return rand.Text() }

// Link implements [Files]. It returns a presigned address of the bucket, or a
// path of the gateway signed with a key of the export.
func (r *Runner) Link(ctx context.Context, e store.Export) (string, error) {
	address, err := r.Files.Link(ctx, e.File, saveAs(&e), linkLife)
	if err != nil || address != "" {
		return address, err
	}
	until := strconv.FormatInt(r.Now().Add(linkLife).Unix(), 10)
	return filesBefore + e.ID + filesAfter + "?expires=" + until + "&signature=" + sign(&e, until), nil
}

// saveAs returns the file name suggested to browsers.
func saveAs(e *store.Export) string { return fmt.Sprintf("logs-%s.%s", e.ID, e.Format) }

// sign returns the signature of a link, which only holders of the export's key can
// compute.
func sign(e *store.Export, until string) string {
	m := hmac.New(sha256.New, []byte(e.LinkKey))
	m.Write([]byte(e.ID + "\n" + until))
	return hex.EncodeToString(m.Sum(nil))
}

// ServeHTTP serves the file of a link. The link itself authorises the request.
func (r *Runner) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e, err := r.linked(req)
	if err == nil {
		err = r.serve(w, req, e)
	}
	if err == nil {
		return
	}
	said := apierr.From(r.DB.ClientError(err))
	if said.Kind == apierr.Internal {
		r.Logger.Error("serving an export file failed", "err", err.Error())
	}
	if said.Kind == apierr.MethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(said.Status())
	w.Write(said.Body())
}

// linked returns the export of a valid link. The error does not say why a link is
// invalid.
func (r *Runner) linked(req *http.Request) (*store.Export, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil, apierr.New(apierr.MethodNotAllowed, "method not allowed; use GET")
	}
	wrong := apierr.New(apierr.Forbidden, "the link is invalid or expired; request a new one from GET /v1/logs/exports/{id}/download").WithCode("AB03")
	q := req.URL.Query()
	until, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	if err != nil || r.Now().Unix() >= until || len(q) != 2 || len(q["expires"]) != 1 || len(q["signature"]) != 1 {
		return nil, wrong
	}
	ctx, cancel := context.WithTimeout(req.Context(), findTime)
	defer cancel()
	e, err := r.DB.Export(ctx, strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, filesBefore), filesAfter))
	switch {
	case err != nil && !apierr.IsNotFound(err):
		return nil, err
	case err != nil, e.Status != store.ExportDone, e.LinkKey == "",
		!hmac.Equal([]byte(sign(&e, q.Get("expires"))), []byte(q.Get("signature"))):
		return nil, wrong
	}
	return &e, checkFields(ctx, r.DB.Queries, &e)
}

func (r *Runner) serve(w http.ResponseWriter, req *http.Request, e *store.Export) error {
	file, err := r.Files.Get(req.Context(), e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return apierr.New(apierr.NotFound, "the file is not on this node; with several nodes, configure blob.s3 to share files")
	}
	if err != nil {
		return err
	}
	defer file.Close()
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTime)) // every server supports it
	h := w.Header()
	h.Set("Content-Type", types[e.Format])
	h.Set("Content-Disposition", `attachment; filename="`+saveAs(e)+`"`)
	h.Set("Cache-Control", "private, no-store")
	route.ForbidSniffing(w)
	if seeker, ok := file.(io.ReadSeeker); ok {
		http.ServeContent(w, req, "", e.EndedAt, seeker)
		return nil
	}
	io.Copy(w, file) // the client notices the short body
	return nil
}
