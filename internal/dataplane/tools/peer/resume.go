package peer

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"time"

	"modelgate/internal/format/sse"
)

// Limits of resuming streams.
const (
	maxResumes    = 5 // without a message in between
	maxEventID    = 1024
	defaultResume = time.Second
	minResumeWait = 100 * time.Millisecond
	maxResumeWait = 30 * time.Second
)

// resumption is what is needed to go on with a stream of the legacy era that ends before its
// response. Servers end streams on purpose, so that no connection is held during a long call.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
type resumption struct {
	last  []byte        // id of the last event; empty if the stream cannot be resumed
	wait  time.Duration // that the server asks for; zero if it does not
	tries int           // since the last message
}

// note remembers what an event says of the stream.
func (r *resumption) note(e sse.Event) {
	if len(e.ID) > 0 && len(e.ID) <= maxEventID {
		r.last = append(r.last[:0], e.ID...)
	}
	if at := bytes.Index(e.Raw, []byte("retry:")); at == 0 || at > 0 && e.Raw[at-1] == '\n' {
		line, _, _ := bytes.Cut(e.Raw[at+len("retry:"):], []byte("\n"))
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 31); err == nil {
			r.wait = min(max(time.Duration(n)*time.Millisecond, minResumeWait), maxResumeWait)
		}
	}
}

// resumes goes on with a stream that ended with an error, and reports whether it could.
func (r *httpReply) resumes(err error) bool {
	if _, broken := err.(*Failure); broken || r.events == nil || r.answered || r.call.Session.ID == "" ||
		len(r.resume.last) == 0 || r.resume.tries >= maxResumes {
		return false
	}
	r.resume.tries++
	wait := time.NewTimer(cmp.Or(r.resume.wait, defaultResume))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.watch.Context().Done():
		return false
	}
	h := baseHeader(r.call)
	h["Accept"], h["Last-Event-Id"] = acceptStream, []string{string(r.resume.last)}
	setSession(h, r.call.Session)
	req := (&http.Request{Method: http.MethodGet, URL: r.call.Server.URL, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).
		WithContext(r.watch.Context())
	resp, err := r.peers.client.Do(req, r.call.Server.Guarded)
	if err != nil {
		return r.resumes(err)
	}
	if resp.StatusCode != http.StatusOK || mediaType(resp.Header.Get("Content-Type")) != "text/event-stream" {
		resp.Body.Close()
		return false
	}
	r.resp.Body.Close()
	r.req, r.resp = req, resp
	r.events.Reset(resp.Body)
	return true
}
