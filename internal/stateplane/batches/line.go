package batches

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/stateplane/vendorbatch"
)

// Limits of one line.
const (
	maxLine     = 8 << 20
	maxCustomID = 512
)

// line is a request of a batch. Body is not copied from the buffer that it was read from.
type line struct {
	Number   int             `json:"-"` // from 1
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// lineReader reads the lines of a file.
type lineReader struct {
	buf  *bufio.Reader
	line int
	long []byte // of a line longer than the buffer
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{buf: bufio.NewReaderSize(r, 64<<10)} }

// isEmpty reports whether a line has only white space, as the last one may.
func isEmpty(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

var errLineTooLong = fmt.Errorf("a line has more than %d bytes", maxLine)

// next returns the next line without its end, and its number. The text is valid until the
// next call. At the end of the file it returns [io.EOF].
func (l *lineReader) next() (text []byte, number int, err error) {
	l.long = l.long[:0]
	for {
		part, err := l.buf.ReadSlice('\n')
		if len(l.long)+len(part) > maxLine {
			return nil, l.line + 1, errLineTooLong
		}
		whole := part
		if len(l.long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
			l.long = append(l.long, part...)
			whole = l.long
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(whole) == 0:
			return nil, l.line, io.EOF
		case err != nil && err != io.EOF:
			return nil, l.line, err
		}
		l.line++
		return bytes.TrimSuffix(bytes.TrimSuffix(whole, []byte("\n")), []byte("\r")), l.line, nil
	}
}

// parseLine reads a line and checks what does not depend on others. Fault is what is wrong.
func parseLine(text []byte, number int, endpoint string) (l line, fault *vendorbatch.LineError) {
	wrong := func(code, param, format string, args ...any) *vendorbatch.LineError {
		e := &vendorbatch.LineError{Code: code, Message: fmt.Sprintf(format, args...), Line: &number}
		if param != "" {
			e.Param = &param
		}
		return e
	}
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return l, wrong("invalid_json_line", "", "the line begins with a byte order mark; save the file without one")
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, wrong("invalid_json_line", "", "the line is not a JSON object with custom_id, method, url and body")
	}
	l.Number = number
	switch {
	case l.CustomID == "":
		return l, wrong("missing_required_parameter", "custom_id", "custom_id is missing or empty")
	case len(l.CustomID) > maxCustomID:
		return l, wrong("invalid_value", "custom_id", "custom_id has more than %d bytes", maxCustomID)
	case l.Method != "POST":
		return l, wrong("invalid_method", "method", "method must be POST, not %.20q", l.Method)
	case l.URL != endpoint && !isPromptPath(endpoint, l.URL):
		return l, wrong("invalid_url", "url", "url must be the endpoint of the batch, %s, not %.80q", endpoint, l.URL)
	case len(l.Body) == 0 || l.Body[0] != '{':
		return l, wrong("missing_required_parameter", "body", "body must be a JSON object")
	}
	return l, checkLineBody(&l, wrong)
}

// checkLineBody checks what every endpoint asks of a body.
func checkLineBody(l *line, wrong func(code, param, format string, args ...any) *vendorbatch.LineError) *vendorbatch.LineError {
	var body struct {
		Model  json.RawMessage `json:"model"`
		Stream json.RawMessage `json:"stream"`
	}
	if err := json.Unmarshal(l.Body, &body); err != nil {
		return wrong("invalid_json_line", "body", "body must be a JSON object")
	}
	if len(body.Stream) > 0 && string(body.Stream) != "false" && string(body.Stream) != "null" {
		return wrong("invalid_value", "body.stream", "a request of a batch can't be streamed; leave out stream")
	}
	var model string
	if json.Unmarshal(body.Model, &model); model == "" && !strings.HasPrefix(l.URL, promptPath) {
		return wrong("missing_required_parameter", "body.model", "body.model must name a model")
	}
	return nil
}

// promptPath is the beginning of the paths of saved prompts.
const promptPath = "/v1/prompts/"

// isPromptPath reports whether both are paths of completions of saved prompts, which lines of
// a batch may mix.
func isPromptPath(endpoint, url string) bool {
	isOne := func(p string) bool {
		id, ok := strings.CutPrefix(p, promptPath)
		id, ends := strings.CutSuffix(id, "/completions")
		return ok && ends && id != "" && !strings.Contains(id, "/")
	}
	return isOne(endpoint) && isOne(url)
}

// endpoints are what lines may be sent to.
// https://platform.openai.com/docs/api-reference/batch/create
var endpoints = []string{
	"/v1/responses", "/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/v1/moderations", "/v1/images/generations",
}

// maxFaults is how many faults of a file are listed.
const maxFaults = 100

// validate reads the lines of a file and returns their number, and what is wrong with them.
func validate(r io.Reader, endpoint string, most int) (lines int, faults *vendorbatch.Errors, err error) {
	faults = &vendorbatch.Errors{Object: "list"}
	seen := make(map[string]int)
	in := newLineReader(r)
	empty := 0 // number of the last line, if it is empty: that is allowed at the end
	for len(faults.Data) < maxFaults {
		text, number, err := in.next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, errLineTooLong) {
			faults.Data = append(faults.Data, vendorbatch.LineError{Code: "line_too_long", Message: errLineTooLong.Error(), Line: &number})
			break
		}
		if err != nil {
			return lines, nil, err
		}
		if isEmpty(text) && empty == 0 {
			empty = number
			continue
		}
		if empty > 0 {
			faults.Data = append(faults.Data, vendorbatch.LineError{Code: "invalid_json_line", Message: "the line is empty", Line: &empty})
			break
		}
		if lines = number; lines > most {
			faults.Data = append(faults.Data, vendorbatch.LineError{Code: "too_many_lines", Message: fmt.Sprintf("the file has more than %d lines",
				most), Line: &number})
			break
		}
		l, fault := parseLine(text, number, endpoint)
		if fault == nil {
			if first, ok := seen[l.CustomID]; ok {
				param := "custom_id"
				fault = &vendorbatch.LineError{Code: "duplicate_custom_id", Message: fmt.Sprintf("custom_id is that of line %d", first),
					Param: &param, Line: &number}
			}
			seen[l.CustomID] = number
		}
		if fault != nil {
			faults.Data = append(faults.Data, *fault)
		}
	}
	if lines == 0 && len(faults.Data) == 0 {
		faults.Data = append(faults.Data, vendorbatch.LineError{Code: "empty_file", Message: "the file has no lines"})
	}
	if len(faults.Data) == 0 {
		return lines, nil, nil
	}
	return lines, faults, nil
}

// errorOfLine is the error of a line in the files of results.
type errorOfLine struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// result is a line of the files of results.
type result struct {
	ID       string       `json:"id"`
	CustomID string       `json:"custom_id"`
	Response *response    `json:"response"`
	Error    *errorOfLine `json:"error"`

	// Repeated is true if the line may have been sent to a provider twice: the node that
	// had sent it ended before it had stored the result.
	Repeated bool `json:"repeated,omitempty"`
}

// response is what a line was answered with.
type response struct {
	StatusCode int             `json:"status_code"`
	RequestID  string          `json:"request_id"`
	Body       json.RawMessage `json:"body"`
}

// failedLine returns the result of a line that has no response.
func failedLine(id, customID string, e *apierr.Error) result {
	return result{ID: id, CustomID: customID, Error: &errorOfLine{e.CodeOrDefault(), e.Message}}
}
