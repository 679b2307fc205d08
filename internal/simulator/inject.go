package simulator

import (
	"net/http"
)

const page = `<!DOCTYPE html>
<html><head><title>Gateway</title></head><body><h1>Something is in the way</h1></body></html>
`

// injectFault applies the faults that precede or replace a response. It returns
// false if the request is over.
func (x *exchange) injectFault() bool {
	p := &x.plan
	if p.headers > 0 && !x.sleep(p.headers) {
		return false
	}
	if p.hang {
		<-x.r.Context().Done()
		x.recordDisconnect()
		return false
	}
	if p.reset {
		x.resetConn()
		return false
	}
	x.decorate()
	return !x.sendError() && !x.serveBulk()
}

// decorate sets the headers of faults that do not change the response.
func (x *exchange) decorate() {
	p, h := &x.plan, x.w.Header()
	if p.earlyHints {
		h.Set("Link", "</style.css>; rel=preload; as=style")
		x.w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
	}
	if p.retryAfter != "" {
		h.Set("Retry-After", p.retryAfter)
	}
	if p.retryAfterMS != "" {
		h.Set("Retry-After-Ms", p.retryAfterMS)
	}
	if p.cookie != "" {
		h.Set("Set-Cookie", p.cookie)
	}
	if p.extraName != "" {
		h.Set(p.extraName, p.extraValue)
	}
}

// sendError sends the error that the plan sets. It reports whether there was
// one.
func (x *exchange) sendError() bool {
	p, h := &x.plan, x.w.Header()
	switch {
	case p.html:
		x.sendBody(max(p.status, http.StatusOK), []string{"text/html; charset=utf-8"}, []byte(page))
	case p.redirect != "":
		h.Set("Location", p.redirect)
		x.sendBody(http.StatusFound, []string{"text/plain"}, nil)
	case p.contextLength:
		x.refuse(http.StatusBadRequest, tooLong)
	case p.contentFilter:
		x.refuse(http.StatusBadRequest, filtered)
	case p.modelNotFound:
		x.refuse(http.StatusNotFound, unknownModel)
	case p.status == http.StatusTooManyRequests:
		h.Set("X-Ratelimit-Remaining-Requests", "0")
		x.refuse(p.status, statusError(p.status))
	case p.status != 0:
		x.refuse(p.status, statusError(p.status))
	default:
		return false
	}
	return true
}
