// Package configs implements the control plane's routes for saved routing configs.
//
// It guarantees that an invalid config is never stored, that every version can be read
// again, that credentials in a config are stored sealed and shown as masks, and that a
// config in use as a default cannot be removed. It does not define what a config means
// (see package config) or who may use it (see snapshot).
package configs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Add adds the routes of configs.
func Add(a *route.API) {
	s := service{credentials.New(a.Deps)}
	f := route.Family{Path: "/configs", Tag: "Configs", Scopes: []string{"configs"}, Resource: "config", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-config", "create", "Save a config"), s.create)
	route.Add(a, f.Route(http.MethodGet, "", "list-configs", "list", "List configs"), list)
	route.Add(a, f.Route(http.MethodGet, "/{config}", "get-config", "read", "Read a config with its text"), get)
	route.Add(a, f.Route(http.MethodPut, "/{config}", "update-config", "update",
		"Update a config; a changed body creates a new version"), s.update)
	route.Add(a, f.Route(http.MethodDelete, "/{config}", "delete-config", "delete", "Archive a config"), archive)
	route.Add(a, f.Route(http.MethodGet, "/{config}/versions", "list-config-versions", "read", "List config versions"), versions)
	route.Add(a, f.Route(http.MethodPost, "/{config}/rollback", "rollback-config", "update",
		"Make the text of an earlier version the current one, as a new version"), rollback)
	f.AddRestore(a, store.RestoreConfig, nil)
}

// service serves the routes that store config text.
type service struct{ credentials *credentials.Manager }

// changeResponse is the response envelope of this family's changes.
type changeResponse[T any] struct {
	Success bool `json:"success"`
	Data    T    `json:"data"`
}

type created struct {
	ID        string   `json:"id"`
	VersionID string   `json:"version_id"`
	Slug      string   `json:"slug"`
	Object    string   `json:"object"`
	Warnings  []string `json:"warnings,omitempty" doc:"What was left out of addresses in the request"`
}

type createInput struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"255"`
		Config    route.JSON `json:"config" doc:"The config as an object, or as a JSON string"`
		IsDefault int        `json:"isDefault,omitempty" enum:"0,1"`
		Workspace string     `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
	}
}

func (s service) create(ctx context.Context, c *route.Caller, in *createInput) (*changeResponse[created], error) {
	b := &in.Body
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	stored, err := s.credentials.SealConfig(ctx, w.Organisation, configText(b.Config), credentials.StoredConfig{})
	if err != nil {
		return nil, err
	}
	row := store.Config{
		ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Slug: route.NewSlug("pc", b.Name), Name: b.Name,
		IsDefault: b.IsDefault == 1, Status: store.Active, UpdatedAt: c.Now,
	}
	c.SetAuditSubject(w.ID, row.ID)
	if err := insert(ctx, c, &row, stored); err != nil {
		return nil, err
	}
	return &changeResponse[created]{true, created{row.ID, row.VersionID, row.Slug, "config",
		credentials.ConfigWarnings(configText(b.Config))}}, nil
}

// insert stores a new config.
func insert(ctx context.Context, c *route.Caller, row *store.Config, text credentials.StoredConfig) error {
	row.OwnerID, row.UpdatedBy, row.CreatedAt = c.Actor(), c.Actor(), c.Now
	v := newVersion(c, row, text)
	return c.Change(ctx, func(tx *store.Tx) error { return tx.CreateConfig(ctx, *row, *v) })
}

// newVersion returns a version of row with a text, and makes it the current one.
func newVersion(c *route.Caller, row *store.Config, text credentials.StoredConfig) *store.ConfigVersion {
	row.VersionID = c.NewID()
	return &store.ConfigVersion{ID: row.VersionID, Config: row.ID, Text: text.Text, Sealed: text.Sealed,
		CreatedBy: c.Actor(), CreatedAt: c.Now}
}

// Put stores row, which a file describes; without an id it is a new config. Text is its next
// version, nil for none.
func Put(ctx context.Context, c *route.Caller, row store.Config, text *credentials.StoredConfig) error {
	row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt)
	if row.ID == "" {
		row.ID = c.NewID()
		return insert(ctx, c, &row, *text)
	}
	row.UpdatedBy = c.Actor()
	var v *store.ConfigVersion
	if text != nil {
		v = newVersion(c, &row, *text)
	}
	return c.Change(ctx, func(tx *store.Tx) error { return write(ctx, c, tx, row, v) })
}

