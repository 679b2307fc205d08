package attempt

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/provider"
)

// maxBufferedJSON is the size up to which a JSON response is buffered
// completely, so that it is validated before the client receives any of it. A
// larger one streams through.
const maxBufferedJSON = 8 << 20

// maxError is the limit of a provider's error body in bytes.
const maxError = 1 << 20

// maxHeld is the limit in bytes of comments held back until a stream's first
// event.
const maxHeld = 4 << 10

// handleResponse turns a provider's response into a usable one. On an error the
// caller closes the body and stops the timers.
func (a *attempt) handleResponse(res *http.Response) (*exchange.Response, error) {
	out := &a.response
	*out = exchange.Response{
		Status:     res.StatusCode,
		Header:     res.Header,
		Attempt:    &a.plan.record,
		Tap:        a.plan.request.Client.NewTap(a.plan.request.Operation),
		Length:     res.ContentLength,
		Raw:        res,
		MaxDecoded: a.plan.handler.Engine.Bounds.MaxDecoded,
		Source:     a,
	}
	if out.Status == http.StatusSwitchingProtocols && a.plan.request.Upgrade != nil {
		return newSession(a, out), nil
	}
	if out.Status < 200 { // 101 would give the client the bare connection
		return nil, a.unreadable("status " + strconv.Itoa(out.Status))
	}
	if out.Status < 400 {
		a.hideKeyInHeaders(out)
	}
	if a.plan.request.Operation == api.Proxy {
		return a.passThrough(out)
	}
	return a.unified(out)
}

// passThrough forwards the body as it arrives; the idle timeout applies between
// reads.
func (a *attempt) passThrough(out *exchange.Response) (*exchange.Response, error) {
	a.plan.timers.eventReceived()
	a.arriving = upstreamBody{attempt: a, res: out.Raw, src: out.Raw.Body}
	if out.Status >= 400 && len(a.credentials()) > 0 {
		a.hideInError(out)
	}
	out.Body = &a.arriving
	return out, nil
}

// unified handles the response by its status and content type.
func (a *attempt) unified(out *exchange.Response) (*exchange.Response, error) {
	src, err := a.gunzip(out)
	if err != nil {
		return nil, err
	}
	a.arriving = upstreamBody{attempt: a, res: out.Raw, src: src}
	body := &a.arriving
	kind := framing.MediaType(out.Header.Get("Content-Type"))
	switch {
	case out.Status >= 300 && out.Status <= 399:
		return nil, a.refuseUnifiedRedirect(out.Raw)
	case out.Status > 299:
		return a.providerError(out, body)
	}
	if read := a.plan.jobber(); read != nil {
		return a.followJob(out, read, body)
	}
	switch {
	case kind == framing.MediaEvents, kind == framing.MediaBinary, kind == framing.MediaLines && a.plan.wire.translatesConversation():
		m := a.streamMemory(src)
		m.Reader = framing.New(kind, a.plan.wire.dialect, m, a.plan.handler.Engine.Bounds.MaxEvent)
		return a.stream(out, m)
	case kind == "text/html":
		return nil, a.unreadable("an HTML page")
	case framing.IsJSON(kind), a.plan.wire.translates(), a.plan.wire.dialect != "": // a conversation is JSON, whatever its content type
		return a.readJSON(out, body)
	}
	a.plan.timers.eventReceived()
	out.Body = body
	return out, nil
}

// gunzip decompresses a response that some providers compress unasked. Other
// codings are forwarded unchanged, with their header.
func (a *attempt) gunzip(out *exchange.Response) (io.Reader, error) {
	coding := out.Header.Get("Content-Encoding")
	if contentcoding.IsIdentity(coding) {
		return out.Raw.Body, nil
	}
	plain, err := contentcoding.NewReader(coding, out.Raw.Body, a.plan.handler.Engine.Bounds.MaxDecoded)
	switch {
	case errors.Is(err, contentcoding.ErrUnknown):
		return out.Raw.Body, nil
	case errors.Is(err, contentcoding.ErrCorrupt):
		return nil, a.unreadable("a body that is not the " + exchange.HeaderText(coding) + " it says it is")
	case err != nil:
		return nil, a.failure(out.Raw.Request, err)
	}
	out.After = append(out.After, func() { plain.Close() })
	out.Header = out.Header.Clone()
	out.Header.Del("Content-Encoding")
	out.Header.Del("Content-Length")
	out.Length = -1
	return plain, nil
}

// readJSON reads a JSON response to its end, so that a broken one becomes a
// clean error. One longer than spill streams through.
func (a *attempt) readJSON(out *exchange.Response, body *upstreamBody) (*exchange.Response, error) {
	rename := a.plan.handler.renamer(a.plan.request, out.Tap)
	if out.Length > maxBufferedJSON && !a.plan.wire.translates() {
		a.passLong(out, rename, body)
		return out, nil
	}
	buf, err := a.read(out, body)
	if err != nil {
		return nil, err
	}
	out.Held = buf
	if a.plan.wire.translates() {
		if err := a.plan.wire.translator.response(a, out, buf.Bytes()); err != nil {
			buf.Release()
			return nil, err
		}
		return out, nil
	}
	if buf.Len() > maxBufferedJSON {
		out.Length = -1
		a.passLong(out, rename, io.MultiReader(bytes.NewReader(buf.Bytes()), body))
		return out, nil
	}
	if !framing.IsCompleteJSON(buf.Bytes()) {
		buf.Release()
		return nil, a.incomplete()
	}
	out.Bytes = buf.Bytes()
	out.Tap.Body(out.Bytes)
	if out.Tap.Info().Failed != "" {
		a.setInside(out, "", out.Bytes)
		return out, nil
	}
	if err := rename.response(a, out); err != nil {
		buf.Release()
		return nil, err
	}
	return out, nil
}

