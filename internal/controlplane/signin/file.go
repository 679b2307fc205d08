package signin

import (
	"context"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Remove removes an identity provider that a file no longer has.
func (r Routes) Remove(ctx context.Context, a *route.API, c *route.Caller, p store.IdentityProvider) error {
	_, err := (&family{r, a}).remove(ctx, c, &oneInput{p.ID})
	return err
}

// PutDomain adds a domain that a file names. Nothing in a file proves that it is the
// organisation's.
func PutDomain(ctx context.Context, c *route.Caller, name string) error {
	in := new(createDomainInput)
	in.Body.Name = name
	_, err := createDomain(ctx, c, in)
	return err
}

// RemoveDomain removes a domain that a file no longer has.
func RemoveDomain(ctx context.Context, c *route.Caller, d store.Domain) error {
	_, err := removeDomain(ctx, c, &domainInput{d.ID})
	return err
}
