package vendorbatch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Result is the result of one line.
type Result struct {
	ID        string // of the result
	CustomID  string // empty if the vendor's line has none that can be read
	Status    int    // of the response; zero without one
	RequestID string // of the response at the vendor; may be empty
	Body      []byte // of the response, in the format of the endpoint; nil without one, valid until the next result
	Error     *LineError
	Model     string    // as the vendor names it; may be empty
	Usage     llm.Usage // Known is false if nothing is to be paid or the vendor did not report it
	Raw       []byte    // the vendor's line; nil if there is none. Valid until the next result
}

// Failed reports whether the result belongs in the file of errors.
func (r *Result) Failed() bool { return r.Error != nil || r.Status >= 400 || r.Status == 0 }

// Append appends the unified line, without a line break.
func (r *Result) Append(dst []byte) []byte {
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name("id")
	b.String(r.ID)
	b.Name("custom_id")
	if r.CustomID == "" {
		b.Null()
	} else {
		b.String(r.CustomID)
	}
	b.Name("response")
	if r.Status == 0 {
		b.Null()
	} else {
		b.Open('{')
		b.Name("status_code")
		b.Int(int64(r.Status))
		b.Name("request_id")
		b.String(r.RequestID)
		b.Name("body")
		b.Raw(r.Body)
		b.Close('}')
	}
	b.Name("error")
	if r.Error == nil {
		b.Null()
	} else {
		b.Open('{')
		b.Name("code")
		b.String(r.Error.Code)
		b.Name("message")
		b.String(r.Error.Message)
		b.Close('}')
	}
	b.Close('}')
	return b.Bytes()
}

// row is a result as a vendor has it.
type row struct {
	key       string // of the line; empty if it is missing
	split     bool   // the line was sent as several requests
	part      int    // of these, from 0
	id        string
	status    int
	requestID string
	body      []byte // of the response, in the vendor's format
	fault     *LineError
	raw       []byte
}

// Codes of the errors of lines that the vendor has no valid result for.
const (
	codeInvalid   = "invalid_result"
	codeDuplicate = "duplicate_result"
	codeUnknown   = "unknown_custom_id"
	codeMissing   = "missing_result"
)

// unfinished are the codes of lines without a result, by how the batch ended.
var unfinished = map[Status]LineError{
	Completed: {Code: codeMissing, Message: "the provider returned no result for this line"},
	Failed:    {Code: "batch_failed", Message: "the batch failed before this line had a result"},
	Expired:   {Code: "batch_expired", Message: "the batch expired before this line was run"},
	Cancelled: {Code: "batch_cancelled", Message: "the batch was cancelled before this line was run"},
}

// lineIndex finds the lines of an input by their keys, and remembers which have a
// result. It holds the custom ids of all lines, and no bodies.
type lineIndex struct {
	lines []indexedLine
	byKey map[string]int32
}

type indexedLine struct {
	customID string
	offset   int64
	seen     bool
}

// newIndex reads the lines of in. Without lines it is nil, and every key is valid.
func newIndex(in *Input, key func(*Line) string) (*lineIndex, error) {
	if in.Lines == nil {
		return nil, nil
	}
	x := &lineIndex{byKey: map[string]int32{}}
	for line, err := range in.Lines() {
		if err != nil {
			return nil, fmt.Errorf("reading the lines of the batch: %w", err)
		}
		x.byKey[key(&line)] = int32(len(x.lines))
		x.lines = append(x.lines, indexedLine{customID: line.CustomID, offset: line.Offset})
	}
	return x, nil
}

// find returns the line of a key.
func (x *lineIndex) find(key string) (*indexedLine, bool) {
	i, ok := x.byKey[key]
	if !ok {
		return nil, false
	}
	return &x.lines[i], true
}

// resultReader turns the rows of a vendor into results.
type resultReader struct {
	codec *lineCodec
	index *lineIndex
	batch *Batch
	parts map[string]*lineParts
	// unlisted are the keys of results if the lines are unknown.
	unlisted map[string]*indexedLine
}

// read yields the result of each row, and an error for each line without one.
func (r *resultReader) read(rows iter.Seq2[row, error], yield func(Result, error) bool) {
	for item, err := range rows {
		var res Result
		complete := false
		if err == nil {
			res, complete, err = r.result(&item)
		}
		if err != nil {
			yield(Result{}, err)
			return
		}
		if complete && !yield(res, nil) {
			return
		}
	}
	reason, ended := unfinished[r.batch.Status]
	if r.index == nil || !ended {
		return
	}
	for i := range r.index.lines {
		line := &r.index.lines[i]
		if line.seen {
			continue
		}
		if !yield(Result{ID: r.idOf(line.customID), CustomID: line.customID, Error: &reason}, nil) {
			return
		}
	}
}

