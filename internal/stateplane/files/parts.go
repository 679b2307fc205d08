package files

import (
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/store"
)

// Limits of uploads in parts.
// https://platform.openai.com/docs/api-reference/uploads
const (
	maxPart    = 64 << 20
	maxParts   = 1000
	uploadLife = time.Hour
)

// States of an upload.
const (
	uploadPending   = "pending"
	uploadCompleted = "completed"
	uploadCancelled = "cancelled"
	uploadExpired   = "expired"
)

// uploadDetails is what the record of an upload has beyond that of other objects.
type uploadDetails struct {
	Filename string `json:"filename"`
	Bytes    int64  `json:"bytes"`
	Life     int64  `json:"life,omitempty"` // of the file in seconds; zero is the gateway's setting

	// File is the id of the file that the upload becomes. Its parts are stored under it.
	File string `json:"file"`
}

// shownUpload is the wire format of an upload.
type shownUpload struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // upload
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
	ExpiresAt int64  `json:"expires_at"`
	File      *File  `json:"file"`
}

// ServeUploads serves a request below /uploads.
func ServeUploads(q *kept.Request) error {
	rest := strings.TrimPrefix(q.From.Path, "/uploads")
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if q.HTTP.Method != http.MethodPost {
		return kept.NoRoute(q)
	}
	if rest == "" {
		return beginUpload(q)
	}
	act := map[string]func(*kept.Request, *store.Object) error{"parts": addPart, "complete": complete, "cancel": cancelUpload}[action]
	if act == nil {
		return kept.NoRoute(q)
	}
	o, err := q.Find(store.ObjectUpload, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectUpload)
	case err != nil:
		return err
	case !hasContent(&o) && action == "complete":
		return completeThere(q, &o)
	case !hasContent(&o):
		return relay(q, &o)
	}
	if o.State == uploadPending && !q.Deps.Now().Before(o.ExpiresAt) {
		o.State = uploadExpired
	}
	if o.State != uploadPending {
		return apierr.New(apierr.Invalid, "the upload is %s; begin another one", o.State).WithParam("id").WithCode("upload_not_pending")
	}
	return act(q, &o)
}

// uploadInput is the body of a request that begins an upload.
type uploadInput struct {
	Bytes        int64  `json:"bytes"`
	Filename     string `json:"filename"`
	MimeType     string `json:"mime_type"`
	Purpose      string `json:"purpose"`
	ExpiresAfter *struct {
		Anchor  string `json:"anchor"`
		Seconds int64  `json:"seconds"`
	} `json:"expires_after"`
}

func beginUpload(q *kept.Request) error {
	if q.Names() {
		target, integration, err := q.Target(q.From.Provider)
		if q.From.Config != "" {
			err = nil
		}
		if err != nil {
			return err
		}
		if q.From.Config != "" || kept.Speaks(target, api.Files) {
			return relayUpload(q, integration)
		}
	}
	body, err := q.Body()
	if err != nil {
		return err
	}
	var in uploadInput
	if err := json.Unmarshal(body, &in); err != nil {
		return apierr.New(apierr.Invalid, "the request body must be a JSON object with bytes, filename, mime_type and purpose").WithCode("invalid_json")
	}
	if err := in.check(q); err != nil {
		return err
	}
	if _, err := q.Room(in.Bytes); err != nil {
		return err
	}
	o := q.NewObject(store.ObjectUpload, "gw_upload_")
	o.Provider, o.State, o.Label, o.ExpiresAt = q.From.Provider, uploadPending, in.Purpose, o.CreatedAt.Add(uploadLife)
	d := uploadDetails{Filename: path.Base(in.Filename), Bytes: in.Bytes, File: q.Deps.ObjectID("gw_file_")}
	if in.ExpiresAfter != nil {
		d.Life = in.ExpiresAfter.Seconds
	}
	if o.Data, err = json.Marshal(d); err != nil {
		return err
	}
	if err := q.Change(func(tx *store.Tx) error { return q.Add(q.HTTP.Context(), tx, o) }); err != nil {
		return err
	}
	return sendUpload(q, &o, &d, nil)
}

func (in *uploadInput) check(q *kept.Request) error {
	switch {
	case in.Filename == "" || !validName(path.Base(in.Filename)):
		return apierr.New(apierr.Invalid, "filename must be at most %d bytes of text without control characters",
			maxFilename).WithParam("filename")
	case in.Bytes <= 0:
		return apierr.New(apierr.Invalid, "bytes must be the size of the file, greater than 0").WithParam("bytes")
	case in.Bytes > q.Deps.Limits.FileBytes:
		return apierr.New(apierr.TooLarge, "the file is larger than the limit of %d bytes",
			q.Deps.Limits.FileBytes).WithParam("bytes").WithCode("file_too_large")
	case in.Purpose == "batch" && in.Bytes > q.Deps.Limits.BatchFileBytes:
		return apierr.New(apierr.TooLarge, "the limit of files with the purpose batch is %d bytes",
			q.Deps.Limits.BatchFileBytes).WithParam("bytes").WithCode("file_too_large")
	case in.MimeType == "":
		return apierr.New(apierr.Invalid, "mime_type is missing").WithParam("mime_type").WithCode("missing_required_parameter")
	case !slices.Contains(purposes, in.Purpose):
		return apierr.New(apierr.Invalid, "purpose must be one of %s, not %.40q", strings.Join(purposes, ", "), in.Purpose).WithParam("purpose")
	}
	if x := in.ExpiresAfter; x != nil && (x.Anchor != "created_at" || x.Seconds < int64(leastExpiry/time.Second) ||
		x.Seconds > int64(mostExpiry/time.Second)) {
		return expiryError()
	}
	return nil
}

