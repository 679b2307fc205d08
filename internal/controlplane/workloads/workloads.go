// Package workloads has the routes of workload identities, and exchanges tokens of their
// issuers for short-lived keys.
//
// It guarantees that whoever adds a workload identity may rotate its service key anyway, that
// short-lived keys count for the limits and budgets of that key, so that another exchange
// refills nothing, and that each exchange is in the audit log with its reason and without a
// token. How tokens are verified is in [modelgate/internal/identity/workload], how keys are
// written in access.
package workloads

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/workload"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

const tag = "Workload identities"

// DefaultTTL is the life of short-lived keys of workload identities that say none, in
// seconds.
const DefaultTTL = 15 * 60

// maxIdentities is the limit of workload identities of an organisation.
const maxIdentities = 200

// Routes are the routes of workload identities.
type Routes struct {
	// Verifier verifies tokens. If nil, none is exchanged.
	Verifier *workload.Verifier

	// Issue returns a short-lived key and its identity. Nil issues none.
	Issue func(g access.WorkloadGrant, now time.Time) (secret.String, *access.Identity, error)

	// IssuableKey returns a service key that the caller may rotate, and
	// ReadableKey one that they may read. Neither may be nil.
	IssuableKey func(ctx context.Context, c *route.Caller, q store.Queries, id string) (store.Key, error)
	ReadableKey func(ctx context.Context, c *route.Caller, id string) (store.Key, error)
}

type family struct {
	Routes
	api *route.API
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := &family{r, a}
	w := route.Family{
		Path: "/workload-identities", Tag: tag, Scopes: []string{"workspace_service_api_keys", "organisation_service_api_keys"},
		Resource: "workload_identity", Versioned: true,
	}
	const one = "/{workload_identity}"
	route.Add(a, w.Route(http.MethodPost, "", "create-workload-identity", "rotate", "Let workloads exchange tokens for short-lived keys"),
		f.create)
	route.Add(a, w.Route(http.MethodGet, "", "list-workload-identities", "list", "List workload identities"), f.list)
	route.Add(a, w.Route(http.MethodGet, one, "get-workload-identity", "read", "Read a workload identity"), f.get)
	route.Add(a, w.Route(http.MethodPut, one, "update-workload-identity", "rotate", "Change a workload identity"), f.update)
	route.Add(a, w.Route(http.MethodDelete, one, "delete-workload-identity", "rotate",
		"Delete a workload identity, with its short-lived keys"), f.remove)
	route.Add(a, w.Route(http.MethodPost, one+"/revoke", "revoke-workload-keys", "rotate",
		"Revoke all short-lived keys of a workload identity"), f.revoke)
}

// Fields are the fields of a workload identity that requests and responses have in common.
type Fields struct {
	Issuer      string              `json:"issuer,omitempty" maxLength:"2048" doc:"iss of tokens, exactly. Default for github-actions and gcp"`
	KeysURL     string              `json:"jwks_url,omitempty" maxLength:"2048" doc:"Address of the issuer's keys. Default: as its discovery document says"`
	KeySet      string              `json:"jwks,omitempty" maxLength:"262144" doc:"The issuer's keys as text of a JSON Web Key Set, if the gateway cannot fetch them"`
	TrustDomain string              `json:"trust_domain,omitempty" maxLength:"255" doc:"Of spiffe"`
	Audience    string              `json:"audience,omitempty" maxLength:"512" doc:"The only aud of tokens. Default: the gateway's public address"`
	Claims      map[string][]string `json:"claims,omitempty" maxProperties:"20" doc:"Values of claims, one of which each must match; * stands for one or more characters up to the next / : @ or |"`
	TTL         int64               `json:"ttl,omitempty" minimum:"60" maximum:"3600" doc:"Life of a short-lived key, in seconds. Default 900"`
}

