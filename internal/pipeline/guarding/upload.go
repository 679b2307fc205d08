package guarding

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// rowUploadOf returns the boundary of a form whose fields and rows of files can be checked,
// empty for other requests. The path does not matter: providers decode it.
func rowUploadOf(r *exchange.Request) string {
	if r.Received.Upload == nil || !contentcoding.IsIdentity(r.Received.Header.Get("Content-Encoding")) {
		return ""
	}
	media, params, err := mime.ParseMediaType(r.Received.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}

// hasRows reports whether files in the forms of an operation may have rows.
func hasRows(op api.Operation) bool { return op == api.Files || op == api.Proxy }

// rowUpload checks the fields of a form, and the rows of its files, before they are sent.
type rowUpload struct {
	checks   *rowChecks
	boundary string
}

// wrap returns the form with checked rows, written again: parsers that read the received
// form differently cannot find other rows in it.
func (u *rowUpload) wrap(body io.Reader) io.Reader {
	return &rowForm{upload: u.checks.request.Received.Upload, checks: u.checks, boundary: u.boundary,
		form: multipart.NewReader(body, u.boundary)}
}

// rowForm is a form whose rows are checked as it is read.
type rowForm struct {
	upload   *exchange.Upload
	checks   *rowChecks
	boundary string
	form     *multipart.Reader

	rows   *rowReader       // of the current part; nil between parts
	copied io.Reader        // the current part, if it is a file without rows
	field  string           // name of the current part
	media  string           // its type
	row    int              // number of the last row in the part
	value  []byte           // of a part other than a file
	memory *bytepool.Buffer // that counts value; nil for a short one
	file   bool             // the current part is a file
	over   bool             // the value was too long to be checked, and is written
	batch  bool             // the form says that the file is a batch
	plain  int              // number of the first line that passed unchecked; 0 if none did
	out    bytes.Buffer
	failed error
}

// maxFormValue is the limit in bytes of a field of a form that is checked.
const maxFormValue = 1 << 20

// Read implements io.Reader.
func (f *rowForm) Read(p []byte) (int, error) {
	for f.out.Len() == 0 {
		if f.failed != nil {
			return 0, f.failed
		}
		f.out.Reset()
		if err := f.step(); err != nil {
			if f.rows != nil {
				f.rows.release()
			}
			f.clearValue()
			f.failed = err
		}
	}
	return f.out.Read(p)
}

// step reads one line or the head of a part.
func (f *rowForm) step() error {
	if f.copied != nil {
		return f.copyPart()
	}
	if f.rows == nil {
		return f.nextPart()
	}
	line, err := f.rows.next()
	if err == errRowTooLong {
		return inRow(apierr.New(apierr.Denied, "is larger than %d bytes, so it could not be checked by guardrails",
			maxRow).WithCode(codeRequestUnchecked), f.row+1, nil)
	}
	if err != nil && err != io.EOF {
		return err
	}
	if failed := f.line(line); failed != nil {
		return failed
	}
	if err == io.EOF {
		f.rows.release()
		f.rows = nil
		return f.endPart()
	}
	return nil
}

// nextPart begins the next part, or ends the form.
func (f *rowForm) nextPart() error {
	part, err := f.form.NextRawPart()
	if err == io.EOF {
		f.out.WriteString("--" + f.boundary + "--\r\n")
		return io.EOF
	}
	if err != nil {
		if e, ok := err.(*apierr.Error); ok {
			return e
		}
		return apierr.New(apierr.Invalid, "the form cannot be read: %v", err).WithCause(err)
	}
	switch strings.ToLower(part.Header.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return apierr.New(apierr.Denied, "a part of the form has a Content-Transfer-Encoding, so it could not be checked by guardrails; send it without").WithCode(codeRequestUnchecked)
	}
	head, problem := readPart(part)
	if problem != "" {
		if f.checks.acts() {
			return unchecked("%s", problem)
		}
		f.checks.log.notCovered("request body")
		head.name, head.file = part.FormName(), part.FileName() != ""
	}
	if err := f.checks.checkAside(head.texts); err != nil {
		return err
	}
	content := bufio.NewReaderSize(part, 32<<10)
	f.file = head.isFile(content)
	f.out.WriteString("--" + f.boundary + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(part.Header)) {
		for _, v := range part.Header[name] {
			f.out.WriteString(name + ": " + v + "\r\n")
		}
	}
	f.out.WriteString("\r\n")
	f.field, f.media, f.row, f.over = head.name, framing.MediaType(part.Header.Get("Content-Type")), 0, false
	f.clearValue()
	if f.file && !hasRows(f.checks.request.Operation) {
		f.checks.log.notCovered("file")
		f.copied = content
		f.upload.PassParts()
		return nil
	}
	f.upload.HoldPart()
	f.rows = &rowReader{lines: content, pool: f.checks.pool, share: f.checks.request.Memory}
	return nil
}

// copyPart writes the next bytes of a file without rows.
func (f *rowForm) copyPart() error {
	_, err := io.CopyN(&f.out, f.copied, 32<<10)
	if err == io.EOF {
		f.copied = nil
		f.out.WriteString("\r\n")
		return nil
	}
	return err
}

// line checks a line of the current part and writes it.
func (f *rowForm) line(line []byte) error {
	row := bytes.TrimRight(line, "\r\n")
	if !f.file {
		return f.addToField(line)
	}
	f.upload.HoldPart() // for the next row
	if len(bytes.TrimSpace(row)) == 0 {
		f.out.Write(line)
		return nil
	}
	f.row++
	if start := bytes.TrimLeft(row, " \t"); start[0] != '{' {
		return f.other(line)
	}
	checked, err := f.checks.check(row)
	if err == errNotARow {
		return f.other(line)
	}
	if err != nil {
		return inRow(err, f.row, row)
	}
	f.out.Write(checked)
	f.out.Write(line[len(row):])
	return nil
}

var errNotARow = apierr.New(apierr.Denied,
	"is not a valid JSON object, so it could not be checked by guardrails").WithCode(codeRequestUnchecked)

// other passes a line other than a JSON object, of a file other than a batch.
func (f *rowForm) other(line []byte) error {
	if f.batch && f.checks.acts() {
		return inRow(errNotARow, f.row, nil)
	}
	if f.plain == 0 {
		f.plain = f.row
	}
	f.checks.log.notCovered("request body")
	f.out.Write(line)
	return nil
}

// endPart checks and writes the value of a field, and notices what it says about the
// file.
func (f *rowForm) endPart() error {
	if !f.file {
		value, err := f.checkField()
		if err != nil {
			return err
		}
		f.out.Write(value)
	}
	f.out.WriteString("\r\n")
	if f.file || f.field != "purpose" || !strings.EqualFold(string(bytes.TrimSpace(f.value)), "batch") {
		return nil
	}
	f.batch = true
	if f.plain > 0 && f.checks.acts() {
		return inRow(errNotARow, f.plain, nil)
	}
	return nil
}

// addToField adds to the value of the current field. A value that is too long passes
// unless a hook acts on it.
func (f *rowForm) addToField(line []byte) error {
	if err := f.countValue(len(f.value) + len(line)); err != nil {
		return err
	}
	if f.value = append(f.value, line...); len(f.value) <= maxFormValue && !f.over {
		return nil
	}
	if f.checks.acts() {
		return unchecked("the field %q of the form is larger than %d bytes", f.field, maxFormValue)
	}
	f.checks.log.notCovered("request body")
	f.out.Write(f.value)
	f.value, f.over = f.value[:0], true
	return nil
}

// shortValue is the length in bytes up to which the value of a field is not counted.
const shortValue = 4 << 10

// countValue counts the memory of a value of n bytes, and of its copies for hooks.
func (f *rowForm) countValue(n int) error {
	if n <= shortValue {
		return nil
	}
	if f.memory == nil {
		memory, err := f.checks.pool.GetShare(0, f.checks.request.Memory)
		if err != nil {
			return apierr.BodyMemoryFull(err)
		}
		f.memory = memory
	}
	if err := f.memory.ReserveTo(rowCopies * n); err != nil {
		return apierr.BodyMemoryFull(err)
	}
	return nil
}

// clearValue releases the value of a field.
func (f *rowForm) clearValue() {
	f.value = nil
	if f.memory != nil {
		f.memory.Release()
		f.memory = nil
	}
}

// settings are fields of forms that hold no text for a model.
var settings = map[string]bool{
	"purpose": true, "model": true, "language": true, "response_format": true, "temperature": true,
	"timestamp_granularities[]": true, "stream": true,
	"n": true, "size": true, "quality": true, "background": true, "output_format": true, "moderation": true,
}

// maxSetting is the length in bytes of a value that cannot be other than a setting.
const maxSetting = 64

// checkField returns the value of the current field as the hooks changed it.
func (f *rowForm) checkField() ([]byte, error) {
	problem := ""
	switch {
	case !isReadable(f.value) || !isDeclaredUTF8(f.value):
		problem = "is not in UTF-8"
	case f.field == charsetField && !readsAsUTF8(string(f.value)):
		problem = "names a charset other than UTF-8"
	}
	if problem != "" && f.checks.acts() {
		return nil, unchecked("the field %q of the form %s", f.field, problem)
	}
	if problem != "" {
		f.checks.log.notCovered("request body")
		return f.value, nil
	}
	if f.over || len(f.value) == 0 || settings[f.field] && len(f.value) <= maxSetting {
		return f.value, f.checks.checkAside(outsideReadings(string(f.value)))
	}
	return f.checks.checkValue(f.media, f.value)
}

// checkValue returns the value of a field of a form as the hooks changed it.
func (c *rowChecks) checkValue(media string, value []byte) ([]byte, error) {
	plain := plainText
	if unescape := markupDecoder(media); unescape != nil {
		plain = markup(unescape)
	}
	text, err := plain.decode(value)
	if err != nil {
		return nil, err
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("text")
	b.Raw(text)
	b.Close('}')
	checked, err := c.check(b.Bytes())
	if err != nil || bytes.Equal(checked, b.Bytes()) {
		return value, err
	}
	v, err := jsonedit.ParseValue(checked)
	if err != nil {
		return nil, err
	}
	field, _ := v.Get("text")
	if value, err = plain.encode(field.Raw()); err != nil {
		return nil, apierr.New(apierr.Denied, "a guardrail could not change a field of the form: %v", err).WithCause(err)
	}
	return value, nil
}
