package route

import (
	"context"

	"modelgate/internal/base/secret"
)

// Sealer seals secrets for storage. Its methods must not be called in a transaction
// because an organisation's first secret may need one.
type Sealer interface {
	// Seal returns s as a string that only Open, for the same organisation, can open.
	Seal(ctx context.Context, organisation string, s secret.String) (string, error)
	// Open returns the sealed secret. Its errors do not contain it.
	Open(ctx context.Context, organisation, sealed string) (secret.String, error)
}
