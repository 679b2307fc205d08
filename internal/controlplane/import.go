package controlplane

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/table"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// importedExchange is an exchange in a request to import log entries. Headers are
// accepted but never stored because they contain credentials.
type importedExchange struct {
	Request  postedRequest     `json:"request"`
	Response postedResponse    `json:"response"`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"64" doc:"Strings of up to 512 characters. trace_id, span_id, parent_span_id and span_name set the fields of the trace; all others are metadata"`

	trace map[string]string // removed from Metadata
}

type postedRequest struct {
	URL     string          `json:"url" maxLength:"4096" doc:"Address of the provider; its query is not stored"`
	Method  string          `json:"method,omitempty" maxLength:"16" doc:"Defaults to POST"`
	Headers map[string]any  `json:"headers,omitempty" doc:"Not stored"`
	Body    json.RawMessage `json:"body"`

	url   *url.URL
	media string
}

type postedResponse struct {
	Status  int             `json:"status,omitempty" minimum:"100" maximum:"599" doc:"Defaults to 200"`
	Headers map[string]any  `json:"headers,omitempty" doc:"Not stored"`
	Body    json.RawMessage `json:"body"`
	Time    float64         `json:"response_time,omitempty" minimum:"0" maximum:"86400000" doc:"Milliseconds until the end of the response"`

	media string
}

// Limits of one imported exchange.
const (
	maxURL      = 4096
	maxMethod   = 16
	maxPairs    = 64
	maxName     = 128 // of a key of metadata
	maxResponse = float64(24 * time.Hour / time.Millisecond)
)

func readPosted(e jsonElement) (p *importedExchange, err error) {
	in, err := e.members("request", "response", "metadata")
	if err != nil {
		return nil, err
	}
	p = &importedExchange{Metadata: map[string]string{}, trace: map[string]string{}}
	if err := p.Request.read(in["request"]); err != nil {
		return nil, err
	}
	if err := p.Response.read(in["response"]); err != nil {
		return nil, err
	}
	return p, p.readMetadata(in["metadata"])
}

func (r *postedRequest) read(e jsonElement) error {
	in, err := e.members("url", "method", "headers", "body")
	if err != nil {
		return err
	}
	if r.URL, err = in["url"].text(maxURL); err != nil {
		return err
	}
	if r.url, err = url.Parse(r.URL); err != nil || r.URL == "" || r.url.Opaque != "" {
		return in["url"].bad("must be the address that the request was sent to")
	}
	if r.Method, err = in["method"].text(maxMethod); err != nil {
		return err
	}
	if r.Method = strings.ToUpper(r.Method); strings.ContainsFunc(r.Method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		return in["method"].bad("must be an HTTP method such as POST")
	}
	if r.Method == "" {
		r.Method = "POST"
	}
	r.Body, r.media, err = bodyOf(in)
	return err
}

func (r *postedResponse) read(e jsonElement) error {
	in, err := e.members("status", "headers", "body", "response_time")
	if err != nil {
		return err
	}
	if r.Status, err = in["status"].integer(100, 599, 200); err != nil {
		return err
	}
	if r.Time, err = in["response_time"].number(0, maxResponse, 0); err != nil {
		return err
	}
	r.Body, r.media, err = bodyOf(in)
	return err
}

// bodyOf returns the body among members, and the media type of the headers.
func bodyOf(in map[string]jsonElement) (body json.RawMessage, media string, err error) {
	if h := in["headers"]; h.there() {
		all, err := h.members()
		if err != nil {
			return nil, "", err
		}
		for name, v := range all {
			if text, err := v.text(maxWord); err == nil && strings.EqualFold(name, "Content-Type") {
				media, _, _ = strings.Cut(strings.ToLower(text), ";")
			}
		}
	}
	if in["body"].raw == nil {
		return nil, "", in["body"].bad("is required; use null for no body")
	}
	return in["body"].raw, strings.TrimSpace(media), nil
}

// traceNames are the metadata keys that place an imported exchange in a trace.
var traceNames = []string{"trace_id", "span_id", "parent_span_id", "span_name"}

func (p *importedExchange) readMetadata(e jsonElement) error {
	if !e.there() {
		return nil
	}
	in, err := e.members()
	if err != nil {
		return err
	}
	for _, name := range traceNames {
		if p.trace[name], err = in[name].word(); err != nil {
			return err
		}
		delete(in, name)
	}
	p.Metadata, err = e.pairs(in)
	return err
}

// pairs reads members whose values are strings, as in metadata.
func (e jsonElement) pairs(in map[string]jsonElement) (map[string]string, error) {
	if len(in) > maxPairs {
		return nil, e.bad("must not have more than %d fields", maxPairs)
	}
	out := make(map[string]string, len(in))
	for name, v := range in {
		if first(v.raw) != '"' {
			return nil, v.bad("must be a string")
		}
		if len(name) > maxName {
			return nil, v.bad("must have a name of at most %d bytes", maxName)
		}
		var err error
		if out[name], err = v.text(api.MaxMetadataValue); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// entry returns the log entry of the exchange, which is recorded as ended at now. It
// has no attempts and no cost because the gateway neither sent it nor accounts for it.
func (p *importedExchange) entry(who *access.Identity, now time.Time) *reqlog.Entry {
	took := time.Duration(p.Response.Time * float64(time.Millisecond)).Truncate(time.Microsecond)
	began := now.Add(-took)
	e := &reqlog.Entry{
		ID: reqlog.NewID(began), Time: began, Input: reqlog.Input{Operation: api.LogInsert, Method: p.Request.Method,
			Path: cmp.Or(clip(p.Request.url.EscapedPath()), "/"), RequestBytes: size(p.Request.Body), Metadata: p.Metadata},
		Trace: reqlog.Trace{TraceID: p.trace["trace_id"], SpanID: p.trace["span_id"],
			ParentSpanID: p.trace["parent_span_id"], SpanName: p.trace["span_name"]},
		Sender:    reqlog.Sender{Organisation: who.Organisation, Workspace: who.Workspace, KeyID: who.KeyID, KeyName: who.Name},
		Origin:    reqlog.Origin{Provider: hosts()[strings.ToLower(p.Request.url.Hostname())]},
		Result:    reqlog.Result{Status: p.Response.Status, ResponseBytes: size(p.Response.Body)},
		Durations: reqlog.Durations{Total: took, Upstream: took},
	}
	maps.Copy(e.Metadata, who.Metadata)
	if e.TraceID == "" {
		e.TraceID = e.ID.String()
	}
	if e.Status >= 400 {
		e.ErrorSource, e.ErrorCode = "provider", "provider_error"
	}
	p.look(e)
	return e
}

// keep adds the bodies to e, or strips e to its logging level, as for the gateway's own
// requests.
func (p *importedExchange) keep(e *reqlog.Entry, who *access.Identity, logs snapshot.LogPolicy) {
	e.ErrorMessage = logs.Redact.Text(e.ErrorMessage)
	switch who.Logging.Level(logs.Level) {
	case access.LogNone:
		e.Level = reqlog.LevelNone
		e.StripClientText("", who.Metadata)
	case access.LogFull:
		e.Level = reqlog.LevelFull
		e.Bodies = &reqlog.Bodies{
			Request: recordedBody(p.Request.Body, p.Request.media, logs), Response: recordedBody(p.Response.Body, p.Response.media, logs),
		}
	}
}

// recordedBody returns the captured body: of a string, with the media type of its
// headers, or of other JSON.
func recordedBody(body json.RawMessage, media string, logs snapshot.LogPolicy) reqlog.Body {
	data := bytes.TrimSpace(body)
	switch text := ""; {
	case first(body) == 'n':
		return reqlog.Body{}
	case first(body) != '"':
		media = "application/json"
	case json.Unmarshal(body, &text) == nil:
		data, media = []byte(text), cmp.Or(media, "text/plain")
	}
	most := min(logs.MaxBody(), len(data))
	return reqlog.Body{Type: media, Data: logs.Redact.Body(media, data[:most]), Size: int64(len(data)), Cut: most < len(data)}
}

// look reads model, usage and errors from the bodies, assuming the chat dialect.
func (p *importedExchange) look(e *reqlog.Entry) {
	var asked struct {
		Model  string
		Stream bool
	}
	json.Unmarshal(p.Request.Body, &asked) // fields that cannot be read stay empty
	e.Model, e.Stream = clip(asked.Model), asked.Stream
	if first(p.Response.Body) != '{' {
		return
	}
	var tap dialect.Tap = chat.Dialect{}.NewTap(api.Proxy)
	tap.Body(p.Response.Body)
	seen := tap.Info()
	e.ResponseModel, e.Usage, e.Finish = clip(seen.Model), seen.Usage, clip(seen.Finish)
	if seen.Failed != "" {
		e.ErrorSource, e.ErrorCode, e.ErrorMessage = "provider", "provider_error", clip(seen.Failed)
	}
}

// size returns the size of a body on the wire: the length of a string's value,
// otherwise of the JSON text.
func size(body json.RawMessage) int64 {
	var s string
	switch first(body) {
	case 'n':
		return 0
	case '"':
		if json.Unmarshal(body, &s) == nil {
			return int64(len(s))
		}
	}
	return int64(len(bytes.TrimSpace(body)))
}

// clip shortens a client's text so that it cannot fill the log.
func clip(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// hosts returns the built-in providers by host, for providers that have a host of their
// own. It never changes.
var hosts = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	for _, s := range table.All() {
		u, err := url.Parse(s.BaseURL)
		if err != nil || u.Hostname() == "" || strings.Contains(u.Host, "{") {
			continue
		}
		if host := u.Hostname(); m[host] == "" { // the first provider if several share a host
			m[host] = s.ID
		}
	}
	return m
})
