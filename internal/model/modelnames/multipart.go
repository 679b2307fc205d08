package modelnames

import (
	"bytes"
	"mime"
	"strings"

	"modelgate/internal/base/urlpath"
)

// maxPartHeader is the maximum size of a part's header in bytes, and maxField
// the number of bytes kept of a field that is not a file.
const (
	maxPartHeader = 8 << 10
	maxField      = 16 << 10
)

// Multipart finds the models of a multipart/form-data body as it passes, with a
// bounded buffer. It rejects bodies that form parsers read differently: text
// before the first boundary or after the last, boundaries after a bare line
// feed, and the like. It is not safe for concurrent use.
type Multipart struct {
	// Found is called with each model before [Multipart.Write] returns. An
	// error from it ends reading.
	Found func(model string) error
	// Field is called with each other field, except for files and fields longer than is
	// kept, by its name in lower case. Nil ignores them.
	Field func(name, text string)

	read      int64  // bytes written
	delimiter []byte // CRLF, two dashes and the boundary
	pending   []byte // received but not parsed
	state     state
	part      part
	err       error
}

type state uint8

const (
	atStart    state = iota // before the first boundary
	inHeader                // of a part
	inContent               // of a part
	afterClose              // after the last boundary
)

// part is the current part.
type part struct {
	key     string
	file    bool
	json    bool
	content []byte // nil for a file
	cut     bool   // content is longer than maxField
	begun   bool   // has content
}

// NewMultipart returns a reader of a body with this Content-Type. It returns an
// error if form parsers would not agree on the boundary.
func NewMultipart(contentType string, found func(model string) error) (*Multipart, error) {
	media, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	_, raw, _ := strings.Cut(contentType, ";")
	switch {
	case err != nil, media != "multipart/form-data", strings.Contains(raw, "*"), strings.Count(strings.ToLower(raw), "boundary") != 1:
		return nil, readError("its content type is not that of a form with one boundary")
	case boundary == "", len(boundary) > 70, strings.ContainsFunc(boundary, isOddInBoundary):
		return nil, readError("the boundary of the form is not 1 to 70 letters, digits and - _ . ' ( ) + , / : = ?")
	}
	return &Multipart{Found: found, delimiter: []byte("\r\n--" + boundary), pending: []byte("\r\n")}, nil
}

// isOddInBoundary reports whether a character is invalid in a boundary (RFC
// 2046, section 5.1.1). Spaces are included, since some parsers remove them.
func isOddInBoundary(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	return !letter && !strings.ContainsRune("'()+_,-./:=?", r)
}

// Write parses the next bytes of the body. After an error the body must not be
// forwarded.
func (m *Multipart) Write(p []byte) (int, error) {
	if m.err == nil {
		m.pending = append(m.pending, p...)
		m.read += int64(len(p))
		for more := true; more && m.err == nil; {
			more = m.step()
		}
	}
	if m.err != nil {
		return 0, m.err
	}
	return len(p), nil
}

// FieldEnd returns the offset in the body after the field in which Found was
// called. It is valid until Found returns.
func (m *Multipart) FieldEnd() int64 { return m.read - int64(len(m.pending)) }

// Complete reports whether the body so far ends with its last boundary.
func (m *Multipart) Complete() bool { return m.err == nil && m.state == afterClose }

// Close returns an error if the body did not end with its last boundary. The
// end of such a body must not be forwarded, since some parsers accept the
// incomplete body.
func (m *Multipart) Close() error {
	if m.err == nil && m.state != afterClose {
		m.err = readError("the form does not end with its boundary")
	}
	return m.err
}

// step parses one element of what is pending, and reports whether another may
// follow.
func (m *Multipart) step() bool {
	switch m.state {
	case atStart:
		return m.start()
	case inHeader:
		return m.header()
	case inContent:
		return m.body()
	}
	if len(bytes.Trim(m.pending, "\r\n")) > 0 || len(m.pending) > 4 {
		m.err = readError("something follows the last boundary of the form")
	}
	return false
}

func (m *Multipart) start() bool {
	n := min(len(m.pending), len(m.delimiter))
	if !bytes.Equal(m.pending[:n], m.delimiter[:n]) {
		m.err = readError("the form does not begin with its boundary")
		return false
	}
	return n == len(m.delimiter) && m.boundary(0)
}

// boundary reads the delimiter at i and what follows it. It returns false if
// more bytes are needed.
func (m *Multipart) boundary(i int) bool {
	rest := m.pending[i+len(m.delimiter):]
	if len(rest) < 2 {
		return false
	}
	switch string(rest[:2]) {
	case "\r\n":
		m.state, m.part = inHeader, part{}
	case "--":
		m.state = afterClose
	default:
		m.err = readError("a line of the form begins with its boundary and is none")
	}
	m.pending = rest[2:]
	return true
}

