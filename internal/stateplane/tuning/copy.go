package tuning

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/files"
	"modelgate/internal/stateplane/kept"
	"modelgate/internal/stateplane/vendorcall"
	"modelgate/internal/store"
)

// copyThere returns the id of a file of the gateway at a provider, and copies it there if that
// has not been done yet. Only providers with the files of OpenAI take copies.
func (h *handler) copyThere(param string, o *store.Object, name string) (string, error) {
	target, integration, err := h.q.Target(name)
	if err != nil {
		return "", err
	}
	if !kept.Speaks(target, api.Files) {
		return "", apierr.New(apierr.Invalid,
			"%s is a file of the gateway, which can't be copied to the provider %.60s: send its own name of the file", param, name).
			WithParam(param).WithCode("file_of_another_provider")
	}
	ctx := h.q.HTTP.Context()
	there, _, err := h.q.Deps.DB.Objects(ctx, store.ObjectQuery{
		Workspace: o.Workspace, Kind: store.ObjectFile, Provider: name, Parent: o.ID, Limit: 1,
	})
	if err != nil {
		return "", h.q.Deps.DB.ClientError(err)
	}
	if len(there) > 0 && there[0].ProviderID != "" {
		return there[0].ProviderID, nil
	}
	made := h.q.NewObject(store.ObjectFile, "gw_file_")
	made.Provider, made.Integration, made.Parent, made.Label, made.State = name, integration, o.ID, purpose, kept.StateCreating
	made.Data = json.RawMessage(`{}`)
	if err := h.q.Change(func(tx *store.Tx) error { return tx.AddObject(ctx, made) }); err != nil {
		return "", err
	}
	raw, err := h.upload(context.WithoutCancel(ctx), o, vendorcall.Client{
		Caller: &caller{ask: h.ask, provider: name, trace: h.q.From.TraceID}, Provider: target.ID,
	})
	return h.keepCopy(&made, raw, err)
}

// keepCopy completes the record of a copy by the provider's response, and returns the
// provider's id.
func (h *handler) keepCopy(made *store.Object, raw json.RawMessage, cause error) (string, error) {
	ctx := context.WithoutCancel(h.q.HTTP.Context())
	var f files.File
	if cause == nil && (json.Unmarshal(raw, &f) != nil || f.ID == "") {
		cause = kept.RefuseUnreadable("file")
	}
	if cause != nil && !vendorcall.MayHaveArrived(cause) {
		if err := h.q.Change(func(tx *store.Tx) error { return tx.DeleteObject(ctx, made) }); err != nil {
			return "", err
		}
		return "", cause
	}
	made.State = kept.StateUnknown
	if cause == nil {
		data, err := json.Marshal(files.Details{Filename: f.Filename, Bytes: f.Bytes, Shown: raw})
		if err != nil {
			return "", err
		}
		made.ProviderID, made.State, made.Data = f.ID, f.Status, data
	}
	if err := h.q.Change(func(tx *store.Tx) error { return tx.UpdateObject(ctx, made) }); err != nil {
		return "", err
	}
	return f.ID, cause
}

// upload sends the content of a file of the gateway as a form, without holding it in
// memory.
func (h *handler) upload(ctx context.Context, o *store.Object, to vendorcall.Client) (json.RawMessage, error) {
	d, err := files.DetailsOf(o)
	if err != nil {
		return nil, err
	}
	content, err := h.q.Deps.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := w.WriteField("purpose", purpose); err != nil {
		return nil, err
	}
	if _, err := w.CreateFormFile("file", d.Filename); err != nil {
		return nil, err
	}
	head := bytes.Clone(form.Bytes())
	form.Reset()
	if err := w.Close(); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	err = to.JSON(ctx, &vendorcall.Request{
		Method: http.MethodPost, Path: "/files", Header: http.Header{"Content-Type": {w.FormDataContentType()}},
		Body: io.MultiReader(bytes.NewReader(head), content, &form), Length: int64(len(head)) + content.Size() + int64(form.Len()),
	}, nil, &raw)
	return raw, err
}
