package toolservers

import (
	"cmp"
	"context"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// Limits of what a workspace has.
const (
	maxServers = 128
	maxBundles = 128
)

type createServerInput struct {
	Body struct {
		Name        string `json:"name" minLength:"1" maxLength:"255"`
		Integration string `json:"mcp_integration_id,omitempty" maxLength:"255" doc:"Id or slug; required for an MCP server"`
		OfAgent     string `json:"agent_integration_id,omitempty" maxLength:"255" doc:"Id or slug; required for an agent"`
		Description string `json:"description,omitempty" maxLength:"500"`
		Slug        string `json:"slug,omitempty" maxLength:"50" doc:"3 to 50 lower-case letters, digits and dashes; part of the address, and never changes"`
		Workspace   string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for callers of the organisation"`
		Rules
	}
}

func createServer(ctx context.Context, c *route.Caller, in *createServerInput) (*created, error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	k := kindOf(ctx)
	named, err := k.named(b.Integration, b.OfAgent)
	if err != nil {
		return nil, err
	}
	if err := k.checkRules(b.Rules); err != nil {
		return nil, err
	}
	row := store.ToolServer{
		ID: c.NewID(), Organisation: c.Organisation, Workspace: w.ID, Agent: k.agents, Slug: b.Slug, Name: b.Name, Description: b.Description,
		Rules: store.ToolRules(b.Rules), DefaultAccess: store.AccessAllow, Status: store.Active, CreatedBy: c.Actor(), CreatedAt: c.Now,
		UpdatedAt: c.Now,
	}
	if row.Slug == "" {
		row.Slug = route.NewSlug("", b.Name)
	}
	c.SetAuditSubject(w.ID, row.ID)
	return &created{row.ID, row.Slug}, c.Change(ctx, func(tx *store.Tx) error {
		i, err := tx.ToolIntegration(ctx, c.Organisation, named)
		if apierr.IsNotFound(err) {
			return route.Missing(k.integration+"_id", k.integrationName, named)
		}
		if err != nil {
			return err
		}
		row.Integration = i.ID
		return insertServer(ctx, tx, i, row, b.Integration)
	})
}

// insertServer stores a new server, if its workspace has the integration, which the caller has
// named.
func insertServer(ctx context.Context, tx *store.Tx, i store.ToolIntegration, row store.ToolServer, named string) error {
	has, err := tx.HasToolIntegration(ctx, i, row.Workspace)
	if err != nil {
		return err
	}
	k := &mcpKind
	if row.Agent {
		k = &agentKind
	}
	if !has || !k.has(i) {
		return route.Missing(k.integration+"_id", k.integrationName, named)
	}
	if err := checkSlug(ctx, tx, row.Workspace, row.Slug, func(servers, _ int) error {
		if servers >= maxServers {
			return apierr.New(apierr.Invalid, "a workspace can have %d MCP servers and agents; delete one first", maxServers)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := tx.CreateToolServer(ctx, row); err != nil {
		return err
	}
	return tx.AddJob(ctx, store.Job{ID: reqlog.NewID(row.CreatedAt).String(), Kind: store.JobToolSync, Subject: row.ID,
		Organisation: row.Organisation, Workspace: row.Workspace, NextAt: row.CreatedAt, CreatedAt: row.CreatedAt})
}

// checkSlug checks the slug of a new server or bundle of a workspace. Room returns an error
// if the workspace has too many.
func checkSlug(ctx context.Context, tx *store.Tx, workspace, slug string, room func(servers, bundles int) error) error {
	if err := toolserver.CheckSlug(slug); err != nil {
		return route.Invalid("slug", "%v", err)
	}
	taken, servers, bundles, err := tx.HasToolSlug(ctx, workspace, slug)
	if err != nil {
		return err
	}
	if taken {
		return apierr.New(apierr.Conflict, "an MCP server, an agent or a bundle %q already exists in this workspace; choose another slug", slug).WithParam("slug")
	}
	return room(servers, bundles)
}

// Server is a server in a response.
type Server struct {
	ID           string     `json:"id"`
	Organisation string     `json:"organisation_id"`
	Workspace    string     `json:"workspace_id"`
	Integration  string     `json:"mcp_integration_id,omitempty" doc:"Of an MCP server"`
	OfAgent      string     `json:"agent_integration_id,omitempty" doc:"Of an agent"`
	Name         string     `json:"name"`
	Slug         string     `json:"slug"`
	Description  string     `json:"description"`
	URL          string     `json:"url" doc:"Where clients reach it through the gateway"`
	Access       string     `json:"default_user_access" doc:"allow or deny, for users without an access of their own"`
	Status       string     `json:"status" doc:"active or disabled"`
	Metadata     Metadata   `json:"metadata"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	Object       string     `json:"object"`
	Rules
}

func showServer(c *route.Caller, syncs map[string]store.ToolSync) func(store.ToolServer) Server {
	return func(s store.ToolServer) Server {
		out := Server{
			ID: s.ID, Organisation: s.Organisation, Workspace: s.Workspace, Integration: s.Integration, Name: s.Name, Slug: s.Slug,
			Description: s.Description, URL: c.AbsoluteLink("/" + s.Slug + "/mcp"), Access: s.DefaultAccess, Status: s.Status,
			Metadata: metadataOf(syncs, s.ID), CreatedBy: s.CreatedBy, CreatedAt: route.Time(s.CreatedAt), UpdatedAt: route.Time(s.UpdatedAt),
			Object: mcpKind.server, Rules: Rules(s.Rules),
		}
		if s.Agent {
			out.Integration, out.OfAgent, out.Object, out.URL = "", s.Integration, agentKind.server, c.AbsoluteLink("/a2a/"+s.Slug)
		}
		return out
	}
}

// maxIDs is the limit of the ids in a query.
const maxIDs = 100

type listServersInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
	IDs       string `query:"id" maxLength:"4096" doc:"Ids, separated by commas; returns only these"`
	Search    string `query:"search" maxLength:"255" doc:"Case-sensitive substring of the name or slug"`
	Name      string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	Page      int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Size      int    `query:"page_size" minimum:"1" maximum:"100" default:"100"`
}

func listServers(ctx context.Context, c *route.Caller, in *listServersInput) (*route.List[Server], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	filter := store.ToolServerFilter{Organisation: c.Organisation, Agents: kindOf(ctx).agents, Workspace: workspace, Search: in.Search}
	if in.IDs != "" {
		if filter.IDs = strings.Split(in.IDs, ","); len(filter.IDs) > maxIDs {
			return nil, route.Invalid("id", "has more than %d ids", maxIDs)
		}
	}
	rows, total, err := c.DB().ToolServers(ctx, filter, store.Page{Number: in.Page, Size: in.Size, Name: in.Name})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	syncs, err := c.DB().ToolSyncs(ctx, ids...)
	return route.Listing(rows, total, err, showServer(c, syncs))
}

func getServer(ctx context.Context, c *route.Caller, in *NamedServer) (*Server, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	syncs, err := c.DB().ToolSyncs(ctx, row.ID)
	return route.ItemOf(row, err, showServer(c, syncs))
}

type updateServerInput struct {
	NamedServer
	Body struct {
		Name        route.Optional[string] `json:"name,omitempty"`
		Description route.Optional[string] `json:"description,omitempty"`
		Status      string                 `json:"status,omitempty" enum:"active,disabled"`
		Writes      route.Optional[string] `json:"writes,omitempty" enum:"allow,ask,deny" doc:"The stricter of this and that of the integration applies"`
		Destroys    route.Optional[string] `json:"destroys,omitempty" enum:"allow,ask,deny"`
		HoldChanged route.Optional[bool]   `json:"hold_changed,omitempty"`
	}
}

func updateServer(ctx context.Context, c *route.Caller, in *updateServerInput) (*route.Empty, error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	read, b := row.UpdatedAt, &in.Body
	row.Name, row.Description, row.Status = b.Name.Or(row.Name), b.Description.Or(row.Description), cmp.Or(b.Status, row.Status)
	row.Rules = store.ToolRules{Writes: b.Writes.Or(row.Rules.Writes), Destroys: b.Destroys.Or(row.Rules.Destroys),
		HoldChanged: b.HoldChanged.Or(row.Rules.HoldChanged)}
	if err := kindOf(ctx).checkRules(Rules(row.Rules)); err != nil {
		return nil, err
	}
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("description", row.Description, 0, 500)); err != nil {
		return nil, err
	}
	row.UpdatedAt = c.NextUpdateTime(read)
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolServer(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		if err := tx.UpdateToolServer(ctx, row); err != nil {
			return err
		}
		return tx.HastenJob(ctx, store.JobToolSync, row.ID, c.Now)
	})
}

func removeServer(ctx context.Context, c *route.Caller, in *NamedServer) (*route.Empty, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolServer(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(row.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteToolServer(ctx, row.ID)
	})
}
