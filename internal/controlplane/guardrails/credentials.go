package guardrails

import (
	"context"
	"errors"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// partners has the routes of credentials of partners.
type partners struct{ api *route.API }

func (p partners) keeper() *credentials.Manager { return credentials.New(p.api.Deps) }

func addCredentials(a *route.API) {
	p := partners{a}
	f := route.Family{Path: "/guardrail-credentials", Tag: "Guardrails", Scopes: []string{"guardrails", "organisation_guardrails"},
		Resource: "guardrail_credential", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-guardrail-credential", "create",
		"Store the credentials that checks send to a partner"), p.create)
	route.Add(a, f.Route(http.MethodGet, "", "list-guardrail-credentials", "list", "List the credentials of partners, masked"),
		listCredentials)
	route.Add(a, f.Route(http.MethodGet, "/{credential}", "get-guardrail-credential", "read",
		"Read the credentials of a partner, masked"), getCredential)
	route.Add(a, f.Route(http.MethodPut, "/{credential}", "update-guardrail-credential", "update",
		"Change or rotate the credentials of a partner"), p.update)
	route.Add(a, f.Route(http.MethodDelete, "/{credential}", "delete-guardrail-credential", "delete",
		"Delete the credentials of a partner"), deleteCredential)
}

type credentialInput struct {
	Body struct {
		Partner      string                       `json:"partner" minLength:"1" maxLength:"128" doc:"A family of checks, such as azure, or one check, such as azure.pii, whose credentials take precedence over those of the family"`
		Workspace    string                       `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug"`
		Organisation string                       `json:"organisation_id,omitempty" maxLength:"255" doc:"Id or slug; stores credentials for all of the organisation"`
		Credentials  map[string]*string           `json:"credentials,omitempty" maxProperties:"32" doc:"By name; see GET /guardrails/checks"`
		Mappings     []credentials.PartnerMapping `json:"secret_mappings,omitempty" maxItems:"32" doc:"Credentials that are read from secret references"`
	}
}

// Credential is the stored credentials of a partner.
type Credential struct {
	ID           string                `json:"id"`
	Partner      string                `json:"partner"`
	Organisation string                `json:"organisation_id"`
	Workspace    *string               `json:"workspace_id" doc:"null for credentials of the organisation"`
	Credentials  map[string]string     `json:"credentials" doc:"Masks, by name"`
	Mappings     []store.SecretMapping `json:"secret_mappings"`
	CreatedBy    string                `json:"created_by"`
	UpdatedBy    string                `json:"updated_by"`
	CreatedAt    route.Time            `json:"created_at"`
	UpdatedAt    route.Time            `json:"last_updated_at"`
}

func toCredential(c store.GuardrailCredential) Credential {
	out := Credential{
		ID: c.ID, Partner: c.Partner, Organisation: c.Organisation, Workspace: route.OrNull(c.Workspace),
		Credentials: c.Masks, Mappings: c.Mappings,
		CreatedBy: c.CreatedBy, UpdatedBy: c.UpdatedBy, CreatedAt: route.Time(c.CreatedAt), UpdatedAt: route.Time(c.UpdatedAt),
	}
	if out.Credentials == nil {
		out.Credentials = map[string]string{}
	}
	if out.Mappings == nil {
		out.Mappings = []store.SecretMapping{}
	}
	return out
}

func (p partners) create(ctx context.Context, c *route.Caller, in *credentialInput) (*Credential, error) {
	b := &in.Body
	workspace, err := place(ctx, c, b.Workspace, b.Organisation)
	if err != nil {
		return nil, err
	}
	row := store.GuardrailCredential{
		ID: c.NewID(), Organisation: c.Organisation, Workspace: workspace, Partner: b.Partner,
		CreatedBy: c.Actor(), UpdatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	c.SetAuditSubject(workspace, row.ID)
	check, err := p.apply(ctx, c, &row, b.Credentials, b.Mappings)
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := check(ctx, tx.Queries); err != nil {
			return err
		}
		return tx.CreateGuardrailCredential(ctx, row)
	})
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict && e.Param == "" {
		return nil, apierr.New(apierr.Conflict, "credentials of the partner %q already exist there; change them",
			row.Partner).WithParam("partner")
	}
	return route.ItemOf(row, err, toCredential)
}