// sendUpload writes an upload, with the file that it became.
func sendUpload(q *kept.Request, o *store.Object, d *uploadDetails, file *File) error {
	return q.JSON(http.StatusOK, shownUpload{
		ID: o.ID, Object: "upload", Bytes: d.Bytes, CreatedAt: o.CreatedAt.Unix(), Filename: d.Filename, Purpose: o.Label, Status: o.State,
		ExpiresAt: o.ExpiresAt.Unix(), File: file,
	})
}

func uploadOf(o *store.Object) (d uploadDetails, err error) {
	err = json.Unmarshal(o.Data, &d)
	return d, err
}

// addPart stores a part of an upload.
func addPart(q *kept.Request, o *store.Object) error {
	d, err := uploadOf(o)
	if err != nil {
		return err
	}
	left, err := q.Room(q.HTTP.ContentLength)
	if err != nil {
		return err
	}
	part := q.NewObject(store.ObjectPart, "gw_part_")
	part.Parent, part.ExpiresAt, part.State = o.ID, o.ExpiresAt, uploadPending
	blob := kept.Blob{Name: o.Organisation + "/" + d.File + "/" + part.ID}
	if blob.Size, err = storePart(q, o.Organisation, blob.Name, left); err == nil {
		part.Size = blob.Size
		if part.Data, err = json.Marshal(kept.Content{Blobs: []kept.Blob{blob}}); err == nil {
			err = q.Change(func(tx *store.Tx) error { return addToQuota(q, tx, part) })
		}
	}
	if err != nil {
		q.Deps.DeleteBlobs(q.HTTP.Context(), []kept.Blob{blob}) // it may not exist
		return err
	}
	return q.JSON(http.StatusOK, struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		CreatedAt int64  `json:"created_at"`
		UploadID  string `json:"upload_id"`
	}{part.ID, "upload.part", part.CreatedAt.Unix(), o.ID})
}

// storePart stores the field data of a form, of which left bytes have room.
func storePart(q *kept.Request, organisation, name string, left int64) (int64, error) {
	media, params, err := mime.ParseMediaType(q.HTTP.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || params["boundary"] == "" {
		return 0, apierr.New(apierr.Invalid, "send the part as multipart/form-data with the field data, not as %.60q",
			media).WithParam("content-type")
	}
	form := multipart.NewReader(q.HTTP.Body, params["boundary"])
	part, err := form.NextPart()
	if err != nil {
		return 0, incomplete(err)
	}
	if part.FormName() != "data" {
		return 0, apierr.New(apierr.Invalid, "the form must have one field, data, not %.60q", part.FormName()).WithParam("data")
	}
	body := &limited{r: part, left: min(maxPart, left)}
	size, err := q.Deps.Contents.Put(q.HTTP.Context(), organisation, name, body)
	switch {
	case body.over && left < maxPart:
		return 0, q.NoRoom(q.Deps.Limits.WorkspaceBytes - left)
	case body.over:
		return 0, apierr.New(apierr.TooLarge, "the part is larger than the limit of %d bytes",
			maxPart).WithParam("data").WithCode("part_too_large")
	case body.err != nil:
		return 0, incomplete(body.err)
	case err != nil:
		return 0, kept.StoreFailed(err)
	}
	if _, err := form.NextPart(); err != io.EOF { // the end proves that the part is complete
		return 0, incomplete(err)
	}
	return size, nil
}

// cancelUpload ends an upload and deletes its parts.
func cancelUpload(q *kept.Request, o *store.Object) error {
	d, err := uploadOf(o)
	if err != nil {
		return err
	}
	ctx := q.HTTP.Context()
	parts, _, err := q.Deps.DB.Objects(ctx, store.ObjectQuery{Workspace: o.Workspace, Kind: store.ObjectPart, Parent: o.ID, Limit: maxParts})
	if err != nil {
		return q.Deps.DB.ClientError(err)
	}
	o.State = uploadCancelled
	err = q.Change(func(tx *store.Tx) error {
		for i := range parts {
			if err := tx.DeleteObject(ctx, &parts[i]); err != nil {
				return err
			}
		}
		return tx.UpdateObject(ctx, o)
	})
	if err != nil {
		return err
	}
	for i := range parts {
		q.Deps.DeleteContent(ctx, &parts[i])
	}
	return sendUpload(q, o, &d, nil)
}

// relayUpload begins an upload at a provider.
func relayUpload(q *kept.Request, integration string) error {
	o := q.NewObject(store.ObjectUpload, "gw_upload_")
	o.Provider, o.Integration = q.From.Provider, integration
	res, err := q.Create(&o, q.Forwarded(q.From.Provider), func(body []byte) error {
		var u shownUpload
		if err := json.Unmarshal(body, &u); err != nil || u.ID == "" {
			return kept.RefuseUnreadable("upload")
		}
		o.ProviderID, o.State, o.Label, o.Data = u.ID, u.Status, u.Purpose, body
		o.ExpiresAt = o.CreatedAt.Add(2 * uploadLife)
		return nil
	})
	if err != nil {
		return err
	}
	return res.Send(q.W)
}
