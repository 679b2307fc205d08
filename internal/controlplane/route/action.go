package route

import (
	"net/http"
	"strings"
)

// Action returns the action that the audit log records for the route.
func (r *Route) Action() string {
	switch r.Method {
	case http.MethodPost:
		for end, action := range map[string]string{"/rotate": "rotate", "/restore": "restore",
			"/rollback": "rollback", "/resend": "resend", "/link": "password_link", "/password-reset": "password_reset_link"} {
			if strings.HasSuffix(r.Path, end) {
				return action
			}
		}
		return "create"
	case http.MethodPut, http.MethodPatch:
		return "update"
	case http.MethodDelete:
		return "delete"
	}
	return "read"
}
