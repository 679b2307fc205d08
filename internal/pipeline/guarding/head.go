package guarding

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/guardrail"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/upstream"
)

// serverHeaders are headers of responses whose values clients and caches read, next to
// those of protocolHeaders.
var serverHeaders = map[string]bool{
	"Age": true, "Allow": true, "Accept-Ranges": true, "Content-Length": true, "Etag": true, "Expires": true,
	"Last-Modified": true, "Retry-After": true,
	"Server": true, "Server-Timing": true, "Set-Cookie": true, "Vary": true, "Via": true,
	"Www-Authenticate": true, "Alt-Svc": true, "Strict-Transport-Security": true,
	"Content-Security-Policy": true, "X-Content-Type-Options": true, "X-Frame-Options": true,
	"X-Xss-Protection": true, "Referrer-Policy": true, "Permissions-Policy": true,
	"Cross-Origin-Opener-Policy": true, "Cross-Origin-Resource-Policy": true, "Cross-Origin-Embedder-Policy": true,
	"X-Robots-Tag": true, "X-Powered-By": true,
	"Access-Control-Allow-Origin": true, "Access-Control-Allow-Headers": true, "Access-Control-Allow-Methods": true,
	"Access-Control-Expose-Headers":    true,
	"Access-Control-Allow-Credentials": true, "Access-Control-Max-Age": true,
}

// checkHead checks the values of headers of a response of an unknown API, if hooks act. Trailers, which
// follow what is checked, do not pass.
func (run *responseRun) checkHead() error {
	if run.request.Operation != api.Proxy || !acts(run.hooks) {
		return nil
	}
	if raw := run.res.Raw; raw != nil {
		own := *raw
		own.Trailer = nil
		run.res.Raw = &own
	}
	h := make(http.Header, len(run.res.Header))
	upstream.CopyResponseHeader(h, run.res.Header, false)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			if !protocolHeaders[name] && !serverHeaders[name] && !isIdentifier(value) {
				texts = append(texts, outsideReadings(value)...)
			}
		}
	}
	parts := asideParts(texts)
	if len(parts) == 0 {
		return nil
	}
	in := guardrail.Input{Event: guardrail.After, Status: run.res.Status, Request: run.requestFacts(), Parts: parts, Aside: true}
	out := guardrail.Run(run.ctx, waitedFor(run.hooks), &in, nil)
	if run.ctx.Err() != nil {
		return apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(run.ctx))
	}
	switch {
	case out.Denied:
		run.addResults(out.Results)
		return denied(exchange.HookResults{Before: run.request.Checking.Passed, After: out.Results})
	case checkUnchanged(parts, out) != nil:
		run.addResults(out.Results)
		return apierr.New(apierr.Denied, "a guardrail changes text in a header of the response, which the gateway cannot rewrite").WithCode("response_unchecked")
	}
	return nil
}
