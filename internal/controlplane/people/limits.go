package people

import (
	"time"

	"modelgate/internal/store"
)

// AddressLimit returns the limit of failed sign-ins of a client's address, over all accounts. An
// attempt is counted before it is checked, and uncounted if it succeeds.
func AddressLimit(group string) store.AttemptLimit {
	return store.AttemptLimit{ID: LimitID("address", group), Free: 50, Wait: 30 * time.Second, MaxWait: 15 * time.Minute, Forget: time.Minute}
}

// FactorLimit returns the limit of wrong second factors of a member, from all addresses: only those
// who proved another factor can try.
func FactorLimit(organisation, user string) store.AttemptLimit {
	return store.AttemptLimit{ID: LimitID("factor", organisation, user), Free: 5, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Hour}
}