// configText returns the JSON text of a config given as an object or as a string.
func configText(raw route.JSON) []byte {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		return []byte(inner)
	}
	return bytes.TrimSpace(raw)
}

// Item is a config in a list.
type Item struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Slug         string     `json:"slug"`
	Organisation string     `json:"organisation_id"`
	Workspace    string     `json:"workspace_id"`
	IsDefault    int        `json:"is_default"`
	Status       string     `json:"status"`
	OwnerID      string     `json:"owner_id"`
	UpdatedBy    string     `json:"updated_by"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at"`
	ManagedBy    string     `json:"managed_by" doc:"api, or file if it is declared in the settings file"`
	Object       string     `json:"object"`
}

// place returns where a stored config is.
func place(c store.ConfigText) (id, workspace, slug string) { return c.ID, c.Workspace, c.Slug }

func toResponse(c store.Config) Item {
	out := Item{
		ID: c.ID, Name: c.Name, Slug: c.Slug, Organisation: c.Organisation, Workspace: c.Workspace, Status: c.Status,
		OwnerID: c.OwnerID, UpdatedBy: c.UpdatedBy, CreatedAt: route.Time(c.CreatedAt), UpdatedAt: route.Time(c.UpdatedAt),
		ManagedBy: route.ManagedBy(c.ID), Object: "config",
	}
	if c.IsDefault {
		out.IsDefault = 1
	}
	return out
}

type listInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	route.Selection
}

type listed struct {
	Success bool `json:"success"`
	route.List[Item]
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*listed, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Configs(ctx, c.Organisation, workspace, p)
	if err != nil {
		return nil, err
	}
	owned := slices.DeleteFunc(route.DeclaredIn(c.Files().Configs, workspace, place), func(row store.ConfigText) bool {
		return !strings.Contains(row.Name, p.Name) || p.Statuses != nil && !slices.Contains(p.Statuses, row.Status)
	})
	out := &listed{Success: true, List: *route.ListOf([]Item{}, total).AddDeclared(len(owned))}
	for _, row := range route.DeclaredOnPage(in.Page, owned) {
		out.Data = append(out.Data, toResponse(row.Config))
	}
	for _, row := range found {
		out.Data = append(out.Data, toResponse(row))
	}
	return out, nil
}

// Named identifies a config in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type Named struct {
	Config    string `path:"config" maxLength:"255" doc:"Id or slug"`
	Workspace string `query:"workspace_id" maxLength:"255"`
}

type getInput struct {
	Named
	Format string `query:"format" enum:"string,object" default:"string" doc:"How the config's text is shown"`
}

type full struct {
	Item
	Config    route.JSON `json:"config"`
	Format    string     `json:"format"`
	Type      string     `json:"type"`
	VersionID string     `json:"version_id"`
}

