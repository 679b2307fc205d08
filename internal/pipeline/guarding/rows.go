package guarding

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
)

// maxRow is the limit in bytes of a row of a file that is checked.
const maxRow = 16 << 20

// codeRequestUnchecked is the code of a request that could not be checked.
const codeRequestUnchecked = "request_unchecked"

// rowChecks runs hooks on the rows of a file: requests of a batch, or their
// responses. It is not safe for concurrent use.
type rowChecks struct {
	ctx     context.Context
	pool    *bytepool.Pool
	path    string // of the target
	request *exchange.Request
	log     *CheckLog
	hooks   []*guardrail.Hook // those that a request waits for
	on      guardrail.Event
	status  int // of the response
}

// newRowChecks returns c without the hooks that run in the background: they do not read
// rows, of which there may be thousands.
func newRowChecks(c rowChecks) *rowChecks {
	hooks := waitedFor(c.hooks)
	if len(hooks) < len(c.hooks) {
		c.log.notCovered("rows for async and shadow guardrails")
	}
	c.hooks = hooks
	return &c
}

// acts reports whether a hook can deny or change a row.
func (c *rowChecks) acts() bool { return acts(c.hooks) }

// rowRequests are the operations and dialects of the addresses in rows.
var rowRequests = map[string]struct {
	operation api.Operation
	dialect   api.Dialect
}{
	"/v1/chat/completions": {api.Chat, api.DialectChat}, "/v1/completions": {api.Completions, api.DialectChat},
	"/v1/embeddings": {api.Embeddings, api.DialectChat},
	"/v1/responses":  {api.Responses, api.DialectResponses}, "/v1/messages": {api.Messages, api.DialectMessages},
}

// check runs the hooks on a row, which is JSON without the end of its line, and returns
// it as they changed it. An error is the denial.
func (c *rowChecks) check(row []byte) ([]byte, error) {
	var doc jsonedit.Doc
	if err := doc.Scan(row); err != nil {
		return nil, errNotARow
	}
	own, body := c.read(&doc)
	text, form := row, bodytext.Request
	if body.Kind() == jsonedit.Object {
		text = body.Raw()
	}
	if c.on == guardrail.After {
		form = bodytext.Response
	}
	in := guardrail.Input{Event: c.on, Status: c.status}
	checked := newDocument(own, form, text)
	in.Request = c.log.facts(own, checked)
	in.Parts, in.Document = checked.parts, checked
	if err := checkTokens(checked, c.hooks); err != nil {
		return nil, err
	}
	c.log.notCovered(checked.body.Uncovered...)
	out := guardrail.Run(c.ctx, c.hooks, &in, nil)
	if c.ctx.Err() != nil {
		return nil, apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(c.ctx))
	}
	hideTexts(c.on, out.Results)
	c.log.record(c.on, c.path, out.Results)
	switch {
	case out.Denied && c.on == guardrail.After:
		return nil, denied(exchange.HookResults{After: out.Results})
	case out.Denied:
		return nil, denied(exchange.HookResults{Before: out.Results})
	case notRun(out) != nil:
		return nil, out.Err
	case !out.Transformed:
		return row, nil
	}
	changed, err := changedRow(checked, out)
	if err != nil {
		return nil, err
	}
	if body.Kind() != jsonedit.Object {
		return changed, nil
	}
	return doc.Apply(nil, jsonedit.Edit{Name: "body", Value: changed}), nil
}

// read returns the request that a row holds, and its body. Without a known route or a
// body the row is checked as it is, and the body is the zero value.
func (c *rowChecks) read(doc *jsonedit.Doc) (own *exchange.Request, body jsonedit.Value) {
	r := *c.request
	r.Received.Upload, r.Received.Body, r.Received.Doc, r.Edits, r.Checking.Rows = nil, nil, nil, nil, nil
	r.Operation = api.Proxy
	if c.on != guardrail.Before {
		return &r, body
	}
	url, _ := doc.Find("url")
	route, _ := url.Text()
	known, ok := rowRequests[route]
	if !ok {
		return &r, body
	}
	r.Dialect = known.dialect
	if v, ok := doc.Find("body"); ok && known.operation != api.Proxy && v.Kind() == jsonedit.Object {
		body, r.Operation = v, known.operation
		model, _ := body.Get("model")
		r.Received.RequestedModel, _ = model.Text()
	}
	return &r, body
}

