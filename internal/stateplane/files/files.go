// Package files serves the files and uploads of clients.
//
// A file of a request that names no provider is kept by the gateway: sealed, counted
// against the quota of its workspace, and deleted when it expires. A file of a managed
// provider is the provider's, with a record that says whose it is. A file exists completely
// or not at all, and no request holds more of one than a few buffers.
package files

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorbatch"
	"modelgate/internal/store"
)

// File is the wire format of a file.
// https://platform.openai.com/docs/api-reference/files/object
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // file
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at,omitempty"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
	SHA256    string `json:"sha256,omitempty"`

	StatusDetails *string `json:"status_details"`
}

// States of files. The specification has no others.
const (
	StateUploaded  = "uploaded"
	StateProcessed = "processed"
	StateError     = "error"
)

// Details is what the record of a kept file has beyond that of other objects.
type Details struct {
	Filename string `json:"filename"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256,omitempty"`

	// Content is what a kept file has in it.
	kept.Content

	// Shown is the file as its provider described it. A kept file has none.
	Shown json.RawMessage `json:"shown,omitempty"`
}

// Purposes that clients may give a file, and those that only results have.
var (
	purposes       = []string{"assistants", "batch", "fine-tune", "vision", "user_data", "evals"}
	resultPurposes = []string{"assistants_output", "batch_output", "fine-tune-results"}
)

// DetailsOf returns the details of the record of a file.
func DetailsOf(o *store.Object) (d Details, err error) {
	err = json.Unmarshal(o.Data, &d)
	return d, err
}

// describe returns the wire format of a kept file.
func describe(o *store.Object) (File, error) {
	d, err := DetailsOf(o)
	if err != nil {
		return File{}, err
	}
	f := File{ID: o.ID, Object: "file", Bytes: d.Bytes, CreatedAt: o.CreatedAt.Unix(), Filename: d.Filename, Purpose: o.Label,
		Status: o.State, SHA256: d.SHA256}
	if !o.ExpiresAt.IsZero() {
		f.ExpiresAt = o.ExpiresAt.Unix()
	}
	return f, nil
}

// Serve serves a request below /files.
func Serve(q *kept.Request) error {
	rest := strings.TrimPrefix(q.From.Path, "/files")
	id, action, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	method := q.HTTP.Method
	switch {
	case rest == "" && method == http.MethodPost:
		return create(q)
	case rest == "" && method == http.MethodGet:
		return list(q)
	case id != "" && action == "" && method == http.MethodGet:
		return show(q, id)
	case id != "" && action == "" && method == http.MethodDelete:
		return remove(q, id)
	case id != "" && action == "content" && (method == http.MethodGet || method == http.MethodHead):
		return content(q, id)
	}
	return kept.NoRoute(q)
}

// create stores a file: here, or at the provider that the request names.
func create(q *kept.Request) error {
	if !q.Names() {
		return upload(q, "")
	}
	if q.From.Config == "" {
		target, integration, err := q.Target(q.From.Provider)
		if err != nil {
			return err
		}
		_, batches := vendorbatch.For(target.ID)
		if batches && !kept.Speaks(target, api.Files) { // it has no files of this protocol: its batches take those of the gateway
			return upload(q, q.From.Provider)
		}
		return relayCreate(q, integration)
	}
	return relayCreate(q, "")
}

// relayCreate stores a file at a provider. Its record is written first: a file that the
// provider stores without a response is known.
func relayCreate(q *kept.Request, integration string) error {
	o := q.NewObject(store.ObjectFile, "gw_file_")
	o.Provider, o.Integration, o.State = q.From.Provider, integration, kept.StateCreating
	res, err := q.Create(&o, q.Forwarded(q.From.Provider), func(body []byte) error { return adoptFile(&o, body) })
	if err != nil {
		return err
	}
	return res.Send(q.W)
}

// adoptFile puts a file into its record, as its provider describes it.
func adoptFile(o *store.Object, body []byte) error {
	var f File
	if err := json.Unmarshal(body, &f); err != nil || f.ID == "" {
		return kept.RefuseUnreadable("file")
	}
	data, err := json.Marshal(Details{Filename: f.Filename, Bytes: f.Bytes, Shown: body})
	o.ProviderID, o.State, o.Label, o.Data = f.ID, f.Status, f.Purpose, data
	if f.ExpiresAt > 0 {
		o.ExpiresAt = time.Unix(f.ExpiresAt, 0)
	}
	return err
}

// list lists the files of the workspace.
func list(q *kept.Request) error {
	if q.MayPass() && q.Names() {
		return q.Pass(store.ObjectFile)
	}
	query := q.HTTP.URL.Query()
	p, err := kept.ParsePage(query, 10_000, 10_000)
	if err != nil {
		return err
	}
	purpose := query.Get("purpose")
	if purpose != "" && !slices.Contains(purposes, purpose) && !slices.Contains(resultPurposes, purpose) {
		return apierr.New(apierr.Invalid, "purpose must be one of %s, not %.40q", strings.Join(slices.Concat(purposes, resultPurposes), ", "),
			purpose).
			WithParam("purpose")
	}
	found, more, err := q.List(store.ObjectFile, purpose, p)
	if err != nil {
		return err
	}
	l, err := kept.NewList(found, more, shownFile)
	if err != nil {
		return err
	}
	return q.JSON(http.StatusOK, l)
}

// shownFile returns a file as clients see it.
func shownFile(o *store.Object) (json.RawMessage, error) {
	d, err := DetailsOf(o)
	if err != nil || d.Shown != nil {
		return d.Shown, err
	}
	f, err := describe(o)
	if err != nil {
		return nil, err
	}
	return json.Marshal(f)
}

// show returns a file.
func show(q *kept.Request, id string) error {
	o, err := q.Find(store.ObjectFile, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectFile)
	case err != nil:
		return err
	case hasContent(&o):
		f, err := describe(&o)
		if err != nil {
			return err
		}
		return q.JSON(http.StatusOK, f)
	}
	return relay(q, &o)
}

// hasContent reports whether the gateway has the content of a file.
func hasContent(o *store.Object) bool { return o.ProviderID == "" }

// relay sends the request to the provider of a file, with the provider's id.
func relay(q *kept.Request, o *store.Object) error {
	if _, _, err := q.Target(o.Provider); err != nil {
		return err
	}
	q.From.Relay(q.W, q.ForwardedTo(o), q.CallTo(o.Provider))
	return nil
}

// remove deletes a file, at its provider too.
func remove(q *kept.Request, id string) error {
	o, err := q.Find(store.ObjectFile, id)
	switch {
	case apierr.IsNotFound(err) && q.MayPass():
		return q.Pass(store.ObjectFile)
	case err != nil:
		return err
	case hasContent(&o):
		return removeHere(q, &o)
	}
	return q.DeleteThere(&o)
}

// removeHere deletes a file of the gateway: the record first, so that nobody reads half of
// it.
func removeHere(q *kept.Request, o *store.Object) error {
	err := q.Change(func(tx *store.Tx) error { return q.Deps.Drop(q.HTTP.Context(), tx, o) })
	if apierr.IsNotFound(err) {
		return kept.NotFound(store.ObjectFile, "id")
	}
	if err != nil {
		return err
	}
	q.Deps.Queued()
	if err := q.Deps.DeleteContent(q.HTTP.Context(), o); err != nil { // it is deleted later, as content without a record
		q.Deps.Logger.Warn("deleting the content of a file failed", "file", o.ID, "err", err.Error())
	}
	return q.JSON(http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{o.ID, "file", true})
}