// passLong streams a JSON response through.
func (a *attempt) passLong(out *exchange.Response, rename *modelRenamer, body io.Reader) {
	out.Body = body
	if rename != nil {
		out.Edited()
		out.Body = rename.reader(body)
	}
}

// read reads a JSON response, or the first spill bytes of a longer one.
func (a *attempt) read(out *exchange.Response, body io.Reader) (*bytepool.Buffer, error) {
	if a.plan.wire.translates() {
		return a.readTranslated(body, out.Length, a.plan.request.Stream)
	}
	if out.Length < 0 {
		body = io.LimitReader(body, maxBufferedJSON+1)
	}
	buf, err := a.plan.handler.Engine.Bounds.Pool.ReadShare(body, out.Length, maxBufferedJSON+1, a.plan.request.Memory)
	if bytepool.IsFull(err) {
		err = apierr.BodyMemoryFull(err)
	}
	return buf, err
}

// readTranslated reads a JSON response that is decoded, and reserves memory for
// that. length is the Content-Length, or negative; streamed is true if the
// client gets a stream.
func (a *attempt) readTranslated(body io.Reader, length int64, streamed bool) (*bytepool.Buffer, error) {
	buf, err := a.plan.handler.Engine.Bounds.Pool.ReadShare(body, length, exchange.MaxTranslated, a.plan.request.Memory)
	if err == nil && !framing.IsCompleteJSON(buf.Bytes()) {
		buf.Release()
		return nil, a.incomplete()
	}
	if err == nil {
		size := translationSize
		if streamed {
			size = streamedSize
		}
		if err = buf.Reserve(size(buf.Bytes())); err != nil {
			buf.Release()
		}
	}
	switch {
	case bytepool.IsFull(err):
		return nil, apierr.BodyMemoryFull(err)
	case errors.Is(err, bytepool.ErrTooLarge):
		return nil, a.unreadable("a body that is too large to be translated")
	case err != nil:
		return nil, err
	}
	return buf, nil
}

// stream translates a stream to the client's dialect if that differs, and
// begins it. It releases src with the response, or on an error.
func (a *attempt) stream(out *exchange.Response, src *streamMemory) (_ *exchange.Response, err error) {
	defer func() {
		if err != nil {
			src.release()
			return
		}
		out.After = append(out.After, src.release)
	}()
	kind := framing.MediaType(out.Header.Get("Content-Type"))
	if framing.IsUnwrapped(src.Reader) {
		kind = framing.MediaEvents
		out.SetHead(framing.MediaEvents)
	}
	if a.plan.wire.translates() {
		return out, a.plan.wire.translator.stream(a, out, src)
	}
	if kind != a.plan.request.Client.ContentType() {
		return nil, a.wrongStream()
	}
	s := &a.events
	*s = targetStream{attempt: a, res: out, reader: src, tap: out.Tap}
	var events exchange.Stream = s
	if a.plan.wire.usageAsked {
		events = &usageHider{Stream: events}
	}
	if m := a.plan.handler.renamer(a.plan.request, out.Tap); m != nil {
		m.Stream = events
		events = m
	}
	return out, s.open(events, src)
}

// providerError returns a provider's error with its status, marked as such.
func (a *attempt) providerError(out *exchange.Response, body *upstreamBody) (*exchange.Response, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxError))
	if err != nil && len(raw) == 0 {
		return nil, err
	}
	raw = a.hideCredentials(raw)
	a.hideInHeaders(out)
	out.Tap.Body(raw)
	if a.plan.record.Target.ErrorStatus != nil {
		out.Status = a.plan.record.Target.ErrorStatus(out.Status, raw)
	}
	if a.plan.wire.dialect != "" && a.plan.record.Target.OtherDialect(a.plan.wire.dialect) != "" {
		a.wrongEndpoint = provider.ReadWrongEndpoint(out.Status, raw)
	}
	a.writeError(out, raw)
	return out, nil
}

// writeError sets the client's form of a provider's error in out, which has its status.
func (a *attempt) writeError(out *exchange.Response, raw []byte) {
	a.refusedParams = a.plan.readRefused(out.Status, raw)
	out.SetHead("application/json")
	if wait, ok := dialect.RetryDelay(raw); ok && out.Header.Get("Retry-After") == "" {
		out.Header.Set("Retry-After", strconv.FormatFloat(math.Ceil(wait.Seconds()), 'f', 0, 64))
	}
	out.Bytes = a.withSlug(a.plan.request.Client.ProviderError(make([]byte, 0, len(raw)+64), raw, a.plan.record.Target.ID, out.Status))
}

func (a *attempt) incomplete() *apierr.Error {
	return a.unreadable("a body that is not whole JSON")
}

func (a *attempt) unreadable(what string) *apierr.Error {
	return apierr.New(apierr.UpstreamFailed, "%s responded with %s", a.plan.record.Target.Label(), what).WithCode("upstream_unreadable")
}
