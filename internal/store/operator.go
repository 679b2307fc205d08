package store

import (
	"encoding/json"
	"os"
	"os/user"
	"time"

	"modelgate/internal/records/reqlog"
)

// OperatorAudit returns the audit event of a command that changed an organisation, by
// the user of the operating system on this host. Details become its body and must not
// contain secrets. The caller sets the object that the command changed.
func OperatorAudit(organisation, command string, details map[string]any) *Audit {
	now := time.Now()
	id := reqlog.NewID(now).String()
	a := &Audit{
		ID: id, RequestID: id, Organisation: organisation, Time: now, Method: "CLI", URI: "modelgate " + command,
		QueryParams: "{}", RequestHeaders: "{}", RequestBody: "{}", UserID: "unknown", UserType: "operator", Status: 200,
	}
	if u, err := user.Current(); err == nil {
		a.UserID = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		a.Host = host
	}
	if body, err := json.Marshal(details); err == nil && details != nil {
		a.RequestBody = string(body)
	}
	return a
}
