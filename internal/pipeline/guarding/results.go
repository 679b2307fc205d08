package guarding

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// rowTypes are the media types of files that may have a JSON object in each line.
var rowTypes = map[string]bool{
	"application/jsonl": true, "application/x-jsonl": true, "application/jsonlines": true, "application/x-jsonlines": true,
	"application/x-ndjson": true, "application/ndjson": true, "application/json-lines": true,
	"application/octet-stream": true, "binary/octet-stream": true, "text/plain": true, "": true,
}

// mayHaveRows reports whether the response is a file that may have rows, such as the
// results of a batch.
func (run *responseRun) mayHaveRows() bool {
	r := run.request
	if run.res.Body == nil || r.Received.Method != "GET" {
		return false
	}
	return rowTypes[framing.MediaType(run.res.Header.Get("Content-Type"))] && (r.Operation == api.Files || r.Operation == api.Proxy)
}

// guardRows wraps a file so that its rows are checked as they pass. A file that does not
// begin with a JSON object passes.
func (run *responseRun) guardRows() error {
	res := run.res
	checks := newRowChecks(rowChecks{
		ctx: run.ctx, pool: run.guard.Bounds.Pool, path: run.guard.Path, request: run.request, log: run.log, hooks: run.hooks,
		on: guardrail.After, status: res.Status,
	})
	if res.Status == 206 && checks.acts() { // a part of a row cannot be checked
		return apierr.New(apierr.Denied, "a part of a file cannot be checked by guardrails; read it without the header Range").WithCode("response_unchecked")
	}
	body, err := run.plainBody()
	if err != nil {
		return run.handleCoding(err)
	}
	lines := bufio.NewReaderSize(body, 32<<10)
	if _, err := lines.Peek(1); err != nil && err != io.EOF {
		return err
	}
	if !startsObject(lines) {
		if run.request.Operation == api.Proxy && !isUpload(run.request.Received.Path) && checks.acts() {
			return run.checkPlain(lines) // not a file
		}
		run.log.notCovered("response body")
		res.Body = lines
		return run.runFacts()
	}
	rows := &rowResults{checks: checks, rows: &rowReader{lines: lines, pool: run.guard.Bounds.Pool, share: run.request.Memory},
		res: res, declared: strings.Contains(framing.MediaType(res.Header.Get("Content-Type")), "json")}
	res.Edited()
	res.Body = rows
	res.After = append(res.After, rows.rows.release)
	if rows.failed = rows.step(); rows.failed != nil && rows.failed != io.EOF && rows.out.Len() == 0 {
		return rows.failed
	}
	return nil
}

// startsObject reports whether the first character other than space opens an object.
func startsObject(b *bufio.Reader) bool {
	for n := 1; n <= 4096; n++ {
		head, err := b.Peek(n)
		if err != nil {
			return false
		}
		if c := head[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c == '{'
		}
	}
	return false
}

// rowResults is a file whose rows are checked as it is read.
type rowResults struct {
	checks *rowChecks
	rows   *rowReader
	res    *exchange.Response
	row    int
	out    bytes.Buffer
	failed error

	// declared is set if the media type says that each line is JSON. Other files pass
	// unchecked if their first line is not: they are text that begins with a brace.
	declared bool
	passes   bool // such a file
}

// Read implements io.Reader.
func (f *rowResults) Read(p []byte) (int, error) {
	for f.out.Len() == 0 {
		if f.passes && f.failed == nil {
			return f.rows.lines.Read(p)
		}
		if f.failed != nil {
			return 0, f.failed
		}
		f.out.Reset()
		f.failed = f.step()
	}
	return f.out.Read(p)
}

// step checks one line.
func (f *rowResults) step() error {
	line, err := f.rows.next()
	if err == errRowTooLong {
		return errors.New("a row of the response is too long to be checked by guardrails")
	}
	if err != nil && err != io.EOF {
		return err
	}
	row := bytes.TrimRight(line, "\r\n")
	if len(bytes.TrimSpace(row)) == 0 {
		f.out.Write(line)
		return err
	}
	f.row++
	f.res.Pause()
	checked, failed := f.checks.check(row)
	f.res.Resume()
	denial, refused := errors.AsType[*apierr.Error](failed)
	switch {
	case failed == nil:
		f.out.Write(checked)
	case f.row == 1 && !f.declared && failed == errNotARow:
		f.passes = true
		f.checks.log.notCovered("response body")
		f.out.Write(row)
	case !refused || denial.Kind != apierr.Denied:
		return failed
	case denial.Code == codeRequestUnchecked && !f.checks.acts():
		f.checks.log.notCovered("response body")
		f.out.Write(row)
	default:
		f.out.Write(deniedRow(row, denial))
	}
	f.out.Write(line[len(row):])
	return err
}
