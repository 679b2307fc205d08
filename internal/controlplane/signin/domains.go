package signin

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// maxDomains is the limit of domains of an organisation.
const maxDomains = 100

func (f *family) addDomains(a *route.API) {
	d := route.Family{Path: "/domains", Tag: tag, Scopes: []string{"identity_providers"}, Resource: "domain", Versioned: true}
	const one = "/{domain}"
	route.Add(a, route.Fresh(d.Route(http.MethodPost, "", "create-domain", "create",
		"Add a domain of e-mail addresses, to prove that it is yours")), createDomain)
	route.Add(a, d.Route(http.MethodGet, "", "list-domains", "list", "List domains"), listDomains)
	route.Add(a, route.Fresh(d.Route(http.MethodPost, one+"/verify", "verify-domain", "update",
		"Look for the record that proves that a domain is yours")), f.verify)
	route.Add(a, route.Fresh(d.Route(http.MethodDelete, one, "delete-domain", "delete", "Remove a domain")), removeDomain)
}

// domainNames returns the names of domains in their stored form, each once.
func domainNames(named []string) ([]string, error) {
	var list []string
	for _, name := range named {
		d, err := domainName("domains", name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list, nil
}

// domainName returns the name of a domain in its stored form.
func domainName(field, text string) (string, error) {
	name, err := access.ParseDomain(text)
	if err != nil {
		return "", route.Invalid(field, "has %s", err.Error())
	}
	return name, nil
}

type domainItem struct {
	ID         string     `json:"id"`
	Object     string     `json:"object"`
	Name       string     `json:"name"`
	RecordName string     `json:"record_name" doc:"Name of the TXT record that proves that the domain is yours"`
	Record     string     `json:"record_value" doc:"Its value"`
	Verified   bool       `json:"verified"`
	VerifiedAt route.Time `json:"verified_at"`
	CreatedBy  string     `json:"created_by"`
	CreatedAt  route.Time `json:"created_at"`
	UpdatedAt  route.Time `json:"last_updated_at"`
}

// recordPrefix is before the domain in the name of the record, and before the challenge in
// its value.
const (
	recordPrefix    = "_modelgate."
	challengePrefix = "modelgate-domain="
)

func domainResponse(d store.Domain) domainItem {
	return domainItem{
		d.ID, "domain", d.Name, recordPrefix + d.Name, challengePrefix + d.Challenge, !d.VerifiedAt.IsZero(), route.Time(d.VerifiedAt),
		d.CreatedBy, route.Time(d.CreatedAt), route.Time(d.UpdatedAt),
	}
}

type createDomainInput struct {
	Body struct {
		Name string `json:"name" minLength:"3" maxLength:"253"`
	}
}

func createDomain(ctx context.Context, c *route.Caller, in *createDomainInput) (*domainItem, error) {
	name, err := domainName("name", in.Body.Name)
	if err != nil {
		return nil, err
	}
	d := store.Domain{ID: c.NewID(), Organisation: c.Organisation, Name: name, Challenge: rand.Text(), CreatedBy: c.Actor(),
		CreatedAt: c.Now, UpdatedAt: c.Now}
	c.SetAuditSubject("", d.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		_, n, err := tx.Domains(ctx, c.Organisation, store.Page{Size: 1})
		if err == nil && n >= maxDomains {
			err = apierr.New(apierr.Invalid, "an organisation can have %d domains; remove one first", maxDomains)
		}
		if err != nil {
			return err
		}
		return tx.CreateDomain(ctx, d)
	})
	return route.ItemOf(d, conflict(err, "name", "the domain %s already exists", name), domainResponse)
}

type listDomainsInput struct{ route.NamedPaging }

func listDomains(ctx context.Context, c *route.Caller, in *listDomainsInput) (*route.List[domainItem], error) {
	found, total, err := c.DB().Domains(ctx, c.Organisation, in.Rows())
	return route.Listing(found, total, err, domainResponse)
}

type domainInput struct {
	Domain string `path:"domain" maxLength:"255" doc:"Id or name"`
}

func findDomain(ctx context.Context, c *route.Caller, ref string) (store.Domain, error) {
	d, err := c.DB().Domain(ctx, c.Organisation, strings.ToLower(ref))
	return d, c.CheckFound("", d.ID, err, route.NotFound("domain", "domain", ref))
}

func (f *family) verify(ctx context.Context, c *route.Caller, in *domainInput) (*domainItem, error) {
	d, err := findDomain(ctx, c, in.Domain)
	if err != nil {
		return nil, err
	}
	if d.VerifiedAt.IsZero() {
		if err := f.checkRecord(ctx, d); err != nil {
			return nil, err
		}
		d.VerifiedAt = c.Now
	}
	err = c.Change(ctx, func(tx *store.Tx) error { return tx.VerifyDomain(ctx, d, c.Now) })
	return route.ItemOf(d, conflict(err, "domain", "%s cannot be verified here; ask the operator of the gateway", d.Name), domainResponse)
}

// checkRecord returns an error unless the record of a domain has the challenge.
func (f *family) checkRecord(ctx context.Context, d store.Domain) error {
	records, err := f.LookupTXT(ctx, recordPrefix+d.Name)
	if err == nil && slices.Contains(records, challengePrefix+d.Challenge) {
		return nil
	}
	found := "the name has none"
	if len(records) > 0 {
		found = "the name has others"
	}
	if err != nil {
		found = "looking it up failed"
	}
	return apierr.New(apierr.Conflict, "the TXT record %s with the value %s was not found: %s; a new record can take an hour to be seen",
		recordPrefix+d.Name, challengePrefix+d.Challenge, found).WithParam("domain").WithCause(err)
}

func removeDomain(ctx context.Context, c *route.Caller, in *domainInput) (*route.Empty, error) {
	d, err := findDomain(ctx, c, in.Domain)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Domain(ctx, c.Organisation, d.ID)
		if err := c.CheckIfMatch(d.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteDomain(ctx, d.ID)
	})
}

// CheckDirectoryEmail returns an error for an address that the directory of an organisation
// may not give to a user; see [store.Queries.DirectoryMayUse].
func CheckDirectoryEmail(ctx context.Context, q store.Queries, organisation, email string) error {
	_, domain, _ := strings.Cut(email, "@")
	ok, err := q.DirectoryMayUse(ctx, organisation, strings.ToLower(domain))
	if err == nil && !ok {
		err = apierr.New(apierr.Invalid, "the domain %.253s is not verified for this organisation; add it with POST /domains", domain).WithParam("userName")
	}
	return err
}
