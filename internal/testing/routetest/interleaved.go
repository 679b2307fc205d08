package routetest

import (
	"context"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
)

// Interleaved is a sealer during whose next call something else happens. It is not safe
// for concurrent use.
type Interleaved struct {
	route.Sealer
	Do *func() // nil does nothing; set to nil before it is called
}

// Seal calls what Do points to, once, and seals s.
func (m Interleaved) Seal(ctx context.Context, organisation string, s secret.String) (string, error) {
	if do := *m.Do; do != nil {
		*m.Do = nil
		do()
	}
	return m.Sealer.Seal(ctx, organisation, s)
}
