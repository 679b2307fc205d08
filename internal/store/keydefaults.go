package store

import (
	"modelgate/api"
	"modelgate/internal/base/egress"
)

// KeyDefaults is the content of [Key.Defaults].
type KeyDefaults struct {
	// Metadata is added to the metadata of requests and takes precedence.
	Metadata map[string]string `json:"metadata,omitempty"`

	// Config is the slug of the config of requests that name none.
	Config string `json:"config_id,omitempty"`

	// ConfigFixed rejects requests that name another config.
	ConfigFixed bool `json:"config_fixed,omitempty"`

	// Logging is the logging level; see [LoggingFull]. Empty sets none. Workspaces have
	// it in their settings.
	Logging string `json:"request_logging,omitempty"`

	// ResponseModel says which name responses give their model. Empty sets none.
	ResponseModel api.ResponseModel `json:"response_model,omitempty"`

	// Egress limits the destinations of requests. Nil sets no limit. Workspaces have it
	// in their settings.
	Egress *egress.Policy `json:"egress_policy,omitempty"`

	// AllowedAddresses are addresses and CIDRs; see [access.Identity].
	AllowedAddresses []string `json:"allowed_addresses,omitempty"`
}

// policies returns the egress policy as a list of at most one.
func (d *KeyDefaults) policies() []*egress.Policy {
	if p := d.Egress.Strict(); p != nil {
		return []*egress.Policy{p}
	}
	return nil
}
