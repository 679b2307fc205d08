package exports

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"modelgate/internal/format/parquet"
	"modelgate/internal/records/reqlog"
)

// File formats.
const (
	formatJSONL   = "jsonl"
	formatCSV     = "csv"
	formatParquet = "parquet"
)

// types maps file formats to content types.
var types = map[string]string{
	formatJSONL: "application/x-ndjson", formatCSV: "text/csv; charset=utf-8", formatParquet: "application/vnd.apache.parquet",
}

// encoder writes the rows of a file.
type encoder interface {
	row(e *reqlog.Entry) error
	close() error // writes the end; does not close the underlying writer
}

func newEncoder(format string, w io.Writer, list []field) (encoder, error) {
	switch format {
	case formatCSV:
		return newTable(w, list)
	case formatParquet:
		return newColumns(w, list)
	}
	return &jsonlEncoder{w: w, fields: list}, nil
}

// jsonlEncoder writes one JSON object per line.
type jsonlEncoder struct {
	w      io.Writer
	fields []field
	buf    []byte
}

func (l *jsonlEncoder) row(e *reqlog.Entry) error {
	l.buf = append(l.buf[:0], '{')
	for i := range l.fields {
		if i > 0 {
			l.buf = append(l.buf, ',')
		}
		l.buf = append(append(append(l.buf, '"'), l.fields[i].Name...), '"', ':')
		switch v := l.fields[i].of(e).(type) {
		case string:
			l.buf = append(l.buf, asJSON(v)...)
		case time.Time:
			l.buf = append(append(append(l.buf, '"'), moment(v)...), '"')
		default:
			l.buf = append(l.buf, spell(v)...)
		}
	}
	_, err := l.w.Write(append(l.buf, '}', '\n'))
	return err
}

func (l *jsonlEncoder) close() error { return nil }

// csvEncoder writes comma-separated values (RFC 4180) with the field names in the first
// line. Null is an empty cell.
type csvEncoder struct {
	w      io.Writer
	fields []field
	buf    []byte
}

func newTable(w io.Writer, list []field) (*csvEncoder, error) {
	t := &csvEncoder{w: w, fields: list}
	return t, t.line(func(f *field) string { return f.Name })
}

func (t *csvEncoder) row(e *reqlog.Entry) error {
	return t.line(func(f *field) string {
		switch v := f.of(e).(type) {
		case nil:
			return ""
		case string:
			return escapeFormulas(v, apostrophe)
		case object:
			return escapeFormulas(string(v), escapeJSON)
		case time.Time:
			return moment(v)
		default:
			return spell(v)
		}
	})
}

func (t *csvEncoder) line(cell func(*field) string) error {
	t.buf = t.buf[:0]
	for i := range t.fields {
		if i > 0 {
			t.buf = append(t.buf, ',')
		}
		t.buf = append(t.buf, quoted(cell(&t.fields[i]))...)
	}
	_, err := t.w.Write(append(t.buf, '\r', '\n'))
	return err
}

func (t *csvEncoder) close() error { return nil }

// quoted returns a cell, in quotes if necessary.
func quoted(s string) string {
	if !strings.ContainsAny(s, "\",\r\n") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// escapeFormulas keeps spreadsheets from running a client's text as a formula: it applies
// escape to the characters that begin one, in their wide forms too, if they begin the text
// or follow a semicolon, a tab or a line break. In languages with a decimal comma, a
// spreadsheet begins a new cell at semicolons, and does not see the quotes of a cell.
// https://owasp.org/www-community/attacks/CSV_Injection
func escapeFormulas(s string, escape func(rune) string) string {
	var out strings.Builder
	begins := true // a cell, apart from spaces
	for i, r := range s {
		switch {
		case begins && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", r), i == 0 && strings.ContainsRune("\t\r\n", r):
			out.WriteString(escape(r))
		default:
			out.WriteRune(r)
		}
		begins = strings.ContainsRune(";\t\r\n", r) || begins && (unicode.IsSpace(r) || !unicode.IsPrint(r))
	}
	return out.String()
}

func apostrophe(r rune) string { return "'" + string(r) }

// escapeJSON writes r as in a JSON string, where it does not change the value.
func escapeJSON(r rune) string { return fmt.Sprintf("\\u%04x", r) }

// parquetEncoder writes Parquet.
type parquetEncoder struct {
	w      *parquet.Writer
	fields []field
	values []any
}

func newColumns(w io.Writer, list []field) (*parquetEncoder, error) {
	shapes := make([]parquet.Column, len(list))
	for i := range list {
		shapes[i] = list[i].Column
	}
	p, err := parquet.NewWriter(w, shapes)
	return &parquetEncoder{p, list, make([]any, len(list))}, err
}

func (c *parquetEncoder) row(e *reqlog.Entry) error {
	for i := range c.fields {
		switch v := c.fields[i].of(e).(type) {
		case cents:
			c.values[i] = int64(v)
		case object:
			c.values[i] = string(v)
		default:
			c.values[i] = v
		}
	}
	return c.w.Append(c.values)
}

func (c *parquetEncoder) close() error { return c.w.Close() }
