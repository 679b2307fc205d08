package guarding

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/bodytext"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// acts reports whether one of the hooks can deny or change what it checks.
func acts(hooks []*guardrail.Hook) bool { return slices.ContainsFunc(hooks, (*guardrail.Hook).Acts) }

// waitedFor returns the hooks that do not run in the background.
func waitedFor(hooks []*guardrail.Hook) []*guardrail.Hook {
	return slices.DeleteFunc(slices.Clone(hooks), func(h *guardrail.Hook) bool { return h.Async || h.Shadow })
}

// unchecked returns the denial of a request whose text hooks could not read.
func unchecked(format string, args ...any) *apierr.Error {
	return apierr.New(apierr.Denied, format+", so it could not be checked by guardrails", args...).WithCode(codeRequestUnchecked)
}

// checkTokens returns the denial of a body that has tokens instead of text, which a model reads
// and hooks do not, if one of the hooks would withhold text.
func checkTokens(d *document, hooks []*guardrail.Hook) error {
	withholds := func(h *guardrail.Hook) bool { return h.Acts() && !h.Reach().Facts }
	if !slices.Contains(d.body.Uncovered, bodytext.Tokens) || !slices.ContainsFunc(hooks, withholds) {
		return nil
	}
	return apierr.New(apierr.Denied, "the request has tokens instead of text in its input or prompt, so it could not be checked by guardrails; send the text").WithCode(codeRequestUnchecked)
}

// readText returns the body of a request that was not read as a JSON object, because of its
// content type, its length or what it is, if a provider may read JSON or text in it. It returns nil for other
// bodies, which are not covered, and an error for one that hooks which act cannot read.
func (run *requestRun) readText(h *RequestGuard, r *exchange.Request, g *exchange.Guards, l *CheckLog) ([]byte, error) {
	if acts(g.Before) && !contentcoding.IsIdentity(r.Received.Header.Get("Content-Encoding")) {
		return nil, unchecked("the request body is compressed")
	}
	if r.Received.Upload == nil {
		return r.Received.Body.Bytes(), nil
	}
	if !acts(g.Before) {
		return nil, nil
	}
	media := framing.MediaType(r.Received.Header.Get("Content-Type"))
	upload := r.Operation == api.Files || isUpload(r.Received.Path)
	if media == "multipart/form-data" || strings.HasPrefix(media, "multipart/") && !upload {
		return nil, unchecked("the request body has parts, but is not multipart/form-data with one boundary")
	}
	if upload {
		return nil, nil
	}
	if head := peekUpload(r.Received.Upload); !mayBeJSON(head) && !mayBeText(media, head) {
		return nil, nil
	}
	body, err := holdUpload(r.Received.Upload, h.Bounds.Pool, r.Memory, l)
	switch {
	case bytepool.IsFull(err):
		return nil, apierr.BodyMemoryFull(err)
	case errors.Is(err, bytepool.ErrTooLarge):
		return nil, unchecked("the request body is larger than %d bytes", maxChecked)
	case err != nil:
		return nil, err
	}
	run.body = body
	return body.Bytes(), nil
}

// isUpload reports whether a path of an unknown API takes a file, which is not text of a
// request.
func isUpload(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		return segment == "upload" || segment == "files" || segment == "blobs"
	})
}

// checkRows runs the hooks on the body of a request with a JSON object in each line, and returns it as
// they changed it.
func (c *rowChecks) checkRows(body []byte) ([]byte, error) {
	var out bytes.Buffer
	n := 0
	for line := range bytes.Lines(body) {
		row := bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(row, []byte("\x1e")); ok { // a sequence of JSON texts
			out.WriteByte('\x1e')
			row, line = rest, line[1:]
		}
		if len(bytes.TrimSpace(row)) == 0 {
			out.Write(line)
			continue
		}
		n++
		checked, err := c.check(row)
		if err == errNotARow {
			return nil, unchecked("the request body is not valid JSON")
		}
		if err != nil {
			return nil, inRow(err, n, row)
		}
		out.Write(checked)
		out.Write(line[len(row):])
	}
	return out.Bytes(), nil
}

// checkText runs the hooks on a body that is no JSON object: another value, text, a form,
// or a JSON object in each line. It returns the input for hooks that read the value.
func (run *requestRun) checkText(ctx context.Context, h *RequestGuard, r *exchange.Request,
	g *exchange.Guards, l *CheckLog) (doc *document, err error) {
	raw, err := run.readText(h, r, g, l)
	if err != nil || raw == nil {
		l.notCovered("request body")
		return nil, err
	}
	media := framing.MediaType(r.Received.Header.Get("Content-Type"))
	if _, err := jsonedit.ParseValue(raw); err == nil && media != mediaForm {
		own := *r
		own.Operation = api.Proxy
		return newDocument(&own, bodytext.Request, raw), nil
	}
	if !acts(g.Before) {
		l.notCovered("request body")
		return nil, nil
	}
	if media == mediaForm || !mayBeJSON(raw) {
		if doc, run.plain, err = plainDocument(r, bodytext.Request, media, raw); err != nil {
			return nil, unchecked("the request body is %v", err)
		}
		return doc, nil
	}
	rows := newRowChecks(rowChecks{ctx: ctx, pool: h.Bounds.Pool, path: h.Path, request: r, log: l, hooks: g.Before, on: guardrail.Before})
	changed, err := rows.checkRows(raw)
	if err == nil && !bytes.Equal(changed, raw) {
		err = run.hold(h.Bounds, r, changed, l)
	}
	return nil, err
}

// mayBeJSON reports whether a body that begins with head may be JSON with text, in an
// encoding that readers accept.
func mayBeJSON(head []byte) bool {
	for _, mark := range [...]string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		head = bytes.TrimPrefix(head, []byte(mark))
	}
	rest := bytes.TrimLeft(head, " \t\r\n\x00\x1e") // the last marks a text in a sequence
	if len(rest) == 0 {
		return len(head) > 0
	}
	return strings.IndexByte(`{["/`, rest[0]) >= 0 // some readers take comments
}

// peekSize is the number of bytes of an upload that are read to see what it is.
const peekSize = 4 << 10

// peekUpload returns the beginning of an upload that has not been sent, up to peekSize.
func peekUpload(u *exchange.Upload) []byte {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	b, ok := u.Body.(*bufio.Reader)
	if !ok {
		b = bufio.NewReaderSize(u.Body, peekSize)
		u.Body = b
	}
	head, _ := b.Peek(peekSize) // reading returns errors
	return head
}

// holdUpload reads an upload completely, once. The buffer is released with the request.
func holdUpload(u *exchange.Upload, pool *bytepool.Pool, share *bytepool.Share, l *CheckLog) (*bytepool.Buffer, error) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.Held == nil {
		u.HoldPart()
		body, err := pool.ReadShare(u.Body, -1, maxChecked, share)
		if err != nil {
			u.Body = exchange.BrokenBody{Err: err}
			return nil, err
		}
		l.release(body)
		u.Held, u.Body = body, bytes.NewReader(body.Bytes())
	}
	return u.Held, nil
}
