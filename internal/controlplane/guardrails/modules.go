package guardrails

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Limits of the modules of an organisation.
const (
	maxModules     = 50
	maxModuleBytes = 64 << 20
	maxModuleBody  = 12 << 20 // 8 MiB of code in base64
)

// addModules adds the routes of WebAssembly modules.
func (r Routes) addModules(a *route.API) {
	f := route.Family{Path: "/guardrail-modules", Tag: "Guardrails", Scopes: []string{"guardrails", "organisation_guardrails"},
		Resource: "guardrail_module", Versioned: true}
	upload := f.Route(http.MethodPost, "", "create-guardrail-module", "create", "Upload a WebAssembly module for checks of saved guardrails")
	upload.MaxBody, upload.Bulk = maxModuleBody, "code"
	route.Add(a, upload, r.uploadModule)
	route.Add(a, f.Route(http.MethodGet, "", "list-guardrail-modules", "list", "List WebAssembly modules"), listModules)
	route.Add(a, f.Route(http.MethodGet, "/{module}", "get-guardrail-module", "read",
		"Read what a WebAssembly module is, without its code"), getModule)
	route.Add(a, f.Route(http.MethodDelete, "/{module}", "delete-guardrail-module", "delete",
		"Delete a WebAssembly module that no guardrail uses"), r.deleteModule)
}

type uploadInput struct {
	Body struct {
		Name         string `json:"name" minLength:"1" maxLength:"255"`
		Slug         string `json:"slug,omitempty" minLength:"1" maxLength:"255" pattern:"^[a-zA-Z0-9_-]+$" doc:"Unique in the organisation; by default made from the name"`
		Workspace    string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug"`
		Organisation string `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug; uploads a module of the organisation"`
		Code         []byte `json:"code" doc:"The module, at most 8 MiB, in base64"`
	}
}

// Module describes a WebAssembly module.
type Module struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Slug         string     `json:"slug"`
	Organisation string     `json:"organisation_id"`
	Workspace    *string    `json:"workspace_id" doc:"null for a module of the organisation"`
	SHA256       string     `json:"sha256" doc:"Of the code, in hexadecimal"`
	Size         int64      `json:"size" doc:"Size of the code in bytes"`
	Exports      []string   `json:"exports" doc:"Exported functions, at most 100"`
	CreatedBy    string     `json:"created_by"`
	CreatedAt    route.Time `json:"created_at"`
	UpdatedAt    route.Time `json:"last_updated_at" doc:"Equals created_at: a module never changes"`
}

func toModule(m store.GuardrailModule) Module {
	return Module{
		ID: m.ID, Name: m.Name, Slug: m.Slug, Organisation: m.Organisation, Workspace: route.OrNull(m.Workspace), SHA256: m.SHA256, Size: m.Size,
		Exports: m.Exports, CreatedBy: m.CreatedBy, CreatedAt: route.Time(m.CreatedAt), UpdatedAt: route.Time(m.CreatedAt),
	}
}

func (r Routes) uploadModule(ctx context.Context, c *route.Caller, in *uploadInput) (*Module, error) {
	b := &in.Body
	workspace, err := place(ctx, c, b.Workspace, b.Organisation)
	if err != nil {
		return nil, err
	}
	exports, err := r.checkModule(c.Organisation, b.Code)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b.Code)
	m := store.GuardrailModule{
		ID: c.NewID(), Organisation: c.Organisation, Workspace: workspace, Slug: b.Slug, Name: b.Name, SHA256: hex.EncodeToString(sum[:]),
		Size: int64(len(b.Code)), Exports: exports, CreatedBy: c.Actor(), CreatedAt: c.Now,
	}
	if m.Slug == "" {
		m.Slug = route.NewSlug("md", b.Name)
	}
	c.SetAuditSubject(workspace, m.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		count, bytes, err := tx.GuardrailModuleTotals(ctx, m.Organisation)
		if err != nil {
			return err
		}
		if count >= maxModules || bytes+m.Size > maxModuleBytes {
			return apierr.New(apierr.Conflict, "an organisation can have %d modules and %d bytes of them; delete modules that no guardrail uses", maxModules, maxModuleBytes).WithParam("code")
		}
		return tx.CreateGuardrailModule(ctx, m, b.Code)
	})
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict && e.Param == "" {
		return nil, apierr.New(apierr.Conflict, "module slug %q already exists; choose another", m.Slug).WithParam("slug")
	}
	return route.ItemOf(m, err, toModule)
}

// checkModule returns the functions that a module exports. An error is an *apierr.Error.
func (r Routes) checkModule(organisation string, code []byte) ([]string, error) {
	if r.CheckModule == nil {
		return nil, apierr.New(apierr.Unavailable, "guardrails are disabled on this gateway")
	}
	exports, err := r.CheckModule(organisation, code)
	if err != nil {
		return nil, apierr.New(apierr.Invalid, "AB01: code %v", err).WithParam("code").WithCode("AB01")
	}
	return exports, nil
}

// removeModule removes what a module was compiled to. Its hash is in hexadecimal.
func (r Routes) removeModule(hash string) {
	var sum [sha256.Size]byte
	if _, err := hex.Decode(sum[:], []byte(hash)); err == nil && r.RemoveModule != nil {
		r.RemoveModule(sum)
	}
}

// visibleInput selects a page of the objects that the caller sees.
type visibleInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	route.Paging
}

type modulesInput struct {
	Workspace string `query:"workspace_id" maxLength:"255"`
	route.NamedPaging
}

func listModules(ctx context.Context, c *route.Caller, in *modulesInput) (*route.List[Module], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().GuardrailModules(ctx, c.Organisation, workspace, in.Rows())
	return route.Listing(found, total, err, toModule)
}

type moduleInput struct {
	Module string `path:"module" maxLength:"255" doc:"Id or slug"`
}

func getModule(ctx context.Context, c *route.Caller, in *moduleInput) (*Module, error) {
	m, err := findModule(ctx, c, in.Module)
	return route.ItemOf(m, err, toModule)
}

func findModule(ctx context.Context, c *route.Caller, ref string) (store.GuardrailModule, error) {
	workspace, err := c.VisibleWorkspace(ctx, "")
	if err != nil {
		return store.GuardrailModule{}, err
	}
	m, err := c.DB().GuardrailModule(ctx, c.Organisation, workspace, ref)
	return m, c.CheckFound(m.Workspace, m.ID, err, route.NotFound("module", "module", ref))
}

func (r Routes) deleteModule(ctx context.Context, c *route.Caller, in *moduleInput) (*route.Empty, error) {
	m, err := findModule(ctx, c, in.Module)
	if err == nil && m.Workspace == "" {
		err = checkOrganisationScope(c, "delete")
	}
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.GuardrailModule(ctx, m.Organisation, m.Workspace, m.ID)
		if err := c.CheckIfMatch(m.CreatedAt, now.CreatedAt, err); err != nil {
			return err
		}
		all, err := tx.AllGuardrails(ctx, m.Organisation)
		if err != nil {
			return err
		}
		for _, g := range all {
			if g.Status == store.Active && g.Uses(m) {
				return apierr.New(apierr.Conflict, "the module is used by the guardrail %s; change or archive it first", g.Slug).WithParam("module")
			}
		}
		return tx.DeleteGuardrailModule(ctx, m.ID)
	})
	if err == nil {
		r.removeModule(m.SHA256)
	}
	return &route.Empty{}, err
}