// Entry is a workload identity as a request that creates one or a file describes it.
type Entry struct {
	Name   string `json:"name" minLength:"1" maxLength:"255"`
	Slug   string `json:"slug,omitempty" minLength:"1" maxLength:"64" pattern:"^[a-zA-Z0-9_-]+$"`
	Type   string `json:"type" enum:"oidc,github-actions,kubernetes,gcp,aws,entra,spiffe" doc:"Kind of the issuer"`
	Key    string `json:"api_key_id" minLength:"1" maxLength:"255" doc:"Service key whose rights and limits the short-lived keys have"`
	Status string `json:"status,omitempty" enum:"active,disabled" default:"active"`
	Fields
}

type createInput struct{ Body Entry }

// Item is a workload identity in a response.
type Item struct {
	ID        string     `json:"id" doc:"client_id of exchanges"`
	Object    string     `json:"object"`
	Slug      string     `json:"slug"`
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Key       string     `json:"api_key_id"`
	Status    string     `json:"status"`
	Endpoint  string     `json:"token_endpoint" doc:"Where tokens are exchanged"`
	CreatedBy string     `json:"created_by"`
	CreatedAt route.Time `json:"created_at"`
	UpdatedAt route.Time `json:"last_updated_at"`
	Fields
}

func toResponse(c *route.Caller) func(store.WorkloadIdentity) Item {
	return func(w store.WorkloadIdentity) Item {
		t := w.Trust
		return Item{
			ID: w.ID, Object: "workload_identity", Slug: w.Slug, Name: w.Name, Type: t.Type, Key: w.Key, Status: w.Status,
			Endpoint: c.AbsoluteLink("/oauth/token"), CreatedBy: w.CreatedBy, CreatedAt: route.Time(w.CreatedAt), UpdatedAt: route.Time(w.UpdatedAt),
			Fields: Fields{t.Issuer, t.KeysURL, t.KeySet, t.TrustDomain, t.Audience, t.Claims, w.TTL},
		}
	}
}

func (f *family) create(ctx context.Context, c *route.Caller, in *createInput) (*Item, error) {
	b := &in.Body
	if _, err := f.IssuableKey(ctx, c, c.DB(), b.Key); err != nil {
		return nil, withKeyField(err)
	}
	w := store.WorkloadIdentity{
		ID: c.NewID(), Organisation: c.Organisation, Key: b.Key, Slug: b.Slug, Name: b.Name, Status: b.Status,
		CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if w.Slug == "" {
		w.Slug = route.NewSlug("wi", b.Name)
	}
	if w.Status == "" {
		w.Status = store.Active
	}
	if err := set(f.api, c.Link(""), &w, b.Type, b.Fields); err != nil {
		return nil, err
	}
	if err := sign(ctx, f.api, &w); err != nil {
		return nil, err
	}
	return route.ItemOf(w, f.insert(ctx, c, &w), toResponse(c))
}

// insert stores a new workload identity.
func (f *family) insert(ctx context.Context, c *route.Caller, w *store.WorkloadIdentity) error {
	err := c.Change(ctx, func(tx *store.Tx) error {
		k, err := f.IssuableKey(ctx, c, tx.Queries, w.Key)
		if err != nil {
			return withKeyField(err)
		}
		c.SetAuditSubject(k.Workspace, w.ID)
		all, err := tx.WorkloadIdentities(ctx, c.Organisation)
		if err == nil && len(all) >= maxIdentities {
			err = apierr.New(apierr.Invalid, "an organisation can have %d workload identities; delete one first", maxIdentities)
		}
		if err != nil {
			return err
		}
		return tx.CreateWorkloadIdentity(ctx, *w)
	})
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict && e.Param == "" {
		err = apierr.New(apierr.Conflict, "workload identity %q already exists; choose another slug", w.Slug).WithParam("slug")
	}
	return err
}

// withKeyField names the field of the service key in the error of finding it.
func withKeyField(err error) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Param == "id" {
		return e.WithParam("api_key_id").WithCode("AB02")
	}
	return err
}

