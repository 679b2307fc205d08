package dataplane

import (
	"bytes"
	"mime"
	"strings"

	"modelgate/internal/apierr"
	"modelgate/internal/modelnames"
)

// bodyModels returns the models named in the body, unless it is buffered JSON.
// A body that may be JSON is buffered, whatever its content type, since
// providers read it as JSON too.
func (x *exchange) bodyModels(n *requestedModels) ([]string, error) {
	switch {
	case x.upload == nil && x.Body != nil && x.Doc == nil:
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	case x.upload == nil || x.Upload == nil:
		return nil, nil
	}
	if e := x.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &modelnames.UnreadableError{Reason: "its body is compressed"}
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
		return modelnames.Form(string(x.Body.Bytes()))
	case bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{")):
		return x.holdJSON()
	case len(head) == 0, isMedia(media):
		return nil, nil
	}
	return nil, &modelnames.UnreadableError{Reason: "its body is neither JSON nor a form"}
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
	if x.doc.Scan(x.Body.Bytes()) != nil {
		return nil, &modelnames.UnreadableError{Reason: "its body is not a JSON object that every reader reads alike"}
	}
	x.Doc = &x.doc
	if v, ok := x.doc.Find("model"); ok && x.entry.Model == "" {
		model, _ := v.Text()
		x.entry.Model = truncate(model)
	}
	return nil, nil
}

// holdUpload buffers a body that would have streamed through.
func (x *exchange) holdUpload(limit int64) error {
	x.upload.body.Hold()
	buf, err := x.plane.Engine.Pool.ReadShare(x.upload, x.Length, limit, x.Memory)
	if err != nil {
		return &modelnames.UnreadableError{Reason: apierr.From(bodyError(err, limit)).Message}
	}
	x.Body, x.Upload = buf, nil
	return nil
}
