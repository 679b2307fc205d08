package keys

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Issuable returns the service key with an id, if the caller may issue further
// secrets of it: they may rotate it, and do not use a short-lived key, from which no lasting right may
// follow.
func Issuable(ctx context.Context, c *route.Caller, q store.Queries, id string) (store.Key, error) {
	k, err := find(ctx, c, q, Named{Key: id}, "rotate")
	if err == nil {
		err = checkLasting(c, k.Type)
	}
	switch {
	case err != nil:
		return k, err
	case k.Type != access.WorkspaceService && k.Type != access.OrganisationService:
		return k, route.Invalid("api_key_id", "must be a service key; this one belongs to a user")
	}
	if err := checkProtected(c, &k); err != nil {
		return k, err
	}
	return k, checkRotatable(ctx, c, q, k)
}

// checkLasting returns an error for a caller who must not give lasting rights: one with a
// short-lived key, and for a key of the organisation, which can do what needs a recent
// sign-in, one whose session is not fresh.
func checkLasting(c *route.Caller, t access.KeyType) error {
	if c.Workload == "" && t != access.OrganisationService {
		return nil
	}
	return c.CheckFresh()
}

// checkHasSecret returns an error for a key that never has a secret of its own.
func checkHasSecret(k *store.Key) error {
	if k.Mask != "" {
		return nil
	}
	return apierr.New(apierr.Conflict, "the key was created without a secret and has only short-lived ones, of its workload identities; create another key")
}
