package toolservers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// trial is the result of asking a server whether it answers.
type trial struct {
	Success    bool    `json:"success"`
	Status     *int    `json:"status_code" doc:"Of HTTP; null if there was no response"`
	Time       int64   `json:"response_time_ms"`
	URL        string  `json:"url"`
	ServerName *string `json:"server_name"`
	Error      *string `json:"error"`
}

func (f *family) test(ctx context.Context, c *route.Caller, in *NamedServer) (*trial, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	i, err := usable(ctx, c, row)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	found, omitted, err := f.probe(ctx, c, &i, &row)
	out := &trial{URL: i.URL, Time: time.Since(begin).Milliseconds()}
	if err != nil {
		if e, ok := errors.AsType[*apierr.Error](err); ok {
			return nil, e
		}
		text := problem(err)
		out.Error = &text
		return out, nil
	}
	out.Success, out.ServerName, out.Error = true, route.OrNull(found.Name), route.OrNull(omitted)
	if found.Status > 0 {
		out.Status = &found.Status
	}
	return out, nil
}

// usable returns the integration of a server, if its workspace may use it.
func usable(ctx context.Context, c *route.Caller, s store.ToolServer) (store.ToolIntegration, error) {
	i, err := c.DB().ToolIntegration(ctx, s.Organisation, s.Integration)
	if err != nil {
		return i, err
	}
	has, err := c.DB().HasToolIntegration(ctx, i, s.Workspace)
	if err == nil && (!has || i.Status != store.Active) {
		err = apierr.New(apierr.Forbidden, "the integration of this server is disabled, or no longer granted to its workspace").WithCode("AB03")
	}
	return i, err
}

// probe asks a server for what it is and offers. An *apierr.Error means that it was not asked.
func (f *family) probe(ctx context.Context, c *route.Caller, i *store.ToolIntegration, s *store.ToolServer) (found *toolserver.Found,
	omitted string, err error) {
	if f.Probe == nil {
		return nil, "", apierr.New(apierr.Unavailable, "this gateway cannot ask MCP servers")
	}
	if err := f.slots.Take(c.Organisation); err != nil {
		return nil, "", err
	}
	defer f.slots.Leave(c.Organisation)
	return ask(ctx, func(ctx context.Context, t *toolserver.Server) (*toolserver.Found, error) {
		return f.Probe(ctx, t, c.UserID)
	},
		f.api.Secrets, i, s)
}

// ask asks a server for what it is and offers. An *apierr.Error means that it was not asked.
func ask(ctx context.Context, probe probe, secrets route.Sealer, i *store.ToolIntegration, s *store.ToolServer) (found *toolserver.Found,
	omitted string, err error) {
	target, err := targetOf(ctx, secrets, i, s)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if found, err = probe(ctx, target); err != nil {
		if apierr.From(err).Code == "tool_server_needs_sign_in" {
			return nil, "", err
		}
		return nil, "", errors.New(problem(err))
	}
	omitted, err = found.Bound()
	return found, omitted, err
}

// targetOf returns a server as requests see it. Its error is an *apierr.Error.
func targetOf(ctx context.Context, secrets route.Sealer, i *store.ToolIntegration, s *store.ToolServer) (*toolserver.Server, error) {
	opened, err := open(ctx, secrets, i)
	if err != nil {
		return nil, apierr.New(apierr.Unavailable, "the credentials of the integration cannot be opened; set them again").
			WithCode("tool_server_unusable").WithCause(err)
	}
	target := store.ToolTarget(i, s, opened)
	if target.Fault != nil {
		return nil, target.Fault
	}
	return target, nil
}

// maxProblem is the limit of the text of a problem with a server, in bytes.
const maxProblem = 500

// problem returns the text of an error, which may quote a server.
func problem(err error) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), ""))
	return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")
}

