package server

import (
	"net/http"
	"net/url"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/dataplane"
)

// canonicalise sets the path of r, in RequestURI and URL, to its canonical form. A
// target in absolute form, as sent to proxies, is converted to origin form (RFC 9112,
// section 3.2.2). The path of the public address, base, is removed from its beginning;
// proxies may have removed it before. The query stays unchanged.
func canonicalise(r *http.Request, base string) error {
	target := originForm(r)
	path, query, marked := strings.Cut(target, "?")
	canonical, err := urlpath.Canonical(path)
	if err != nil {
		return err
	}
	canonical = withoutAlias(withoutBase(canonical, base))
	if canonical == path && target == r.RequestURI {
		return nil
	}
	if target = canonical; marked {
		target += "?" + query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return apierr.New(apierr.Invalid,
			"the path and query are not a valid request target").WithParam("path").WithCode(urlpath.Code).WithCause(err)
	}
	r.RequestURI, r.URL = target, u
	return nil
}

// withoutBase returns a path without base, if it begins with it.
func withoutBase(path, base string) string {
	rest, ok := strings.CutPrefix(path, base)
	switch {
	case !ok || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return "/"
	}
	return rest
}

// withoutAlias returns a path below /openai/v1, which Groq's own client library
// sends, as one below /v1.
// https://console.groq.com/docs/openai
func withoutAlias(path string) string {
	if strings.HasPrefix(path, "/openai/v1/") {
		return strings.TrimPrefix(path, "/openai")
	}
	return path
}

// originForm returns path and query as the client sent them.
func originForm(r *http.Request) string {
	if strings.HasPrefix(r.RequestURI, "/") {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

// refusePath rejects a request whose path has no canonical form. A model request is
// recorded like any other.
func (s *Server) refusePath(w http.ResponseWriter, r *http.Request, err error) {
	s.metrics.refusedPaths.Inc()
	if path, _, _ := strings.Cut(originForm(r), "?"); dataplane.IsModelPath(withoutBase(path, s.publicPath())) {
		s.refuse(w, r, err)
		return
	}
	writeError(w, apierr.From(err))
}

// writeError writes an error in the chat dialect.
func writeError(w http.ResponseWriter, e *apierr.Error) {
	w.Header().Set("Content-Type", "application/json")
	route.ForbidSniffing(w)
	w.WriteHeader(e.Status())
	w.Write(e.Body())
}

// onCanonicalPath passes requests to next with their path in canonical form, and
// rejects requests whose path has none.
func (s *Server) onCanonicalPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := canonicalise(r, ""); err != nil {
			s.metrics.refusedPaths.Inc()
			writeError(w, apierr.From(err))
			return
		}
		next.ServeHTTP(w, r)
	})
}
