package controlplane

import (
	"context"
	"net/http"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/reqlog"
)

// Bounds of what is posted to the log at once.
const (
	maxPosted      = 1000
	maxPostedBytes = 20 << 20
)

// addInsert adds the route that takes exchanges which did not go through the
// gateway.
func addInsert(a *route.API) {
	route.Add(a, route.Route{
		Method: http.MethodPost, Path: "/logs", Name: "insert-logs", Tag: "Logs", Scopes: []access.Scope{access.ScopeLogsWrite},
		Summary: "Record exchanges that did not go through the gateway",
		Data:    true, MaxBody: maxPostedBytes, Loose: true,
	}, inserter{a}.insert)
}

type inserter struct{ api *route.API }

type insertInput struct{ Body oneOrMany[posted] }

type inserted struct {
	Status string   `json:"status" doc:"Always success"`
	IDs    []string `json:"ids" doc:"Of the entries, in the order of the request"`
}

// insert records all that was posted, or nothing.
func (i inserter) insert(ctx context.Context, c *route.Caller, in *insertInput) (*inserted, error) {
	list, err := in.Body.elements(maxPosted)
	if err != nil {
		return nil, err
	}
	entries, out := make([]*reqlog.Entry, len(list)), &inserted{Status: "success"}
	for n, e := range list {
		p, err := readPosted(e)
		if err != nil {
			return nil, err
		}
		entries[n] = p.entry(c.Identity, i.api.Now())
		out.IDs = append(out.IDs, entries[n].ID.String())
	}
	if i.api.Recorder == nil {
		return nil, apierr.New(apierr.Unavailable, "this gateway records nothing")
	}
	for n, e := range entries {
		i.api.Recorder.Record(ctx, e)
		if ctx.Err() != nil {
			return nil, apierr.New(apierr.Unavailable, "the log could not be written in time; %d of %d exchanges are recorded, and the rest may be", n, len(entries)).
				WithCode("log_unavailable").WithCause(ctx.Err())
		}
	}
	return out, nil
}
