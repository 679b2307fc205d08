package controlplane

import (
	"context"
	"net"
	"net/http"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/logstore"
	"modelgate/internal/reqlog"
	"modelgate/internal/store"
)

// readsAcross reports whether a caller reads entries of every organisation, and
// those of requests that showed no key.
func readsAcross(id *access.Identity) bool { return id.Allows(access.ScopeInstallation) }

// everything is whose entries such a caller sees.
var everything = logstore.Scope{}

// auditAcross notes that a caller reads across organisations: in their own audit
// log, and in that of the organisation whose entry was read, empty for none. What
// can't be noted is not read.
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
			ID: id, RequestID: id, Organisation: organisation, Time: now, Method: r.Method, URI: r.URL.Path, QueryParams: "{}", RequestHeaders: "{}", RequestBody: "null",
			UserID: who.KeyID, UserType: "api_key", Status: http.StatusOK, ResourceType: "log", Action: "read_across_organisations", ClientIP: host,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofOther takes out of an entry what a caller who reads across organisations does
// not see of others: bodies, and what the client wrote into parameters.
func ofOther(who *access.Identity, e *reqlog.Entry) {
	if e.Organisation != who.Organisation {
		e.Bodies, e.Params = nil, nil
	}
}
