package store

import "modelgate/internal/egress"

// KeyDefaults is what [Key.Defaults] holds.
type KeyDefaults struct {
	// Metadata is added to that of requests and wins over it.
	Metadata map[string]string `json:"metadata,omitempty"`

	// Config is the slug of the config for requests that bring none.
	Config string `json:"config_id,omitempty"`

	// ConfigFixed refuses requests that bring another config.
	ConfigFixed bool `json:"config_fixed,omitempty"`

	// Logging is how much is kept of exchanges: see [LoggingFull]. Empty says
	// nothing. Workspaces have it among their settings.
	Logging string `json:"request_logging,omitempty"`

	// Egress limits where requests go. Nil says nothing. Workspaces have it among
	// their settings.
	Egress *egress.Policy `json:"egress_policy,omitempty"`

	// AllowedAddresses are addresses and CIDRs; see [access.Identity].
	AllowedAddresses []string `json:"allowed_addresses,omitempty"`
}

// policies returns the egress policy as the only one, or none.
func (d *KeyDefaults) policies() []*egress.Policy {
	if p := d.Egress.Strict(); p != nil {
		return []*egress.Policy{p}
	}
	return nil
}
