package dataplane

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// write sends the provider's response to the client. An error means that
// nothing has been written.
func (p *Plane) write(w http.ResponseWriter, r *http.Request, x *roundTrip, res *exchange.Response) error {
	if x.admission.request.Operation != api.Proxy && res.Status < 300 {
		res.Status = http.StatusOK // the specification's only success status
	}
	rewritten, err := p.ownResultsURLs(r, x, res)
	if err != nil {
		return err
	}
	addresses, err := ownAddresses(p, r, x, res)
	if err != nil {
		return err
	}
	if x.admission.jsonArray {
		x.array = new(jsonArrayWriter)
	}
	x.addHookResults(res)
	x.keepTurn(r.Context(), res)
	x.recordStatus(res)
	defer x.recordUsage(res)
	upstream.CopyResponseHeader(w.Header(), res.Header, x.admission.request.Operation != api.Proxy)
	for name, address := range addresses {
		setOrDelete(w.Header(), name, address)
	}
	if rewritten {
		for _, name := range [...]string{"Content-Encoding", "Etag", "Digest", "Content-Digest", "Content-Md5"} {
			w.Header().Del(name)
		}
	}
	p.ownUploadURL(r, x, w.Header(), res)
	x.setGatewayHeaders(w.Header())
	p.envelop(w.Header(), x, res)
	switch {
	case res.Events != nil:
		p.writeEvents(w, r, x, res)
	case res.Bytes != nil:
		x.writeBytes(w, r, res)
	default:
		p.writeBody(w, r, x, res)
	}
	return nil
}

// recordStatus copies the status of the response into the log entry, and its
// model if that is known before the response ends.
func (x *roundTrip) recordStatus(res *exchange.Response) {
	e := &x.entry
	if e.Status = res.Status; res.HasEvent() {
		e.ResponseModel = truncate(res.Tap.Info().Model)
	}
	if res.Status >= 400 {
		e.ErrorSource = "provider"
		e.ErrorCode = "status_" + strconv.Itoa(res.Status)
	}
}

// recordUsage copies what the tap has read into the log entry.
func (x *roundTrip) recordUsage(res *exchange.Response) {
	s, e := res.Tap.Info(), &x.entry
	e.ResponseModel, e.Usage, e.Finish = truncate(s.Model), res.Usage(), truncate(s.Finish)
	if res.Cut() {
		e.Finish = string(llm.StopLength)
	}
	if s.Failed != "" && e.ErrorMessage == "" && e.ErrorSource != "client" {
		e.ErrorSource, e.ErrorMessage = "provider", truncate(s.Failed)
		if e.ErrorCode == "" {
			e.ErrorCode = "provider_error"
		}
	}
}

