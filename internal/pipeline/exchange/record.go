package exchange

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider"
	"modelgate/internal/records/reqlog"
)

// Attempt is a record of what was sent to a target, or would have been sent for a
// response that was stored or is shared.
type Attempt struct {
	Record reqlog.Attempt // for the log entry
	Target *provider.Target
	Model  string                // as sent to the provider
	Params []dialect.ParamChange // of the request's parameters
	Prompt reqlog.Prompt         // the saved prompt that produced the body; zero if none

	// Lenient is true if the response may exceed the client's dialect, and
	// NamesRequestedModel if it gives its model the requested name instead of the
	// provider's.
	Lenient, NamesRequestedModel bool
	// Paid is the cost of the attempt once it is settled.
	Paid SettledCost
}

// SettledCost is the cost of an attempt. Known is false if it is unknown.
type SettledCost struct {
	Cost  catalog.NanoDollars
	Known bool
}