func get(ctx context.Context, c *route.Caller, in *getInput) (*changeResponse[full], error) {
	row, v, err := findVersion(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	out := full{Item: toResponse(row), Config: route.JSON(v.Text), Format: "json", Type: "ORG_CONFIG", VersionID: v.ID}
	if in.Format == "string" {
		out.Config, err = json.Marshal(v.Text)
	}
	return &changeResponse[full]{true, out}, err
}

// text returns the current text of a config, with its credentials masked.
func text(ctx context.Context, c *route.Caller, row store.Config) (store.ConfigVersion, error) {
	if owned, ok := route.FindDeclared(c.Files().Configs, "", row.ID, place); ok {
		hidden, _, err := store.HideConfig(owned.Text)
		return store.ConfigVersion{ID: owned.VersionID, Text: hidden}, err
	}
	return c.DB().ConfigVersion(ctx, row.VersionID)
}

// findVersion returns the config and the version that a request names, as in pc-x@3.
func findVersion(ctx context.Context, c *route.Caller, in Named) (row store.Config, v store.ConfigVersion, err error) {
	var number int64
	if in.Config, number, err = route.SplitVersion("config", in.Config); err != nil {
		return row, v, err
	}
	if row, err = find(ctx, c, in); err != nil {
		return row, v, err
	}
	if number == 0 {
		v, err = text(ctx, c, row)
		return row, v, err
	}
	v, err = route.ConfigVersion(ctx, c.DB(), "config", row, number)
	return row, v, err
}

type rollbackInput struct {
	Named
	Body struct {
		Version int64 `json:"version" minimum:"1" doc:"Number of the version whose text becomes current"`
	}
}

// rollback makes the text and the credentials of an earlier version current.
func rollback(ctx context.Context, c *route.Caller, in *rollbackInput) (*changeResponse[changed], error) {
	in.Config = fmt.Sprintf("%s@%d", in.Config, in.Body.Version)
	row, v, err := findVersion(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	row.VersionID = c.NewID()
	v.ID, v.CreatedBy, v.CreatedAt = row.VersionID, c.Actor(), c.Now
	if err := change(ctx, c, row, &v); err != nil {
		return nil, err
	}
	return &changeResponse[changed]{true, changed{VersionID: row.VersionID}}, nil
}

// find returns the config that a request names if the caller may see it.
func find(ctx context.Context, c *route.Caller, in Named) (store.Config, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.Config{}, err
	}
	if owned, ok := route.FindDeclared(c.Files().Configs, workspace, in.Config, place); ok {
		c.SetAuditSubject(owned.Workspace, owned.ID)
		return owned.Config, c.RefuseFileManaged(owned.ID, "config", owned.Slug)
	}
	row, err := c.DB().Config(ctx, c.Organisation, workspace, in.Config)
	return row, c.CheckFound(row.Workspace, row.ID, err, route.NotFound("config", "config", in.Config))
}

type updateInput struct {
	Named
	Body struct {
		Name   route.Optional[string]     `json:"name,omitempty"`
		Config route.Optional[route.JSON] `json:"config,omitempty"`
		Status string                     `json:"status,omitempty" enum:"active,archived"`
	}
}

type changed struct {
	VersionID string   `json:"version_id"`
	Warnings  []string `json:"warnings,omitempty" doc:"What was left out of addresses in the request"`
}

func (s service) update(ctx context.Context, c *route.Caller, in *updateInput) (*changeResponse[changed], error) {
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	row.Name = b.Name.Or(row.Name)
	if err := route.CheckLength("name", row.Name, 1, 255); err != nil {
		return nil, err
	}
	if b.Status != "" {
		row.Status = b.Status
	}
	var version *store.ConfigVersion
	var warnings []string
	if b.Config.Set {
		warnings = credentials.ConfigWarnings(configText(b.Config.Value))
		before, err := text(ctx, c, row)
		if err != nil {
			return nil, err
		}
		stored, err := s.credentials.SealConfig(ctx, row.Organisation, configText(b.Config.Value),
			credentials.StoredConfig{Text: before.Text, Sealed: before.Sealed})
		if err != nil {
			return nil, err
		}
		version = newVersion(c, &row, stored)
	}
	if err := change(ctx, c, row, version); err != nil {
		return nil, err
	}
	return &changeResponse[changed]{true, changed{row.VersionID, warnings}}, nil
}

// change stores the changed config, or returns a conflict if it was changed after the
// request read it.
func change(ctx context.Context, c *route.Caller, row store.Config, version *store.ConfigVersion) error {
	read := row.UpdatedAt
	row.UpdatedBy, row.UpdatedAt = c.Actor(), c.NextUpdateTime(read)
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Config(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		return write(ctx, c, tx, row, version)
	})
}

// write stores a changed config, and its new version if there is one.
func write(ctx context.Context, c *route.Caller, tx *store.Tx, row store.Config, version *store.ConfigVersion) error {
	if version != nil {
		if err := checkFixed(ctx, c, tx, row); err != nil {
			return err
		}
	}
	return tx.UpdateConfig(ctx, row, version)
}

func archive(ctx context.Context, c *route.Caller, in *Named) (*route.Empty, error) {
	row, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	if row.IsDefault {
		return nil, apierr.New(apierr.Conflict, "config %q is the default of its workspace; set another default first", row.Slug)
	}
	row.Status = store.Archived
	return &route.Empty{}, change(ctx, c, row, nil)
}

type version struct {
	ID        string     `json:"id"`
	ConfigID  string     `json:"config_id"`
	Version   int64      `json:"version"`
	Config    string     `json:"config"`
	CreatedBy string     `json:"created_by"`
	CreatedAt route.Time `json:"created_at"`
	Object    string     `json:"object"`
}

type versionsInput struct {
	Named
	route.LongPaging
}

func versions(ctx context.Context, c *route.Caller, in *versionsInput) (*route.List[version], error) {
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	found, err := c.DB().ConfigVersions(ctx, row.ID)
	return route.PageOf(found, in.LongPaging, err, func(v store.ConfigVersion) version {
		return version{v.ID, v.Config, v.Number, v.Text, v.CreatedBy, route.Time(v.CreatedAt), "config_version"}
	})
}
