package dataplane

import (
	"bytes"
	"mime"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/model/modelnames"
)

// bodyModels returns the models named in the body, unless it is buffered JSON.
// A body that may be JSON is buffered, whatever its content type, since
// providers read it as JSON too.
func (a *admission) bodyModels(n *requestedModels) ([]string, error) {
	switch {
	case a.upload == nil && a.request.Received.Body != nil && a.request.Received.Doc == nil:
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	case a.upload == nil || a.request.Received.Upload == nil:
		return nil, nil
	}
	if coding := a.request.Received.Header.Get("Content-Encoding"); !contentcoding.IsIdentity(coding) {
		return a.codedModels(coding)
	}
	head := a.upload.ahead()
	media, _, err := mime.ParseMediaType(a.upload.contentType)
	switch {
	case media == "multipart/form-data":
		models, err := modelsIn(a.upload.contentType, head)
		n.form = err == nil
		return models, err
	case err == nil && media == "application/x-www-form-urlencoded":
		if err := a.holdUpload(maxBufferedRaw); err != nil {
			return nil, err
		}
		return modelnames.Form(string(a.request.Received.Body.Bytes()))
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return a.holdJSON()
	case len(head) == 0, isMedia(media):
		return nil, nil
	}
	return nil, &modelnames.UnreadableError{Reason: "its body is neither JSON nor a form"}
}

// codedModels returns the models in a JSON body with a content coding, which is buffered and
// sent as it is.
func (a *admission) codedModels(coding string) ([]string, error) {
	limit := a.plane.MaxJSON
	if err := a.holdUpload(limit); err != nil {
		return nil, err
	}
	unreadable := func(err error) ([]string, error) {
		return nil, &modelnames.UnreadableError{Reason: apierr.From(bodyError(err, limit)).Message}
	}
	release, err := a.request.Memory.Hold(contentcoding.Memory(coding))
	if err != nil {
		return unreadable(err)
	}
	defer release()
	r, err := contentcoding.NewReader(coding, bytes.NewReader(a.request.Received.Body.Bytes()), limit)
	if err != nil {
		return unreadable(err)
	}
	defer r.Close()
	plain, err := a.plane.Engine.Bounds.Pool.ReadShare(r, -1, limit, a.request.Memory)
	if err != nil {
		return unreadable(err)
	}
	defer plain.Release()
	return modelnames.JSON(plain.Bytes())
}

// isMedia reports whether a body of this type is audio, video or an image, in
// which providers do not look for a model.
func isMedia(media string) bool {
	return strings.HasPrefix(media, "audio/") || strings.HasPrefix(media, "video/") || strings.HasPrefix(media, "image/")
}

// holdJSON buffers a JSON body that would have streamed through, so that the
// config's parameters and the pipeline's checks apply to it.
func (a *admission) holdJSON() ([]string, error) {
	if err := a.holdUpload(a.plane.MaxJSON); err != nil {
		return nil, err
	}
	if a.doc.Scan(a.request.Received.Body.Bytes()) != nil {
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	}
	a.request.Received.Doc = &a.doc
	if v, ok := a.doc.Find("model"); ok && a.entry.Model == "" {
		model, _ := v.Text()
		a.entry.Model = truncate(model)
	}
	return nil, nil
}

// holdUpload buffers a body that would have streamed through.
func (a *admission) holdUpload(limit int64) error {
	a.upload.body.Hold()
	buf, err := a.plane.Engine.Bounds.Pool.ReadShare(a.upload, a.request.Received.Length, limit, a.request.Memory)
	if err != nil {
		return &modelnames.UnreadableError{Reason: apierr.From(bodyError(err, limit)).Message}
	}
	a.request.Received.Body, a.request.Received.Upload = buf, nil
	return nil
}