// sync reads a server again, for itself and for its integration. A failure is stored, and in
// the response.
func (f *family) sync(ctx context.Context, c *route.Caller, in *NamedServer) (*Metadata, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	i, err := usable(ctx, c, row)
	if err != nil {
		return nil, err
	}
	found, omitted, err := f.probe(ctx, c, &i, &row)
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return nil, e
	}
	read := reading{c.Now, found, omitted, err}
	change := c.Change(ctx, func(tx *store.Tx) error { return read.store(ctx, tx, row) })
	if change != nil {
		return nil, change
	}
	return metadataResponse(ctx, c, row.ID)
}

// reading is what was read of a server, or the error of that.
type reading struct {
	time    time.Time
	found   *toolserver.Found
	omitted string
	err     error
}

// store stores what was read of a server, for itself and for its integration.
func (r reading) store(ctx context.Context, tx *store.Tx, row store.ToolServer) error {
	now, gone := tx.ToolServer(ctx, row.Organisation, row.Workspace, row.ID)
	if gone != nil || now.Integration != row.Integration {
		return route.NotFound("mcp_server", "MCP server", row.Slug)
	}
	for _, owner := range [...]string{row.Integration, row.ID} {
		if err := r.record(ctx, tx, owner, owner == row.ID); err != nil {
			return err
		}
	}
	return nil
}

// record stores what was read for an owner. What a server offers when it is read for the first
// time is approved for it: whoever added it trusts it as it is.
func (r reading) record(ctx context.Context, tx *store.Tx, owner string, server bool) error {
	syncs, err := tx.ToolSyncs(ctx, owner)
	if err != nil {
		return err
	}
	s := syncs[owner]
	first := s.SyncedAt.IsZero()
	s.Owner, s.TriedAt, s.Status, s.Error = owner, r.time, store.SyncSynced, r.omitted
	if r.err != nil {
		s.Status, s.Error = store.SyncFailed, problem(r.err)
		return tx.PutToolSync(ctx, s)
	}
	s.SyncedAt = r.time
	s.Metadata = store.ToolMetadata{Title: r.found.Title, Description: r.found.Description, Name: r.found.Name, Version: r.found.Version,
		Protocol: r.found.Protocol, Capabilities: r.found.Capabilities}
	if len(r.found.Icons) > 0 {
		if s.Metadata.Icons, err = json.Marshal(r.found.Icons); err != nil {
			return err
		}
	}
	if err := tx.PutToolSync(ctx, s); err != nil {
		return err
	}
	return recordItems(ctx, tx, owner, first && server, r.found.Items)
}

// recordItems stores what an owner offers. What it no longer offers is gone, and is deleted by
// the next reading unless it has a rule.
func recordItems(ctx context.Context, tx *store.Tx, owner string, approve bool, items []toolserver.FoundItem) error {
	rows, _, err := tx.ToolCapabilities(ctx, owner, "", store.Page{})
	if err != nil {
		return err
	}
	known := make(map[toolserver.Item]store.ToolCapability, len(rows))
	for _, row := range rows {
		known[row.Item()] = row
	}
	for _, i := range items {
		before, ok := known[i.Item]
		delete(known, i.Item)
		row := before
		if !ok {
			row = store.ToolCapability{Owner: owner, Kind: string(i.Kind), Name: i.Name, Enabled: true}
		}
		row.Seen, row.Definition, row.Gone = toolserver.Digest(i.Definition), string(i.Definition), false
		if approve && row.Approved == "" {
			row.Approved = row.Seen
		}
		if row == before {
			continue
		}
		if err := tx.PutToolCapability(ctx, row); err != nil {
			return err
		}
	}
	for _, row := range known {
		switch ruled := !row.Enabled || row.Price != nil; {
		case row.Gone && !ruled:
			err = tx.DeleteToolCapability(ctx, owner, row.Kind, row.Name)
		case !row.Gone:
			row.Gone, row.Definition = true, ""
			err = tx.PutToolCapability(ctx, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
