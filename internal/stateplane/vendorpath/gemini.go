package vendorpath

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// uploadLife is how long a file can be sent to the address of an upload.
const uploadLife = 24 * time.Hour

// serveGemini serves a request to files of Gemini.
// https://ai.google.dev/api/files
func serveGemini(q *kept.Request) error {
	if namesOther(q, api.DialectGemini) {
		return q.Through() // it is refused: the provider has no such path
	}
	before, rest, _ := strings.Cut(q.From.Path, "/files")
	rest = strings.TrimPrefix(rest, "/")
	method, isUpload := q.HTTP.Method, strings.HasPrefix(before, "/upload/")
	switch {
	case rest == "" && isUpload && method == http.MethodPost:
		return upload(q)
	case rest == "" && !isUpload && method == http.MethodPost:
		return createGemini(q)
	case rest == "" && !isUpload && method == http.MethodGet:
		return listGemini(q)
	case rest == "" || isUpload || strings.Contains(rest, "/"):
		return noRoute(q)
	}
	id, action, _ := strings.Cut(rest, ":")
	o, passed, err := find(q, store.ObjectGeminiFile, id)
	switch {
	case passed || err != nil:
		return err
	case action == "download" && method == http.MethodGet:
		return relay(q, &o)
	case action == "" && method == http.MethodGet:
		return show(q, &o, adoptGemini)
	case action == "" && method == http.MethodDelete:
		return q.DeleteThere(&o)
	}
	return noRoute(q)
}

// upload serves a request to send a file: in one piece, or one of several to the address
// that the first one got.
func upload(q *kept.Request) error {
	query, err := url.ParseQuery(q.From.Query)
	if err != nil {
		return apierr.New(apierr.Invalid, "the query is not valid; encode its values").WithParam("query")
	}
	commands := strings.ToLower(q.HTTP.Header.Get("X-Goog-Upload-Command"))
	switch ids := query["upload_id"]; {
	case len(ids) > 1:
		return apierr.New(apierr.Invalid, "the query names several uploads; name one").WithParam("upload_id")
	case len(ids) == 1:
		return continueUpload(q, ids[0], strings.Contains(commands, "finalize"))
	case strings.EqualFold(q.HTTP.Header.Get("X-Goog-Upload-Protocol"), "resumable") || query.Get("uploadType") == "resumable":
		return beginUpload(q)
	}
	return createGemini(q)
}

// beginUpload begins an upload in several pieces. Its id is in the address that its provider
// returns.
func beginUpload(q *kept.Request) error {
	o := q.NewObject(store.ObjectGeminiUpload, "gw_gupload_")
	o.Provider, o.Data, o.ExpiresAt = q.From.Provider, json.RawMessage(`{}`), o.CreatedAt.Add(uploadLife)
	res, err := q.CreateBy(&o, q.Forwarded(q.From.Provider), q.CallTo(o.Provider), func(c *kept.Capture) error {
		u, err := url.Parse(c.Header().Get("X-Goog-Upload-Url"))
		if err != nil || u.Query().Get("upload_id") == "" {
			return kept.RefuseUnreadable("upload")
		}
		o.ProviderID, o.State = u.Query().Get("upload_id"), "active"
		return nil
	})
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// continueUpload sends a piece of an upload, or asks for its state. The last piece makes it a
// file.
func continueUpload(q *kept.Request, id string, last bool) error {
	o, passed, err := find(q, store.ObjectGeminiUpload, id)
	if passed || err != nil {
		return err
	}
	if !last {
		return relay(q, &o)
	}
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	file := q.NewObject(store.ObjectGeminiFile, "gw_gfile_")
	file.Provider, file.Integration = o.Provider, o.Integration
	res, err := q.Create(&file, q.Forwarded(o.Provider), func(body []byte) error { return adoptGemini(&file, body) })
	if err != nil {
		return err
	}
	if file.ProviderID != "" {
		err := q.Change(func(tx *store.Tx) error { return tx.DeleteObject(q.HTTP.Context(), &o) })
		if err != nil && !apierr.IsNotFound(err) {
			return err
		}
	}
	return res.Send(q.W)
}

func createGemini(q *kept.Request) error {
	res, err := create(q, store.ObjectGeminiFile, "gw_gfile_", adoptGemini)
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// adoptGemini puts a file into its record, as its provider describes it: alone, or as the
// member of the response to an upload.
func adoptGemini(o *store.Object, body []byte) error {
	var in struct {
		File json.RawMessage `json:"file"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return kept.RefuseUnreadable("file")
	}
	if in.File == nil {
		in.File = body
	}
	var f struct {
		Name        string `json:"name"`
		DisplayName string `json:"displayName"`
		Size        string `json:"sizeBytes"`
		State       string `json:"state"`
		ExpiresAt   string `json:"expirationTime"`
	}
	if err := json.Unmarshal(in.File, &f); err != nil || !strings.HasPrefix(f.Name, "files/") {
		return kept.RefuseUnreadable("file")
	}
	size, _ := strconv.ParseInt(f.Size, 10, 64) // absent while the file is processed
	return describe(o, files.Details{Filename: f.DisplayName, Bytes: size, Shown: in.File}, strings.TrimPrefix(f.Name, "files/"), f.State,
		f.ExpiresAt)
}

// listGemini lists the files of the workspace.
// https://ai.google.dev/api/files#method:-files.list
func listGemini(q *kept.Request) error {
	if listsThere(q) {
		return q.Pass(store.ObjectGeminiFile)
	}
	list, next, err := geminiPage(q, store.ObjectGeminiFile)
	if err != nil {
		return err
	}
	var out struct {
		Files []json.RawMessage `json:"files,omitempty"`
		Next  string            `json:"nextPageToken,omitempty"`
	}
	for i := range list {
		file, err := descriptionOf(&list[i])
		if err != nil {
			return err
		}
		out.Files = append(out.Files, file)
	}
	out.Next = next
	return q.JSON(http.StatusOK, out)
}

// geminiPage returns a page of the objects of the workspace that a query asks for, and the
// token of the next page; empty after the last.
func geminiPage(q *kept.Request, kind string) (list []store.Object, next string, err error) {
	query := q.HTTP.URL.Query()
	x := store.ObjectQuery{Workspace: q.From.Identity.Workspace, Kind: kind, Provider: q.From.Provider, Limit: 10,
		AtProvider: true}
	if text := query.Get("pageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, "", apierr.New(apierr.Invalid, "pageSize must be an integer from 0 to 100, not %.40q", text).WithParam("pageSize")
		}
		if n > 0 {
			x.Limit = min(n, 100)
		}
	}
	if text := query.Get("pageToken"); text != "" {
		last, err := q.Find(kind, text)
		if err != nil {
			return nil, "", apierr.New(apierr.Invalid, "pageToken is not one of this list; begin again without it").WithParam("pageToken")
		}
		x.After = last.ID
	}
	list, more, err := q.Deps.DB.Objects(q.HTTP.Context(), x)
	if err != nil {
		return nil, "", q.Deps.DB.ClientError(err)
	}
	if more {
		next = list[len(list)-1].ID
	}
	return list, next, nil
}
