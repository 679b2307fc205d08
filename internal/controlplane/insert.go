package controlplane

import (
	"context"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
)

// Limits of one import.
const (
	maxPosted      = 1000
	maxPostedBytes = 20 << 20
)

// addInsert adds the route that imports log entries.
func addInsert(a *route.API, r Logs) {
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/logs", Name: "insert-logs", Tag: "Logs", Scopes: []access.Scope{access.ScopeLogsWrite},
		Summary: "Import log entries of requests made outside the gateway",
		Data:    true, MaxBody: maxPostedBytes, UncheckedBody: true,
	}, logImporter{r, a.Now}.insert)
}

type logImporter struct {
	deps Logs
	now  func() time.Time
}

type insertInput struct {
	Debug string `header:"x-gateway-debug" doc:"false omits bodies that would be recorded"`
	Body  oneOrMany[importedExchange]
}

type inserted struct {
	Status string   `json:"status" doc:"Always success"`
	IDs    []string `json:"ids" doc:"Ids of the entries, in the order of the request"`
}

// insert records all entries of the request or none.
func (i logImporter) insert(ctx context.Context, c *route.Caller, in *insertInput) (*inserted, error) {
	entries, err := i.read(c.Identity, in)
	if err != nil {
		return nil, err
	}
	if i.deps.Recorder == nil {
		return nil, apierr.New(apierr.Unavailable, "request logging is disabled on this gateway")
	}
	out := &inserted{Status: "success"}
	for n, e := range entries {
		i.deps.Recorder.Record(ctx, e)
		if ctx.Err() != nil {
			return nil, apierr.New(apierr.Unavailable, "timed out writing the log: %d of %d entries are recorded, the others may be; check before you send them again", n, len(entries)).
				WithCode("log_unavailable").WithCause(ctx.Err())
		}
		out.IDs = append(out.IDs, e.ID.String())
	}
	return out, nil
}

// read returns the entries of the request.
func (i logImporter) read(who *access.Identity, in *insertInput) ([]*reqlog.Entry, error) {
	list, err := in.Body.elements(maxPosted)
	if err != nil {
		return nil, err
	}
	var logs snapshot.LogPolicy
	if i.deps.Policy != nil {
		logs = i.deps.Policy()
	}
	entries := make([]*reqlog.Entry, len(list))
	for n, e := range list {
		p, err := readPosted(e)
		if err != nil {
			return nil, err
		}
		entries[n] = p.entry(who, i.now())
		p.keep(entries[n], who, logs)
		if strings.EqualFold(in.Debug, "false") && entries[n].Bodies != nil {
			entries[n].Level, entries[n].Bodies = reqlog.LevelMetadata, nil
		}
	}
	return entries, nil
}
