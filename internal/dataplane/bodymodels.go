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
func (x *exchange) bodyModels(n *requestedModels) ([]string, error) {
	switch {
	case x.upload == nil && x.Received.Body != nil && x.Received.Doc == nil:
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	case x.upload == nil || x.Received.Upload == nil:
		return nil, nil
	}
	if coding := x.Received.Header.Get("Content-Encoding"); !contentcoding.IsIdentity(coding) {
		return x.codedModels(coding)
	}
	head := x.upload.ahead()
	media, _, err := mime.ParseMediaType(x.upload.contentType)
	switch {
	case media == "multipart/form-data":
		models, err := modelsIn(x.upload.contentType, head)
		n.form = err == nil
		return models, err
	case err == nil && media == "application/x-www-form-urlencoded":
		if err := x.holdUpload(maxBufferedRaw); err != nil {
			return nil, err
		}
		return modelnames.Form(string(x.Received.Body.Bytes()))
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return x.holdJSON()
	case len(head) == 0, isMedia(media):
		return nil, nil
	}
	return nil, &modelnames.UnreadableError{Reason: "its body is neither JSON nor a form"}
}

// codedModels returns the models in a JSON body with a content coding, which is buffered and
// sent as it is.
func (x *exchange) codedModels(coding string) ([]string, error) {
	limit := x.plane.MaxJSON
	if err := x.holdUpload(limit); err != nil {
		return nil, err
	}
	unreadable := func(err error) ([]string, error) {
		return nil, &modelnames.UnreadableError{Reason: apierr.From(bodyError(err, limit)).Message}
	}
	release, err := x.Memory.Hold(contentcoding.Memory(coding))
	if err != nil {
		return unreadable(err)
	}
	defer release()
	r, err := contentcoding.NewReader(coding, bytes.NewReader(x.Received.Body.Bytes()), limit)
	if err != nil {
		return unreadable(err)
	}
	defer r.Close()
	plain, err := x.plane.Engine.Pool.ReadShare(r, -1, limit, x.Memory)
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
func (x *exchange) holdJSON() ([]string, error) {
	if err := x.holdUpload(x.plane.MaxJSON); err != nil {
		return nil, err
	}
	if x.doc.Scan(x.Received.Body.Bytes()) != nil {
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	}
	x.Received.Doc = &x.doc
	if v, ok := x.doc.Find("model"); ok && x.entry.Model == "" {
		model, _ := v.Text()
		x.entry.Model = truncate(model)
	}
	return nil, nil
}

// holdUpload buffers a body that would have streamed through.
func (x *exchange) holdUpload(limit int64) error {
	x.upload.body.Hold()
	buf, err := x.plane.Engine.Pool.ReadShare(x.upload, x.Received.Length, limit, x.Memory)
	if err != nil {
		return &modelnames.UnreadableError{Reason: apierr.From(bodyError(err, limit)).Message}
	}
	x.Received.Body, x.Received.Upload = buf, nil
	return nil
}
