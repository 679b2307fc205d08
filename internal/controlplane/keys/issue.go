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
	if err := checkLasting(c); err != nil {
		return store.Key{}, err
	}
	k, err := find(ctx, c, q, Named{Key: id}, "rotate")
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

// checkLasting returns an error for a caller with a short-lived key.
func checkLasting(c *route.Caller) error {
	if c.Workload == "" {
		return nil
	}
	return forbidden("a short-lived key of a workload identity cannot rotate keys or change workload identities")
}

// checkHasSecret returns an error for a key that never has a secret of its own.
func checkHasSecret(k *store.Key) error {
	if k.Mask != "" {
		return nil
	}
	return apierr.New(apierr.Conflict, "the key was created without a secret and has only short-lived ones, of its workload identities; create another key")
}
