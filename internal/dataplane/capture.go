package dataplane

import (
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/redact"
	"modelgate/internal/records/reqlog"
)

// captureMemory is the limit of memory for captured bodies of open exchanges, apart from
// the memory that serves requests. Beyond it, and beyond the share of an organisation in
// it, captures are cut.
const captureMemory = 256 << 20

// capture stores the beginning of a body as it passes. It is not safe for
// concurrent use. A nil capture stores nothing.
type capture struct {
	pool     *bytepool.Pool
	share    *bytepool.Share // of the organisation in pool
	most     int
	media    string
	sizeOnly bool // not text: only the size is recorded
	full     bool
	buf      *bytepool.Buffer // nil until something is stored
}

// add stores as much of p as there is room for.
func (c *capture) add(p []byte) {
	if c == nil || c.sizeOnly || c.full || len(p) == 0 {
		return
	}
	var err error
	if c.buf == nil {
		if c.buf, err = c.pool.GetShare(min(len(p), c.most), c.share); err != nil {
			c.full = true
			return
		}
	}
	if room := c.most - c.buf.Len(); len(p) >= room {
		p, c.full = p[:room], true
	}
	if c.buf, err = c.buf.Append(p); err != nil {
		c.full = true
	}
}

// setMediaType sets the type of the body from its headers. Compressed content
// is not text.
func (c *capture) setMediaType(h http.Header) {
	if c == nil {
		return
	}
	media, _, _ := strings.Cut(first(h, "Content-Type"), ";")
	c.media = truncate(strings.ToLower(strings.TrimSpace(media)))
	encoding := first(h, "Content-Encoding")
	c.sizeOnly = !textual(c.media) || encoding != "" && encoding != "identity"
}

func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// textual reports whether bodies of a media type are text. Forms with files are
// not.
func textual(media string) bool {
	switch media {
	case "application/json", "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines",
		"application/xml", "application/yaml", "application/x-yaml", "application/x-www-form-urlencoded",
		"application/graphql", "application/javascript":
		return true
	}
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml")
}

// body returns the captured part of a body of size bytes, and ends the capture.
func (c *capture) body(size int64, rules *redact.Redactor) reqlog.Body {
	b := reqlog.Body{Type: c.media, Size: size}
	kept := 0
	if c.buf != nil {
		kept = c.buf.Len()
		b.Data = rules.Body(c.media, c.buf.Bytes())
		c.buf.Release()
	}
	c.buf, c.full = nil, true
	b.Cut = int64(kept) < size
	return b
}

// bodies holds the captured bodies of an exchange at logging level full.
type bodies struct{ request, response capture }

// startCapture starts the capture for the exchange's logging level, once the
// identity is known or known to be missing.
func (p *Plane) startCapture(r *http.Request, a *admission) {
	a.entry.Level = level(a)
	if a.entry.Level != reqlog.LevelFull {
		return
	}
	share := p.capturePool.Keyless()
	if a.request.Identity != nil {
		share = p.capturePool.Organisation(a.request.Identity.Organisation)
	}
	c := capture{pool: p.capturePool, share: share, most: a.snap.Logs.MaxBody()}
	a.bodies = &bodies{c, c}
	a.bodies.request.setMediaType(r.Header)
}

// level returns the logging level of the key, or metadata for a request that
// excludes its bodies.
func level(a *admission) reqlog.RecordLevel {
	switch level := logLevel(a); {
	case level == access.LogNone:
		return reqlog.LevelNone
	case level == access.LogFull && !a.skipBodies:
		return reqlog.LevelFull
	}
	return reqlog.LevelMetadata
}

// logLevel returns the logging level of the key.
func logLevel(a *admission) access.LogLevel {
	var said access.Logging
	if a.request.Identity != nil {
		said = a.request.Identity.Logging
	}
	return said.Level(a.snap.Logs.Level)
}

// captureRequest captures a buffered request body: JSON, whatever its content
// type. The body of a dry run is not captured, since it may contain
// credentials.
func captureRequest(a *admission, b []byte) {
	if a.bodies == nil {
		return
	}
	a.bodies.request.sizeOnly = a.route.op == api.Explain
	a.bodies.request.add(b)
}

// responseCapture returns the capture of the response, nil if there is none.
func responseCapture(a *admission) *capture {
	if a.bodies == nil {
		return nil
	}
	return &a.bodies.response
}

// finishCapture moves the captured bodies into the log entry, or strips the
// entry to its logging level. The response has been sent by then.
func (p *Plane) finishCapture(w http.ResponseWriter, x *roundTrip) {
	e, rules := &x.entry, x.admission.snap.Logs.Redact
	if x.admission.bodies != nil && x.complete {
		http.NewResponseController(w).Flush() // the rest takes time
	}
	if rules != nil {
		e.ErrorMessage = rules.Text(e.ErrorMessage)
		for i := range e.Attempts {
			e.Attempts[i].Error = rules.Text(e.Attempts[i].Error)
		}
	}
	switch {
	case x.admission.bodies != nil:
		e.Bodies = &reqlog.Bodies{Response: x.admission.bodies.response.body(e.ResponseBytes, rules)}
		if x.admission.upload != nil {
			x.admission.upload.mu.Lock() // the transport may still read
			defer x.admission.upload.mu.Unlock()
		}
		e.Bodies.Request = x.admission.bodies.request.body(e.RequestBytes, rules)
	case e.Level == reqlog.LevelNone:
		if x.tools != nil && !x.tools.tools.named { // a name that a client chose
			e.Model, e.UpstreamModel = "", ""
		}
		e.StripClientText(x.plainPath(), ownMetadata(&x.admission))
	}
}

// plainPath returns the path without segments that a client may have chosen.
func (x *roundTrip) plainPath() string {
	path := x.entry.Path
	switch {
	case x.admission.route.op.IsAgents():
		return "/a2a"
	case x.admission.route.tools:
		return "/mcp"
	}
	if _, ok := unifiedRoutes[x.entry.Method+" "+path]; ok {
		return path
	}
	for _, base := range [...]string{api.BasePath + "/", "/v1beta/", "/model/"} {
		if strings.HasPrefix(path, base) {
			return base + "…"
		}
	}
	return ""
}

// ownMetadata returns the part of the metadata that belongs to the key.
func ownMetadata(a *admission) map[string]string {
	if a.request.Identity == nil {
		return nil
	}
	return a.request.Identity.Metadata
}