// PutCredential stores row, which a file describes, instead of before; nil is for new
// credentials. Check is what [credentials.Manager.ApplyPartner] returned.
func PutCredential(ctx context.Context, c *route.Caller, before *store.GuardrailCredential, row store.GuardrailCredential,
	check func(context.Context, store.Queries) error) error {
	write := (*store.Tx).UpdateGuardrailCredential
	if row.UpdatedBy, row.UpdatedAt = c.Actor(), c.NextUpdateTime(row.UpdatedAt); before == nil {
		write, row.CreatedBy, row.CreatedAt = (*store.Tx).CreateGuardrailCredential, c.Actor(), c.Now
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := check(ctx, tx.Queries); err != nil {
			return err
		}
		return write(tx, ctx, row)
	})
}

// apply changes the credentials and mappings of row, see [credentials.Manager.ApplyPartner].
// Nil mappings keep those stored.
func (p partners) apply(ctx context.Context, c *route.Caller, row *store.GuardrailCredential,
	values map[string]*string, list []credentials.PartnerMapping) (check func(context.Context, store.Queries) error, err error) {
	in := credentials.PartnerInput{Path: "credentials.", Values: values}
	if list != nil {
		if in.Mappings, err = credentials.ResolvePartnerMappings(ctx, c.DB(), row, list); err != nil {
			return nil, err
		}
	}
	return p.keeper().ApplyPartner(ctx, row, in)
}

func listCredentials(ctx context.Context, c *route.Caller, in *visibleInput) (*route.List[Credential], error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().GuardrailCredentials(ctx, c.Organisation, workspace, in.Rows())
	return route.Listing(found, total, err, toCredential)
}

type oneCredential struct {
	Credential string `path:"credential" maxLength:"255" doc:"Id"`
}

func getCredential(ctx context.Context, c *route.Caller, in *oneCredential) (*Credential, error) {
	row, err := findCredential(ctx, c, in.Credential)
	return route.ItemOf(row, err, toCredential)
}

func findCredential(ctx context.Context, c *route.Caller, id string) (store.GuardrailCredential, error) {
	workspace, err := c.VisibleWorkspace(ctx, "")
	if err != nil {
		return store.GuardrailCredential{}, err
	}
	row, err := c.DB().GuardrailCredential(ctx, c.Organisation, workspace, id)
	return row, c.CheckFound(row.Workspace, row.ID, err, route.NotFound("credential", "guardrail credential", id))
}

// changeableCredential returns the credentials that a request names if the caller may
// change them.
func changeableCredential(ctx context.Context, c *route.Caller, id, verb string) (store.GuardrailCredential, error) {
	row, err := findCredential(ctx, c, id)
	if err == nil && row.Workspace == "" {
		err = checkOrganisationScope(c, verb)
	}
	return row, err
}

type changedCredential struct {
	Credential string `path:"credential" maxLength:"255" doc:"Id"`
	Body       struct {
		Credentials map[string]*string           `json:"credentials,omitempty" maxProperties:"32" doc:"Credentials to change; null removes a credential, and a mask keeps it"`
		Mappings    []credentials.PartnerMapping `json:"secret_mappings,omitempty" maxItems:"32" doc:"Replaces the mappings; an empty array removes them"`
	}
}

func (p partners) update(ctx context.Context, c *route.Caller, in *changedCredential) (*Credential, error) {
	row, err := changeableCredential(ctx, c, in.Credential, "update")
	if err != nil {
		return nil, err
	}
	read := row.UpdatedAt
	check, err := p.apply(ctx, c, &row, in.Body.Credentials, in.Body.Mappings)
	if err != nil {
		return nil, err
	}
	row.UpdatedBy, row.UpdatedAt = c.Actor(), c.NextUpdateTime(read)
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.GuardrailCredential(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		if err := check(ctx, tx.Queries); err != nil {
			return err
		}
		return tx.UpdateGuardrailCredential(ctx, row)
	})
	return route.ItemOf(row, err, toCredential)
}

func deleteCredential(ctx context.Context, c *route.Caller, in *oneCredential) (*route.Empty, error) {
	row, err := changeableCredential(ctx, c, in.Credential, "delete")
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, RemoveCredential(ctx, c, row)
}

// RemoveCredential removes the credentials of a partner.
func RemoveCredential(ctx context.Context, c *route.Caller, row store.GuardrailCredential) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.GuardrailCredential(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(row.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteGuardrailCredential(ctx, row.ID)
	})
}