// idOf returns the id of the result of a line.
func (r *resultReader) idOf(customID string) string {
	sum := sha256.Sum256([]byte(r.batch.ID + "\x00" + customID))
	return "batch_req_" + hex.EncodeToString(sum[:12])
}

// result returns the result of a row. complete is false for a part of a line whose other
// parts follow. An error is that of reading the input.
func (r *resultReader) result(item *row) (res Result, complete bool, err error) {
	res = Result{ID: item.id, CustomID: item.key, Status: item.status, RequestID: item.requestID, Error: item.fault, Raw: item.raw}
	if item.key == "" {
		return res.refuse(r, codeInvalid, faultMessage(item.fault)), true, nil
	}
	line, ok := r.line(item.key)
	if !ok {
		return res.refuse(r, codeUnknown, "the provider returned a result for a custom_id that no line has"), true, nil
	}
	res.CustomID = line.customID
	if line.seen {
		// The other parts of a line with an error say nothing new.
		return res.refuse(r, codeDuplicate, "the provider returned another result for this line; the first one is valid"), !item.split, nil
	}
	asked, err := r.requestOf(line)
	if err != nil {
		return Result{}, false, err
	}
	if item.body != nil {
		done, err := r.fill(&res, item, asked)
		if err != nil {
			used, model := res.Usage, res.Model // the vendor may charge for it
			res = res.refuse(r, codeInvalid, "the provider returned a result that is not in its format: "+dialect.ErrorMessage([]byte(err.Error())))
			res.Usage, res.Model = used, model
		} else if !done {
			return res, false, nil
		}
	}
	line.seen = true
	res.ID = first(res.ID, r.idOf(res.CustomID))
	return res, true, nil
}

// maxUnlisted is how many keys of results are remembered if the lines are unknown: as
// many lines as a batch of any vendor has.
const maxUnlisted = 1_000_000

// line returns the line of a key. Without the lines of the input, every key is one.
func (r *resultReader) line(key string) (*indexedLine, bool) {
	if r.index != nil {
		return r.index.find(key)
	}
	line, ok := r.unlisted[key]
	if !ok {
		line = &indexedLine{customID: key, offset: -1}
		if len(r.unlisted) < maxUnlisted {
			r.unlisted[strings.Clone(key)] = line
		}
	}
	return line, true
}

func faultMessage(fault *LineError) string {
	if fault != nil {
		return fault.Message
	}
	return "the provider returned a result without a custom_id"
}

// refuse returns the result without a response, and with an error.
func (res Result) refuse(r *resultReader, code, message string) Result {
	id := res.ID
	if id == "" {
		id = r.idOf(res.CustomID + "\x00" + string(res.Raw))
	}
	return Result{ID: id, CustomID: res.CustomID, Raw: res.Raw, Error: &LineError{Code: code, Message: message}}
}

// fill sets the response of a row in res. It returns false if other parts of the line
// follow.
func (r *resultReader) fill(res *Result, item *row, asked []byte) (bool, error) {
	if item.status >= 400 { // an error, in the vendor's format
		res.Body = item.body
		return true, nil
	}
	if r.codec.form != nil && asked != nil {
		return r.join(res, item, asked)
	}
	return true, r.codec.response(res, item.body, asked)
}

// requestOf returns the body of a line, nil if it is unknown or not needed.
func (r *resultReader) requestOf(line *indexedLine) ([]byte, error) {
	if line.offset < 0 || r.codec.in.Line == nil || r.codec.provider == nil && r.codec.form == nil {
		return nil, nil
	}
	l, err := r.codec.in.Line(line.offset)
	if err != nil {
		return nil, fmt.Errorf("reading a line of the batch: %w", err)
	}
	return l.Body, nil
}

// maxRow is the longest line of results.
const maxRow = 64 << 20

var errLongRow = errors.New("a result of the provider is longer than 64 MiB")

// jsonLines yields the lines of a stream. A line is valid until the next. Empty lines
// are skipped.
func jsonLines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(r, 64<<10)
		var long []byte
		for {
			part, err := in.ReadSlice('\n')
			line := part
			if len(long) > 0 || errors.Is(err, bufio.ErrBufferFull) {
				long = append(long, part...)
				line = long
			}
			switch {
			case len(long) > maxRow:
				yield(nil, errLongRow)
				return
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case err != nil && err != io.EOF:
				yield(nil, fmt.Errorf("reading results: %w", err))
				return
			}
			line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
			if len(line) > 0 && !yield(line, nil) {
				return
			}
			if long = long[:0]; err == io.EOF {
				return
			}
		}
	}
}