// changedRow returns a document as hooks changed it, in one line.
func changedRow(checked *document, out *guardrail.Outcome) ([]byte, error) {
	raw, err := json.RawMessage(out.Body), out.Err
	if err == nil && raw == nil {
		raw, err = checked.JSON(out.Parts, out.Add)
	}
	var doc jsonedit.Doc
	if err == nil {
		err = doc.Scan(raw)
	}
	if err != nil {
		return nil, apierr.New(apierr.Denied, "could not be changed by a guardrail: %v", err).WithCause(err)
	}
	if edits := fixedFields(checked, &doc); len(edits) > 0 {
		raw = doc.Apply(nil, edits...)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return nil, err
	}
	return line.Bytes(), nil
}

// rowReader reads the lines of a file.
type rowReader struct {
	lines *bufio.Reader
	pool  *bytepool.Pool
	share *bytepool.Share  // that pays for it
	row   *bytepool.Buffer // of the last line; nil before the first
}

// rowCopies is the number of copies of a row in memory, in addition to it, while it is
// checked and written again.
const rowCopies = 2

var errRowTooLong = errors.New("the row is too long")

// next returns the next line with its end. The slice is valid until the following call.
// An error other than io.EOF comes without a line.
func (r *rowReader) next() ([]byte, error) {
	if r.row == nil {
		row, err := r.pool.GetShare(4<<10, r.share)
		if err != nil {
			return nil, apierr.BodyMemoryFull(err)
		}
		r.row = row
	}
	r.row.Fill(func(dst []byte) []byte { return dst })
	for {
		piece, err := r.lines.ReadSlice('\n')
		larger, full := r.row.Append(piece)
		if full != nil {
			return nil, apierr.BodyMemoryFull(full)
		}
		r.row = larger
		switch {
		case r.row.Len() > maxRow:
			return nil, errRowTooLong
		case err == bufio.ErrBufferFull:
		case err != nil && err != io.EOF:
			return nil, err
		default:
			if full := r.row.ReserveTo(rowCopies * r.row.Len()); full != nil {
				return nil, apierr.BodyMemoryFull(full)
			}
			return r.row.Bytes(), err
		}
	}
}

func (r *rowReader) release() {
	if r.row != nil {
		r.row.Release()
		r.row = nil
	}
}

// inRow adds to the denial of a row where it is.
func inRow(err error, n int, row []byte) error {
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.Denied {
		return err
	}
	where := fmt.Sprintf("row %d", n)
	if id := customID(row); id != "" {
		where += fmt.Sprintf(" (custom_id %.64q)", id)
	}
	own := *e
	own.Message = where + ": " + strings.TrimPrefix(e.Message, where+": ")
	return &own
}

// customID returns the name that the client gave a row, empty if it has none.
func customID(row []byte) string {
	v, err := jsonedit.ParseValue(row)
	if err != nil {
		return ""
	}
	id, _ := v.Get("custom_id")
	text, _ := id.Text()
	return text
}

// deniedRow returns a row that replaces a denied one: an error in the form of results of
// batches.
func deniedRow(row []byte, e *apierr.Error) []byte {
	out := map[string]any{"custom_id": customID(row), "response": nil,
		"error": map[string]string{"code": e.CodeOrDefault(), "message": e.Message}}
	if v, err := jsonedit.ParseValue(row); err == nil {
		if _, anthropic := v.Get("result"); anthropic {
			out = map[string]any{"custom_id": customID(row), "result": map[string]any{
				"type": "errored", "error": map[string]any{"type": "error",
					"error": map[string]string{"type": "invalid_request_error", "message": e.Message}},
			}}
		}
	}
	line, _ := json.Marshal(out) // strings
	return line
}