// header reads the header of a part.
func (m *Multipart) header() bool {
	block, rest, complete := bytes.Cut(m.pending, []byte("\r\n\r\n"))
	if !complete {
		if len(m.pending) > maxPartHeader {
			m.err = readError("the header of a part of the form is too long")
		}
		return false
	}
	m.err = m.part.read(string(block))
	// With this line end an empty part ends like all others; finish drops it.
	m.pending, m.state = append([]byte("\r\n"), rest...), inContent
	return true
}

// read reads the header fields of a part.
func (p *part) read(block string) error {
	disposition := 0
	for line := range strings.SplitSeq(block, "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(line, "\r\n\x00") || strings.TrimSpace(name) != name {
			return readError("a part of the form has a header line that parsers read differently")
		}
		switch strings.ToLower(name) {
		case "content-disposition":
			disposition++
			if err := p.disposition(value); err != nil {
				return err
			}
		case "content-type":
			media, _, err := mime.ParseMediaType(value)
			p.json = err != nil || strings.HasSuffix(media, "json")
		case "content-transfer-encoding":
			if v := strings.ToLower(strings.TrimSpace(value)); v != "7bit" && v != "8bit" && v != "binary" {
				return readError("a part of the form has a transfer encoding")
			}
		}
	}
	if disposition != 1 {
		return readError("a part of the form does not have one content-disposition")
	}
	return nil
}

func (p *part) disposition(value string) error {
	name, filename, err := Disposition(value)
	if err != nil {
		return err
	}
	p.file = filename != nil
	p.key = fieldKey(urlpath.Decode(name))
	return nil
}

// Disposition returns the name in the Content-Disposition of a part of a form, and its file
// name, which is nil if it has none. It returns an error if parsers could read another name.
func Disposition(value string) (name string, filename *string, err error) {
	kind, params, err := mime.ParseMediaType(value)
	name, named := params["name"]
	other := strings.NewReplacer("filename=", "", "filename*=", "").Replace(strings.ToLower(value))
	if err != nil || kind != "form-data" || !named || strings.Count(other, "name=") != 1 || strings.Contains(other, "name*") ||
		strings.Contains(name, `\`) {
		return "", nil, readError("a part of the form has a name that parsers read differently")
	}
	if text, ok := params["filename"]; ok {
		filename = &text
	}
	return name, filename, nil
}

// body reads the content of a part as far as it has arrived.
func (m *Multipart) body() bool {
	mark := m.delimiter[2:]
	at := bytes.Index(m.pending[1:], mark) + 1
	if at == 0 {
		keep := min(len(m.pending), len(m.delimiter)+2)
		m.take(len(m.pending) - keep)
		return false
	}
	switch {
	case at == 2 && !m.part.begun:
		m.err = readError("a boundary of the form follows the header of a part at once")
		return false
	case at >= 2 && m.pending[at-2] == '\r' && m.pending[at-1] == '\n':
		if len(m.pending) < at+len(mark)+2 {
			m.take(at - 2)
			return false
		}
		m.take(at - 2)
		m.finish()
		return m.err == nil && m.boundary(0)
	case m.pending[at-1] == '\r' || m.pending[at-1] == '\n':
		m.err = readError("a boundary of the form does not follow a line end of CR and LF")
		return false
	}
	m.take(at) // inside a line it is content
	return true
}

// take moves n bytes of content from pending to the part.
func (m *Multipart) take(n int) {
	m.part.begun = m.part.begun || n > 0
	if !m.part.file || isModel(m.part.key) {
		room := maxField - len(m.part.content)
		m.part.content = append(m.part.content, m.pending[:min(n, room)]...)
		m.part.cut = m.part.cut || n > room
	}
	m.pending = append(m.pending[:0], m.pending[n:]...)
}

// finish handles a complete part. Its content begins with the line end that
// header left.
func (m *Multipart) finish() {
	p := &m.part
	text := bytes.TrimPrefix(p.content, []byte("\r\n"))
	if m.Field != nil && !p.file && !p.cut {
		m.Field(p.key, string(text))
	}
	switch trimmed := bytes.TrimSpace(text); {
	case isModel(p.key), choosers[p.key] && !p.file:
		if p.cut {
			m.err = readError("the model of the form is too long")
		} else if len(text) > 0 {
			m.err = m.Found(string(text))
		}
	case p.file, len(trimmed) == 0:
	case p.json || trimmed[0] == '{' || trimmed[0] == '[':
		m.inner(trimmed)
	}
}

// inner looks for models in a field with JSON.
func (m *Multipart) inner(text []byte) {
	if m.part.cut {
		m.err = readError("a field of the form contains more JSON than is searched")
		return
	}
	models, err := JSON(text)
	if err != nil && !m.part.json {
		return // text that only begins with a bracket
	}
	m.err = err
	for _, model := range models {
		if m.err == nil {
			m.err = m.Found(model)
		}
	}
}
