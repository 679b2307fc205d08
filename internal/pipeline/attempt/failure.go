package attempt

import (
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/pipeline/framing"
	"modelgate/internal/upstream"
)

// failure returns the error for clients for an error of sending or reading.
func (a *attempt) failure(req *http.Request, err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e
	}
	if framing.Unreadable(err) {
		return apierr.New(apierr.UpstreamFailed, "%s: %v", a.plan.record.Target.Label(), err).WithCode("upstream_unreadable")
	}
	f := upstream.Classify(req, err)
	switch {
	case f.Kind == upstream.TotalTimeout && a.plan.timers.isRequestTimeout(f):
		return apierr.New(apierr.Timeout, "%s did not respond within the request timeout of %d ms",
			a.plan.record.Target.Label(), a.plan.timers.limit.Milliseconds()).WithCause(f)
	case f.Timeout():
		return apierr.New(apierr.UpstreamTimeout, "%s: %s", a.plan.record.Target.Label(), f.Reason()).WithCode(f.Kind.String()).WithCause(f)
	}
	switch f.Kind {
	case upstream.Refused:
		return apierr.New(apierr.Invalid, "%s: %s", a.plan.record.Target.Label(),
			f.Reason()).WithParam("custom_host").WithCode("custom_host_refused")
	case upstream.Canceled:
		return apierr.New(apierr.ClientGone, "the client closed the request").WithCause(f)
	case upstream.Upload:
		return apierr.New(apierr.Invalid, "the request's body ended before its announced length").WithCause(f)
	case upstream.BadRequest:
		return apierr.New(apierr.Invalid, "%s", f.Reason())
	}
	return apierr.New(apierr.UpstreamFailed, "%s: %s%s", a.plan.record.Target.Label(), f.Reason(),
		advice(f.Kind)).WithCode("upstream_" + f.Kind.String()).WithCause(f)
}

// advice returns what to check if a provider could not be connected to, empty for other
// failures.
func advice(k upstream.FailureKind) string {
	switch k {
	case upstream.Dial, upstream.DNS, upstream.TLS:
		return "; check the address of the provider (custom_host) and whether the gateway can reach it"
	}
	return ""
}

// withSlug returns the body of a provider's error with the name of the managed provider
// next to its kind.
func (a *attempt) withSlug(body []byte) []byte {
	var d jsonedit.Doc
	if a.plan.record.Target.Slug == "" || d.Scan(body) != nil {
		return body
	}
	return d.Apply(make([]byte, 0, len(body)+64),
		jsonedit.Edit{Name: "provider_slug", Value: jsonedit.AppendString(nil, a.plan.record.Target.Slug)})
}
