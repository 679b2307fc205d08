package controlplane

import (
	"context"
	"net"
	"net/http"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// readsAcross reports whether a caller reads entries of every organisation, including
// entries of unauthenticated requests.
func readsAcross(id *access.Identity) bool { return id.Allows(access.ScopeInstallation) }

// everything is the scope of such a caller: all entries.
var everything = logstore.Scope{}

// auditAcross records a read across organisations in the caller's audit log and in the
// audit log of the organisation whose entry was read (empty for none). If it fails, the
// entry must not be returned.
func (l *LogHandler) auditAcross(ctx context.Context, who *access.Identity, r *http.Request, read string) error {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	logs := []string{who.Organisation}
	if read != "" && read != who.Organisation {
		logs = append(logs, read)
	}
	for _, organisation := range logs {
		now := time.Now()
		id := reqlog.NewID(now).String()
		err := l.DB.AddAudit(ctx, &store.Audit{
			ID: id, RequestID: id, Organisation: organisation, Time: now, Method: r.Method, URI: r.URL.Path,
			QueryParams: "{}", RequestHeaders: "{}", RequestBody: "null",
			UserID: who.KeyID, UserType: "api_key", Status: http.StatusOK, ResourceType: "log", Action: "read_across_organisations", ClientIP: host,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofOther removes from an entry what a caller from another organisation must not see:
// bodies, and parameter values that the client wrote.
func ofOther(who *access.Identity, e *reqlog.Entry) {
	if e.Organisation != who.Organisation {
		e.Bodies, e.Params = nil, nil
	}
}
