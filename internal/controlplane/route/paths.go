package route

import (
	"net/http"
	"strings"
)

// paths routes requests by path. If two patterns match, the one that begins with more
// literal segments wins: /prompts/partials/{partial} before /prompts/{prompt}/versions.
// A single ServeMux would reject the pair.
type paths struct{ byNames []*http.ServeMux }

// HandleFunc implements humago.Mux.
func (p *paths) HandleFunc(pattern string, f func(http.ResponseWriter, *http.Request)) {
	plain, _, _ := strings.Cut(pattern, "{")
	n := strings.Count(plain, "/")
	for len(p.byNames) <= n {
		p.byNames = append(p.byNames, http.NewServeMux())
	}
	p.byNames[n].HandleFunc(pattern, f)
}

// find returns the pattern that a request matches, empty for none, and its mux. A pattern for
// everything below a path does not match the path itself, which a mux would redirect.
func (p *paths) find(r *http.Request) (pattern string, mux *http.ServeMux) {
	for i := len(p.byNames) - 1; i >= 0; i-- {
		_, pattern = p.byNames[i].Handler(r)
		above, _, below := strings.Cut(pattern, "/{rest...}")
		if pattern != "" && !(below && strings.HasSuffix(above, " "+r.URL.Path)) {
			return pattern, p.byNames[i]
		}
	}
	return "", nil
}

// ServeHTTP implements http.Handler.
func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, mux := p.find(r); mux != nil {
		mux.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}