// truncate limits the length of strings that a client or a provider wrote.
func truncate(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// setGatewayHeaders sets the gateway's own headers.
func (x *roundTrip) setGatewayHeaders(h http.Header) {
	e := &x.entry
	e.Overhead = time.Since(e.Time) - x.trail.UpstreamTime
	if x.trail.Cache != "" {
		e.CacheStatus = string(x.trail.Cache)
	}
	retries := "0"
	if x.trail.Retries != 0 {
		retries = strconv.Itoa(x.trail.Retries)
	}
	var provider, model, target string
	if a := x.trail.Outcome; a != nil {
		provider, model, target = a.Record.Provider, truncate(a.Model), a.Record.Target
		if a.NamesRequestedModel { // otherwise the response itself has the served name
			model = cmp.Or(e.ResponseModel, model)
		}
	}
	x.headerValues = [...]string{x.admission.id, e.TraceID, provider, model, target, retries, e.CacheStatus,
		strconv.FormatInt(max(e.Overhead.Microseconds(), 0), 10)}
	for i, name := range [...]string{api.HeaderRequestID, api.HeaderTraceID, api.HeaderProvider, api.HeaderModel,
		api.HeaderOptionIndex, api.HeaderRetryCount, api.HeaderCacheStatus, api.HeaderOverhead} {
		if x.headerValues[i] != "" {
			h[name] = x.headerValues[i : i+1 : i+1]
		}
	}
	if params := x.trail.Params(); len(params) > 0 {
		h[api.HeaderParams] = []string{strings.Join(params, ", ")}
	}
	x.mirror(h)
}

// mirror repeats the gateway's headers with the prefix that the request used.
func (x *roundTrip) mirror(h http.Header) {
	if x.admission.opts.prefix == "" {
		return
	}
	for name, v := range h {
		if suffix, ok := strings.CutPrefix(name, api.HeaderPrefix); ok {
			h[x.admission.opts.prefix+suffix] = v
		}
	}
}

// writeBytes sends a complete response.
func (x *roundTrip) writeBytes(w http.ResponseWriter, r *http.Request, res *exchange.Response) {
	h := w.Header()
	if h["Content-Length"] == nil || res.Length != int64(len(res.Bytes)) { // otherwise the provider's own is right
		h["Content-Length"] = []string{strconv.Itoa(len(res.Bytes))}
	}
	if _, said := h["Content-Type"]; !said || res.Status >= 400 {
		h["Content-Type"] = jsonType
	}
	x.begin(w, res.Status)
	x.entry.FirstToken = time.Since(x.entry.Time)
	n, err := inbound.WriteBody(w, r, res.Bytes) // flushed now rather than after recording, which may be slow
	responseCapture(&x.admission).add(res.Bytes[:n])
	x.entry.ResponseBytes += int64(n)
	x.finish(err)
}

var jsonType = []string{"application/json"}

func (x *roundTrip) begin(w http.ResponseWriter, status int) {
	x.headWritten = true
	x.entry.Status = status
	responseCapture(&x.admission).setMediaType(w.Header())
	w.WriteHeader(status)
}

// finish ends the response. err is the error of the client's connection.
func (x *roundTrip) finish(err error) {
	if err != nil {
		x.clientLeft()
		return
	}
	x.complete = true
}

// clientLeft records that the client did not wait for its complete response. An
// earlier error stays the reason.
func (x *roundTrip) clientLeft() {
	e := &x.entry
	if e.ErrorCode == "" {
		e.Status, e.ErrorSource, e.ErrorCode = 499, "client", "client_closed_request"
	}
}

// copyBuffers holds buffers for bodies that stream through.
var copyBuffers = sync.Pool{New: func() any { return new(copyBuffer) }}

type copyBuffer [16 << 10]byte

// writeBody sends a body as it arrives, byte for byte. If the provider breaks
// off, so does the gateway: no clean end may hide a missing part.
func (p *Plane) writeBody(w http.ResponseWriter, r *http.Request, x *roundTrip, res *exchange.Response) {
	if res.Length >= 0 {
		w.Header()["Content-Length"] = []string{strconv.FormatInt(res.Length, 10)}
	} else {
		// Otherwise net/http gives a short body a length that the provider did
		// not send.
		w.Header()["Transfer-Encoding"] = chunked
		announceTrailer(w.Header(), res)
	}
	if _, ok := w.Header()["Content-Type"]; !ok {
		w.Header()["Content-Type"] = nil // otherwise net/http guesses one
	}
	x.begin(w, res.Status)
	patient := newStallTimer(w, r, p.ClientStall)
	x.sendHead(res, &patient)
	err := x.copy(w, res, patient, &p.decoding)
	if err == nil {
		x.trailer(w.Header(), res)
		x.finish(nil)
		return
	}
	if !errors.Is(err, errClient) {
		x.fail(reason(r, err))
	}
	panic(http.ErrAbortHandler)
}

// sendHead sends the response headers before the body, for which the provider
// may take long. A short body of known length usually arrives with its headers:
// both are sent together. While the client still sends its own body, the headers
// wait too, because net/http would read the rest of that body first.
func (x *roundTrip) sendHead(res *exchange.Response, patient *stallTimer) {
	if res.Length >= 0 && res.Length <= int64(len(copyBuffer{})) || !x.admission.upload.complete() {
		return
	}
	patient.extend(time.Now())
	patient.rc.Flush() // a failure is that of the first write
	patient.written()
	x.admission.upload.responseBegun()
}

var chunked = []string{"chunked"}

var errClient = errors.New("the client does not read the response")

// copy sends the body after each read, so that nothing is delayed. What completes
// a body of known length is sent when the exchange ends.
func (x *roundTrip) copy(w http.ResponseWriter, res *exchange.Response, patient stallTimer, decoding *atomic.Int32) error {
	buf := copyBuffers.Get().(*copyBuffer)
	defer copyBuffers.Put(buf)
	rc := patient.rc
	defer patient.end()
	sniff := newSniffer(res, decoding)
	defer sniff.close()
	for {
		n, err := res.Body.Read(buf[:])
		if n > 0 {
			if x.entry.FirstToken == 0 {
				x.entry.FirstToken = time.Since(x.entry.Time)
			}
			sniff.write(buf[:n])
			res.Pause()
			patient.extend(time.Now())
			m, werr := w.Write(buf[:n])
			responseCapture(&x.admission).add(buf[:m])
			x.entry.ResponseBytes += int64(m)
			if werr == nil && err == nil && x.entry.ResponseBytes != res.Length {
				werr = rc.Flush()
				x.admission.upload.responseBegun()
			}
			patient.written()
			res.Resume()
			if werr != nil {
				x.finish(werr)
				return errClient
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			rc.Flush() // sends what arrived before the break
			return err
		}
	}
}

// announceTrailer announces the fields that the provider announced as trailer.
// A field that is in the headers too would be sent twice, so it is not
// announced.
func announceTrailer(h http.Header, res *exchange.Response) {
	if res.Raw == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(res.Raw.Trailer)) {
		if _, inHead := h[name]; !inHead && !strings.HasPrefix(name, api.HeaderPrefix) {
			h["Trailer"] = append(h["Trailer"], name)
		}
	}
}

// trailer sends the provider's trailer.
func (x *roundTrip) trailer(h http.Header, res *exchange.Response) {
	if res.Raw == nil || len(res.Raw.Trailer) == 0 {
		return
	}
	passing := make(http.Header, len(res.Raw.Trailer))
	upstream.CopyResponseHeader(passing, res.Raw.Trailer, x.admission.request.Operation != api.Proxy)
	for name, v := range passing {
		h[http.TrailerPrefix+name] = v
	}
}

// writeError writes an error of the gateway as the response. Nothing has been
// written before.
func (p *Plane) writeError(w http.ResponseWriter, r *http.Request, x *roundTrip, err error) {
	e := reason(r, err)
	if late := x.admission.upload.timeoutError(); late != nil {
		e = late
	}
	x.fail(e)
	if e.Kind == apierr.Internal {
		p.Logger.Error("internal error", "exchange", x.admission.id, "err", errText(e))
	}
	h := w.Header()
	body := x.errorBody(e)
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	setErrorHeaders(&x.admission, h, r, e)
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	setRateLimitHeaders(h, x.admission.errorClient() == p.Clients[api.DialectMessages], e.Limit, time.Now())
	if x.entry.TraceID == "" {
		x.entry.TraceID = x.admission.id
	}
	x.setGatewayHeaders(h)
	x.begin(w, e.Status())
	n, werr := w.Write(body)
	responseCapture(&x.admission).add(body[:n])
	x.entry.ResponseBytes += int64(n)
	x.finish(werr)
}

// errorClient returns the dialect in which errors are written before a response
// has begun.
func (a *admission) errorClient() dialect.ClientDialect {
	if c := a.plane.Clients[api.DialectMessages]; c != nil && a.isMessagesClient() {
		return c
	}
	return a.request.Client
}

// reason returns the reason why the exchange of r ended with err. Ending it for
// a shutdown or at its deadline looks like a client that disconnected.
func reason(r *http.Request, err error) *apierr.Error {
	cause := context.Cause(r.Context())
	if cause == ErrShutdown {
		return shutdownError()
	}
	if e, ok := errors.AsType[*deadlineError](cause); ok {
		return e.clientError()
	}
	return apierr.From(err)
}

func shutdownError() *apierr.Error {
	e := apierr.New(apierr.Unavailable, "the gateway is shutting down; send the request again").WithCode("shutting_down")
	e.RetryAfter = time.Second
	return e
}

// fail records an error of the gateway.
func (x *roundTrip) fail(e *apierr.Error) {
	if e.Kind == apierr.ClientGone {
		x.clientLeft()
		return
	}
	rec := &x.entry
	rec.ErrorSource, rec.ErrorCode, rec.ErrorMessage = "gateway", e.CodeOrDefault(), truncate(e.Message)
	if !x.headWritten {
		rec.Status = e.Status()
	}
}

// errText returns the part of an internal error that may be logged.
func errText(e *apierr.Error) string {
	if e.Err == nil {
		return e.Message
	}
	return e.Err.Error()
}
