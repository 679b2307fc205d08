package guarding

import (
	"bufio"
	"maps"
	"mime/multipart"
	"slices"
	"strings"

	"modelgate/internal/format/bodytext"
	"modelgate/internal/guardrail"
	"modelgate/internal/model/modelnames"
	"modelgate/internal/pipeline/framing"
)

// formPart is the header of a part of a form.
type formPart struct {
	name  string
	file  bool     // the content is a file
	texts []string // of the header, other than names of fields
}

// readPart reads the header of a part of a form. problem is why other parsers could read other
// text in the part; it is empty if they could not.
func readPart(part *multipart.Part) (p formPart, problem string) {
	for _, key := range slices.Sorted(maps.Keys(part.Header)) {
		values := part.Header[key]
		value := values[0]
		switch {
		case len(values) > 1:
			return p, "a part of the form has several headers " + key
		case strings.ContainsAny(key, " \t"):
			return p, "a part of the form has a header name with spaces"
		case key == "Content-Encoding":
			return p, "a part of the form is compressed"
		case key == "Content-Disposition", key == "Content-Length", key == "Content-Transfer-Encoding":
		case key == "Content-Type":
			if media := framing.MediaType(value); strings.HasPrefix(media, "multipart/") || strings.HasPrefix(media, "message/") {
				return p, "a part of the form has parts"
			}
			if problem := charsetProblem(values); problem != "" {
				return p, "a part of the form " + problem
			}
		default:
			p.texts = append(p.texts, outsideReadings(strings.ReplaceAll(key, "-", " "))...)
			p.texts = append(p.texts, outsideReadings(value)...)
		}
	}
	name, filename, err := modelnames.Disposition(part.Header.Get("Content-Disposition"))
	if err != nil {
		return p, err.Error()
	}
	p.name = name
	if !bodytext.IsFieldName([]byte(name)) {
		p.texts = append(p.texts, outsideReadings(name)...)
	}
	if filename != nil {
		p.file = true
		p.texts = append(p.texts, outsideReadings(*filename)...)
	}
	return p, ""
}

// fileNames are the names of fields whose text is the content of a file.
var fileNames = map[string]bool{
	"file": true, "files": true, "image": true, "images": true, "mask": true, "audio": true, "video": true,
	"document": true, "documents": true,
	"media": true, "attachment": true, "attachments": true, "upload": true, "data": true,
}

// isFile reports whether a part with a file name, or named like a file, is one: by its name, or
// because it is not text.
func (p *formPart) isFile(content *bufio.Reader) bool {
	name, _, _ := strings.Cut(p.name, "[")
	switch {
	case p.file && fileNames[name]:
		return true
	case p.file || p.name == "file":
		head, _ := content.Peek(peekSize) // reading returns errors
		return len(head) > 0 && !mayBeText("", head)
	}
	return false
}

// asideParts returns texts next to others of a request.
func asideParts(texts []string) []guardrail.Part {
	parts := make([]guardrail.Part, len(texts))
	for i, text := range texts {
		parts[i] = guardrail.Part{Kind: guardrail.Parameters, Index: i, Outside: true, Text: text}
	}
	return parts
}
