// Package workspaces implements the control plane's routes for workspaces and their
// members.
//
// It guarantees that a workspace is archived but never deleted, that a workspace with
// content is not archived by accident, and that no caller grants a role above their
// own. It does not stop the keys of an archived workspace, which is the job of the
// snapshot.
package workspaces

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Add adds the routes of workspaces.
func Add(a *route.API) {
	f := route.Family{Path: "/admin/workspaces", Also: "/workspaces", Tag: "Workspaces",
		Scopes: []string{"workspaces"}, Resource: "workspace", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-workspace", "create", "Create a workspace"), create)
	route.Add(a, f.Route(http.MethodGet, "", "list-workspaces", "list", "List workspaces"), list)
	route.Add(a, f.Route(http.MethodGet, "/{workspace}", "get-workspace", "read", "Read a workspace with its members"), get)
	route.Add(a, f.Route(http.MethodPut, "/{workspace}", "update-workspace", "update", "Change a workspace"), update)
	route.Add(a, f.Route(http.MethodDelete, "/{workspace}", "delete-workspace", "delete", "Archive a workspace"), archive)
	f.AddRestore(a, store.RestoreWorkspace, nil)
	addMembers(a)
}

// Defaults apply to requests of a workspace that do not set their own values.
type Defaults struct {
	Metadata         map[string]string `json:"metadata,omitempty"`
	InputGuardrails  []string          `json:"input_guardrails,omitempty" maxItems:"100" doc:"Ids or slugs of guardrails of the workspace or the organisation, for every request; stored as ids. They are added to those of the organisation"`
	OutputGuardrails []string          `json:"output_guardrails,omitempty" maxItems:"100" doc:"The same for responses"`
	UserKeys         route.JSON        `json:"user_api_key_config,omitempty"`
}

type createInput struct {
	Body struct {
		Name        string               `json:"name" minLength:"1" maxLength:"255"`
		Description string               `json:"description,omitempty" maxLength:"1024"`
		Icon        string               `json:"icon,omitempty" maxLength:"255"`
		Defaults    Defaults             `json:"defaults,omitempty"`
		Users       []string             `json:"users,omitempty" maxItems:"1000" doc:"Ids or e-mail addresses of users of the organisation, who become members"`
		UsageLimits []limits.BudgetInput `json:"usage_limits,omitempty" maxItems:"10"`
		RateLimits  limits.Rates         `json:"rate_limits,omitempty" maxItems:"11" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
		Settings    map[string]any       `json:"settings,omitempty"`
		Tools       []string             `json:"tools,omitempty" nullable:"true" maxItems:"500" maxLength:"512" doc:"What its keys may use of MCP servers, as patterns such as github/tool/create_*; null for all, empty for nothing"`
	}
}

func create(ctx context.Context, c *route.Caller, in *createInput) (*full, error) {
	b := &in.Body
	w := store.Workspace{
		ID: c.NewID(), Organisation: c.Organisation, Slug: route.NewSlug("ws", b.Name), Name: b.Name, Icon: b.Icon, Description: b.Description,
		Tools: b.Tools, Status: store.Active, CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	err := errors.Join(limits.CheckTools("tools", b.Tools), setDefaults(ctx, c, &w, b.Defaults), changeSettings(ctx, c, &w, b.Settings),
		setUsage(&w, b.UsageLimits, c), setRates(&w, b.RateLimits))
	if err != nil {
		return nil, clientError(err)
	}
	var people []store.User
	for _, ref := range b.Users {
		u, err := person(ctx, c, "users", ref)
		if err != nil {
			return nil, err
		}
		people = append(people, u)
	}
	c.SetAuditSubject(w.ID, w.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := tx.CreateWorkspace(ctx, w); err != nil {
			return err
		}
		if err := checkLimits(ctx, c, tx, &store.Workspace{}, &w); err != nil {
			return err
		}
		if err := budgets.Refresh(ctx, tx, store.WorkspaceBudget, w.ID); err != nil {
			return err
		}
		for _, u := range people {
			if err := tx.SetWorkspaceMember(ctx, w.ID, u.ID, access.Member, c.Now); err != nil {
				return err
			}
		}
		folder := store.PromptCollection{ID: c.NewID(), Slug: route.NewSlug("co", "default"), CreatedAt: c.Now}
		if err := tx.CreateDefaultPromptCollection(ctx, w, folder); err != nil {
			return err
		}
		if err := route.CheckGuardDefaults(ctx, tx.Queries, c.Guardrails(), w.Organisation); err != nil {
			return err
		}
		return credentials.GrantDefaults(ctx, tx, c, w)
	})
	if err != nil {
		return nil, err
	}
	return withMembers(ctx, c, w)
}

// clientError returns the first of several joined errors that a client may see.
func clientError(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok {
		return e
	}
	return err
}

// person returns the user of the caller's organisation that a field names.
func person(ctx context.Context, c *route.Caller, field, ref string) (store.User, error) {
	u, err := c.DB().User(ctx, c.Organisation, access.UserName(ref))
	if apierr.IsNotFound(err) {
		return u, route.Missing(field, "user", ref)
	}
	return u, err
}

func setDefaults(ctx context.Context, c *route.Caller, w *store.Workspace, d Defaults) error {
	for name, value := range d.Metadata {
		if len(name) > 128 || len([]rune(value)) > 512 {
			return route.Invalid("defaults.metadata", "must have names of at most 128 and values of at most 512 characters")
		}
	}
	for _, g := range []struct {
		field string
		list  *[]string
	}{{"defaults.input_guardrails", &d.InputGuardrails}, {"defaults.output_guardrails", &d.OutputGuardrails}} {
		ids, err := route.ResolveGuardrails(ctx, c.DB(), *w, g.field, *g.list)
		if err != nil {
			return err
		}
		*g.list = ids
	}
	raw, err := json.Marshal(d)
	w.Defaults = raw
	return err
}

// settingNames are the settings of a workspace, with a check of each value.
var settingNames = map[string]func(any) bool{
	"debug_log":                  isBool,
	"user_api_key_ttl":           isNumber,
	"user_api_key_max_ttl":       isNumber,
	"user_api_key_count":         isNumber,
	"user_key_metadata":          isObject,
	"user_key_metadata_override": isBool,
	requestLogging:               isLevel,
	egressPolicy:                 isPolicy,
}

func isBool(v any) bool   { _, ok := v.(bool); return ok }
func isNumber(v any) bool { _, ok := v.(float64); return ok }
func isObject(v any) bool { _, ok := v.(map[string]any); return ok }

func isLevel(v any) bool {
	name, ok := v.(string)
	return ok && access.ParseLogLevel(name) != access.LogInherit
}

func setSettings(w *store.Workspace, given map[string]any) error {
	for name, value := range given {
		fits, known := settingNames[name]
		if !known {
			return route.Invalid("settings."+name, "is not a setting")
		}
		if value != nil && !fits(value) {
			return route.Invalid("settings."+name, "has the wrong type")
		}
	}
	policy, err := givenEgress(given)
	if err != nil {
		return err
	}
	if given = maps.Clone(given); given == nil {
		given = map[string]any{}
	}
	if delete(given, egressPolicy); policy != nil {
		given[egressPolicy] = policy
	}
	raw, err := json.Marshal(given)
	w.Settings = raw
	return err
}

// changeSettings changes the settings of w that a request names.
func changeSettings(ctx context.Context, c *route.Caller, w *store.Workspace, given map[string]any) error {
	before := w.Settings
	if err := setSettings(w, given); err != nil {
		return err
	}
	o, err := c.DB().Organisation(ctx, w.Organisation)
	if err != nil {
		return err
	}
	return CheckOverridden(w.Settings, before, &o.Settings)
}

func setUsage(w *store.Workspace, in []limits.BudgetInput, c *route.Caller) error {
	old, err := limits.ReadUsages(w.UsageLimits)
	if err != nil {
		return err
	}
	list, err := limits.ApplyAll("usage_limits", in, old, c.Now)
	w.UsageLimits = list.JSON()
	return err
}

func setRates(w *store.Workspace, list limits.Rates) error {
	w.RateLimits = list.JSON()
	return list.Check("rate_limits")
}

type listInput struct {
	route.Paging
	Name      string `query:"name" maxLength:"255" doc:"Case-sensitive substring of the name"`
	ExactName string `query:"exact_name" maxLength:"255"`
	Status    string `query:"status" maxLength:"64" default:"active" doc:"active, archived, or both separated by a comma; archived ones are visible only to the organisation's owner and admins"`
}

func list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	q, err := query(ctx, c, in)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Workspaces(ctx, q, in.Rows())
	if err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	spent, err := c.DB().Spending(ctx, store.WorkspaceBudget, ids...)
	if err != nil {
		return nil, err
	}
	return route.ConvertList(found, total, func(w store.Workspace) (Item, error) { return toResponse(&w, spent[w.ID], &o.Settings) })
}

// query returns the filter for the workspaces that a request asks for and the caller
// may see.
func query(ctx context.Context, c *route.Caller, in *listInput) (store.WorkspaceQuery, error) {
	q := store.WorkspaceQuery{Organisation: c.Organisation, Name: in.Name, ExactName: in.ExactName}
	if !c.Allows(access.ScopeAll) {
		q.ID = c.Workspace
	}
	wide, err := c.Administers(ctx)
	if err != nil {
		return q, err
	}
	if !wide && c.IsPerson() {
		q.Member = c.UserID
	}
	for status := range strings.SplitSeq(in.Status, ",") {
		switch status = strings.TrimSpace(status); {
		case status == store.Archived && !wide:
			return q, apierr.New(apierr.Forbidden, "only the owner and admins of the organisation can list archived workspaces").WithCode("AB03")
		case status != store.Active && status != store.Archived:
			return q, route.Invalid("status", "must be active, archived or both, not %.40q", status)
		}
		if !slices.Contains(q.Statuses, status) {
			q.Statuses = append(q.Statuses, status)
		}
	}
	return q, nil
}
