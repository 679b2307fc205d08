package gemini

import (
	"net/url"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// filesAddress is the address of files uploaded to the Gemini API.
const filesAddress = "https://generativelanguage.googleapis.com/v1beta/"

// mediaPart writes media as a part. Text documents become text.
func (w *requestEncoder) mediaPart(t *turn, m llm.Media) {
	switch {
	case t.role == "system" && !w.own:
		w.fail(m.At, "%s in a system message", m.Kind)
		return
	case m.Text != "":
		w.words(t, document(m), false, llm.Signature{}, false)
		return
	case m.Parts != nil:
		if m.Name != "" {
			w.words(t, m.Name, false, llm.Signature{}, false)
		}
		for _, p := range m.Parts {
			w.part(t, p)
		}
		return
	}
	mime, address, ok := w.source(m)
	if !ok {
		return
	}
	signature := t.take(llm.Signature{})
	b := jsonedit.Append(nil)
	b.Open('{')
	appendMedia(&b, m, mime, address)
	w.mediaExtra(&b, m)
	if signature != "" {
		text(&b, "thoughtSignature", signature)
	}
	b.Close('}')
	t.parts = append(t.parts, b.Bytes())
}

// appendMedia writes inlineData or fileData.
func appendMedia(b *jsonedit.Builder, m llm.Media, mime, address string) {
	kind, name, value := "fileData", "fileUri", address
	if m.Data != "" {
		kind, name, value = "inlineData", "data", m.Data
	}
	b.Name(kind)
	b.Open('{')
	if mime != "" {
		text(b, "mimeType", mime)
	}
	text(b, name, value)
	if m.Name != "" {
		text(b, "displayName", m.Name)
	}
	b.Close('}')
}

// document returns the text of a plain-text document, preceded by its title.
func document(m llm.Media) string {
	if m.Name == "" {
		return m.Text
	}
	return m.Name + "\n\n" + m.Text
}

// source returns the location of media and their MIME type.
// https://ai.google.dev/gemini-api/docs/file-input-methods
func (w *requestEncoder) source(m llm.Media) (mime, address string, ok bool) {
	address = m.URL
	switch {
	case m.Data != "":
		return w.typeOf(m), "", true
	case m.FileID != "":
		if w.vertex || !strings.HasPrefix(m.FileID, "files/") {
			w.fail(m.At, "a file that was uploaded elsewhere: send its data or its address")
			return "", "", false
		}
		address = filesAddress + m.FileID
	case strings.HasPrefix(m.URL, "s3:"):
		w.fail(m.At, "a file in S3: send its data or an https address")
		return "", "", false
	case m.URL == "":
		w.fail(m.At, "media without data")
		return "", "", false
	}
	if m.Type == "" && (w.own || strings.HasPrefix(address, filesAddress)) {
		return "", address, true // the file knows its type
	}
	if m.Type == "" && youtube(address) {
		return "video/mp4", address, true
	}
	return w.typeOf(m), address, true
}

func youtube(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimPrefix(u.Hostname(), "www.")
	return host == "youtube.com" || host == "youtu.be" || host == "m.youtube.com"
}

// typeOf returns the MIME type of media. The provider requires one, so a
// missing type is guessed from the name or kind.
func (w *requestEncoder) typeOf(m llm.Media) string {
	if m.Type != "" {
		return m.Type
	}
	if mime := dialect.TypeByName(m.Name); mime != "" {
		return mime
	}
	if mime := dialect.TypeByName(m.URL); mime != "" && m.Data == "" {
		return mime
	}
	switch m.Kind {
	case llm.Image:
		return "image/jpeg"
	case llm.Audio:
		return "audio/wav"
	case llm.Video:
		return "video/mp4"
	}
	return "application/pdf"
}

// mediaExtra writes the settings of a media part. The resolution of one image
// is for later models.
// https://ai.google.dev/gemini-api/docs/media-resolution
func (w *requestEncoder) mediaExtra(b *jsonedit.Builder, m llm.Media) {
	levelled := false
	for _, e := range m.Extra {
		switch name := camelText(e.Name); {
		case w.own:
			b.Key(e.Name)
			b.Raw(e.Value)
		case name == "videoMetadata":
			v, err := jsonedit.ParseValue(e.Value)
			if err == nil {
				b.Name(name)
				camelled(b, v)
				w.changes.Carry(m.At, e.Name)
			}
		case name == "mediaResolution" && w.levels():
			levelled = true
			w.level(b, e.Value)
			w.changes.Carry(m.At, e.Name)
		}
	}
	if m.Detail != "low" && m.Detail != "high" || levelled {
		return
	}
	if !w.own && !w.levels() {
		w.changes.DropNamed("detail")
		return
	}
	w.level(b, jsonedit.AppendString(nil, "MEDIA_RESOLUTION_"+strings.ToUpper(m.Detail)))
}

// level writes the resolution of one image, given as a string or an object.
func (w *requestEncoder) level(b *jsonedit.Builder, raw []byte) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return
	}
	b.Name("mediaResolution")
	if v.Kind() == jsonedit.Object {
		camelled(b, v)
		return
	}
	b.Open('{')
	b.Name("level")
	b.Raw(raw)
	b.Close('}')
}
