package pipeline

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
	"modelgate/internal/apierr"
)

// rowUpload returns the boundary of an upload of files whose rows can be checked, empty
// for other requests. The path does not matter: providers decode it.
func (r *Request) rowUpload() string {
	if r.Upload == nil || r.Operation != api.Files && r.Operation != api.Proxy || r.Header.Get("Content-Encoding") != "" {
		return ""
	}
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}

// rowUpload checks the rows of files in a form before they are sent.
type rowUpload struct {
	checks   *rowChecks
	boundary string
}

// wrap returns the form with checked rows, written again: parsers that read the received
// form differently cannot find other rows in it.
func (u *rowUpload) wrap(body io.Reader) io.Reader {
	return &rowForm{checks: u.checks, boundary: u.boundary, form: multipart.NewReader(body, u.boundary)}
}

// rowForm is a form whose rows are checked as it is read.
type rowForm struct {
	checks   *rowChecks
	boundary string
	form     *multipart.Reader

	rows   *rowReader // of the current part; nil between parts
	field  string     // name of the current part
	row    int        // number of the last row in the part
	value  []byte     // beginning of a part other than a file
	file   bool       // the current part is a file
	batch  bool       // the form says that the file is a batch
	plain  int        // number of the first line that passed unchecked; 0 if none did
	out    bytes.Buffer
	failed error
}

// maxFormValue is the number of bytes of a field of a form that are read.
const maxFormValue = 256

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
			f.failed = err
		}
	}
	return f.out.Read(p)
}

// step reads one line or the head of a part.
func (f *rowForm) step() error {
	if f.rows == nil {
		return f.nextPart()
	}
	line, err := f.rows.next()
	if err == errRowTooLong {
		return inRow(apierr.New(apierr.Denied, "is larger than %d bytes, so it could not be checked by guardrails", maxRow).WithCode(codeRequestUnchecked), f.row+1, nil)
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
		f.out.WriteString("\r\n")
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
	f.out.WriteString("--" + f.boundary + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(part.Header)) {
		for _, v := range part.Header[name] {
			f.out.WriteString(name + ": " + v + "\r\n")
		}
	}
	f.out.WriteString("\r\n")
	f.rows = &rowReader{lines: bufio.NewReaderSize(part, 32<<10), pool: f.checks.pool}
	f.field, f.file, f.row, f.value = part.FormName(), part.FileName() != "" || part.FormName() == "file", 0, nil
	return nil
}

// line checks a line of the current part and writes it.
func (f *rowForm) line(line []byte) error {
	row := bytes.TrimRight(line, "\r\n")
	if !f.file {
		f.value = append(f.value, line[:min(len(line), maxFormValue-len(f.value))]...)
		f.out.Write(line)
		return nil
	}
	if len(bytes.TrimSpace(row)) == 0 {
		f.out.Write(line)
		return nil
	}
	f.row++
	if start := bytes.TrimLeft(row, " \t"); start[0] != '{' {
		return f.other(line)
	}
	checked, err := f.checks.check(row)
	if e, ok := err.(*apierr.Error); ok && e.Code == codeRequestUnchecked {
		return f.other(line)
	}
	if err != nil {
		return inRow(err, f.row, row)
	}
	f.out.Write(checked)
	f.out.Write(line[len(row):])
	return nil
}

var errNotARow = apierr.New(apierr.Denied, "is not a valid JSON object, so it could not be checked by guardrails").WithCode(codeRequestUnchecked)

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

// endPart notices what the part says about the file.
func (f *rowForm) endPart() error {
	if f.file || f.field != "purpose" || !strings.EqualFold(string(bytes.TrimSpace(f.value)), "batch") {
		return nil
	}
	f.batch = true
	if f.plain > 0 && f.checks.acts() {
		return inRow(errNotARow, f.plain, nil)
	}
	return nil
}
