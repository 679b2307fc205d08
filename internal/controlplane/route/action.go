package route

import (
	"net/http"
	"strings"
)

// Action is what the route does, in the words of the audit log.
func (r *Route) Action() string {
	switch r.Method {
	case http.MethodPost:
		if strings.HasSuffix(r.Path, "/rotate") {
			return "rotate"
		}
		return "create"
	case http.MethodPut, http.MethodPatch:
		return "update"
	case http.MethodDelete:
		return "delete"
	}
	return "read"
}