// set checks fields and stores them in w. Public is the public address of the gateway, empty if
// none is configured.
func set(a *route.API, public string, w *store.WorkloadIdentity, kind string, in Fields) error {
	t := workload.Trust{
		Type: kind, Issuer: in.Issuer, KeysURL: in.KeysURL, KeySet: in.KeySet, TrustDomain: in.TrustDomain, Audience: in.Audience,
		Claims: in.Claims,
	}
	if t.Audience == "" && public != "" {
		t.Audience = public
	} else if t.Audience == "" {
		return route.Invalid("audience", "is required, because public_url is not set: an address that tokens for this gateway have as aud")
	}
	if err := t.Check(); err != nil {
		if bad, ok := errors.AsType[*workload.FieldError](err); ok {
			return route.Invalid(bad.Field, "%s", bad.Problem)
		}
		return err
	}
	check := a.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	field, address := "jwks_url", t.KeysURL
	if address == "" && t.KeySet == "" {
		field, address = "issuer", t.Issuer
	}
	if address != "" { // what is requested; an issuer whose keys are known need not be reachable
		if _, err := check(address); err != nil {
			return route.Invalid(field, "is not allowed: %s", err.Error())
		}
		u, err := url.Parse(address)
		if err == nil {
			err = a.CheckEgress(w.Organisation, u)
		}
		if err != nil {
			return route.Invalid(field, "is not allowed: %s", apierr.From(err).Message)
		}
	}
	w.Trust, w.TTL = t, in.TTL
	if w.TTL == 0 {
		w.TTL = DefaultTTL
	}
	return nil
}

// sign gives w a new signing secret, which ends all keys that were signed with another.
func sign(ctx context.Context, a *route.API, w *store.WorkloadIdentity) (err error) {
	if a.Secrets == nil {
		return apierr.New(apierr.Unavailable, "workload identities need a master key: their keys are signed with a sealed secret")
	}
	w.Sealed, err = a.Secrets.Seal(ctx, w.Organisation, access.NewSigningSecret())
	return err
}

type listInput struct{ route.NamedPaging }

// list lists the workload identities of the keys that the caller may read.
func (f *family) list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	all, err := c.DB().WorkloadIdentities(ctx, c.Organisation)
	var visible []store.WorkloadIdentity
	for _, w := range all {
		if !strings.Contains(w.Name, in.Name) {
			continue
		}
		if _, hidden := f.ReadableKey(ctx, c, w.Key); hidden == nil {
			visible = append(visible, w)
		}
	}
	return route.Listing(route.Cut(visible, in.Page, in.Size), len(visible), err, toResponse(c))
}

type oneInput struct {
	Workload string `path:"workload_identity" maxLength:"255" doc:"Id or slug"`
}

// find returns the workload identity of a request, if the caller may read its key.
func (f *family) find(ctx context.Context, c *route.Caller, ref string) (store.WorkloadIdentity, error) {
	none := route.NotFound("workload_identity", "workload identity", ref)
	w, err := c.DB().WorkloadIdentity(ctx, c.Organisation, ref)
	if err != nil {
		return w, c.CheckFound("", "", err, none)
	}
	k, err := f.ReadableKey(ctx, c, w.Key)
	return w, c.CheckFound(k.Workspace, w.ID, err, none)
}

func (f *family) get(ctx context.Context, c *route.Caller, in *oneInput) (*Item, error) {
	w, err := f.find(ctx, c, in.Workload)
	return route.ItemOf(w, err, toResponse(c))
}

type updateInput struct {
	Workload string `path:"workload_identity" maxLength:"255" doc:"Id or slug"`
	Body     struct {
		Name        route.Optional[string]              `json:"name,omitempty"`
		Status      string                              `json:"status,omitempty" enum:"active,disabled" doc:"disabled also ends the short-lived keys"`
		Issuer      route.Optional[string]              `json:"issuer,omitempty" maxLength:"2048"`
		KeysURL     route.Optional[string]              `json:"jwks_url,omitempty" maxLength:"2048"`
		KeySet      route.Optional[string]              `json:"jwks,omitempty" maxLength:"262144"`
		TrustDomain route.Optional[string]              `json:"trust_domain,omitempty" maxLength:"255"`
		Audience    route.Optional[string]              `json:"audience,omitempty" maxLength:"512"`
		Claims      route.Optional[map[string][]string] `json:"claims,omitempty" maxProperties:"20"`
		TTL         route.Optional[int64]               `json:"ttl,omitempty" minimum:"60" maximum:"3600"`
	}
}

func (f *family) update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	return f.change(ctx, c, in.Workload, func(w *store.WorkloadIdentity) error {
		b, t, before := &in.Body, w.Trust, *w
		w.Name = b.Name.Or(w.Name)
		if err := route.CheckLength("name", w.Name, 1, 255); err != nil {
			return err
		}
		if b.Status != "" {
			w.Status = b.Status
		}
		err := set(f.api, c.Link(""), w, t.Type, Fields{
			Issuer: b.Issuer.Or(t.Issuer), KeysURL: b.KeysURL.Or(t.KeysURL), KeySet: b.KeySet.Or(t.KeySet),
			TrustDomain: b.TrustDomain.Or(t.TrustDomain), Audience: b.Audience.Or(t.Audience), Claims: b.Claims.Or(t.Claims), TTL: b.TTL.Or(w.TTL),
		})
		if err != nil {
			return err
		}
		return signAgain(ctx, f.api, &before, w)
	})
}

// signAgain gives w a new secret if the keys of before must end.
func signAgain(ctx context.Context, a *route.API, before, w *store.WorkloadIdentity) error {
	if w.Status == before.Status && w.Key == before.Key && w.Trust.Equal(&before.Trust) {
		return nil
	}
	return sign(ctx, a, w)
}

type revokeInput struct {
	Workload string `path:"workload_identity" maxLength:"255" doc:"Id or slug"`
}

func (f *family) revoke(ctx context.Context, c *route.Caller, in *revokeInput) (*route.Empty, error) {
	return f.change(ctx, c, in.Workload, func(w *store.WorkloadIdentity) error { return sign(ctx, f.api, w) })
}

// change changes a workload identity, unless it was changed after the request read it.
func (f *family) change(ctx context.Context, c *route.Caller, ref string,
	apply func(*store.WorkloadIdentity) error) (*route.Empty, error) {
	w, err := f.find(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	read := w.UpdatedAt
	if err := apply(&w); err != nil {
		return nil, err
	}
	w.UpdatedAt = c.NextUpdateTime(read)
	return &route.Empty{}, f.write(ctx, c, w, read, func(tx *store.Tx) error { return tx.UpdateWorkloadIdentity(ctx, w) })
}

func (f *family) remove(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	w, err := f.find(ctx, c, in.Workload)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, f.write(ctx, c, w, w.UpdatedAt, func(tx *store.Tx) error { return tx.DeleteWorkloadIdentity(ctx, w.ID) })
}

// write runs write if the caller may rotate the service key, and the row is
// still the one that was read.
func (f *family) write(ctx context.Context, c *route.Caller, w store.WorkloadIdentity, read time.Time, write func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.WorkloadIdentity(ctx, c.Organisation, w.ID)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		k, err := f.IssuableKey(ctx, c, tx.Queries, w.Key)
		if err != nil {
			return withKeyField(err)
		}
		c.SetAuditSubject(k.Workspace, w.ID)
		return write(tx)
	})
}

// said is the description for everybody whose token was refused, whatever the reason.
const said = "the token was refused; the audit log of the organisation has the reason"

func words(scopes []access.Scope) string {
	list := make([]string, len(scopes))
	for i, s := range scopes {
		list[i] = string(s)
	}
	return strings.Join(list, " ")
}
