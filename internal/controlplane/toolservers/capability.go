package toolservers

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// States of a capability.
const (
	stateNew       = "new"       // its definition was never approved
	stateUnchanged = "unchanged" // its definition is the approved one
	stateChanged   = "changed"   // its definition is another than the approved one
	stateGone      = "gone"      // it is no longer offered, or was never
)

// Capability is something that a server offers, in a response.
type Capability struct {
	Name       string     `json:"name" doc:"Name of a tool or prompt, URI of a resource, or URI template; * is the price of all other tools"`
	Type       string     `json:"type" doc:"tool, prompt, resource or resource_template"`
	Enabled    bool       `json:"enabled"`
	State      string     `json:"state" doc:"new, unchanged, changed or gone, by comparison with the approved definition"`
	Digest     *string    `json:"digest" doc:"SHA-256 of the definition that was read last"`
	Approved   *string    `json:"approved_digest" doc:"SHA-256 of the approved definition"`
	Price      *float64   `json:"price_per_call" doc:"In dollars"`
	Definition route.JSON `json:"definition" doc:"As the server wrote it; null if none was read"`
}

func showCapability(c store.ToolCapability) Capability {
	out := Capability{Name: c.Name, Type: c.Kind, Enabled: c.Enabled, State: stateOf(c), Digest: route.OrNull(c.Seen),
		Approved: route.OrNull(c.Approved), Definition: route.JSON("null")}
	if c.Definition != "" {
		out.Definition = route.JSON(c.Definition)
	}
	if c.Price != nil {
		dollars := float64(*c.Price) / 1e9
		out.Price = &dollars
	}
	return out
}

func stateOf(c store.ToolCapability) string {
	switch {
	case c.Gone || c.Seen == "":
		return stateGone
	case c.Approved == "":
		return stateNew
	case c.Approved == c.Seen:
		return stateUnchanged
	}
	return stateChanged
}

// CapabilityPaging selects a page of capabilities. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type CapabilityPaging struct {
	Type string `query:"type" enum:"tool,prompt,resource,resource_template"`
	Page int    `query:"current_page" minimum:"0" maximum:"1000000"`
	Also int    `query:"page" minimum:"0" maximum:"1000000" doc:"Another name of current_page"`
	Size int    `query:"page_size" minimum:"1" maximum:"500" default:"100"`
}

func listCapabilities(ctx context.Context, c *route.Caller, owner string, in *CapabilityPaging) (*route.List[Capability], error) {
	in.Page = max(in.Page, in.Also)
	rows, total, err := c.DB().ToolCapabilities(ctx, owner, in.Type, store.Page{Number: in.Page, Size: in.Size})
	return route.Listing(rows, total, err, showCapability)
}

type integrationCapabilitiesInput struct {
	NamedIntegration
	CapabilityPaging
}

func listIntegrationCapabilities(ctx context.Context, c *route.Caller, in *integrationCapabilitiesInput) (*route.List[Capability], error) {
	row, err := findIntegration(ctx, c, in.NamedIntegration, "read")
	if err != nil {
		return nil, err
	}
	return listCapabilities(ctx, c, row.ID, &in.CapabilityPaging)
}

type serverCapabilitiesInput struct {
	NamedServer
	CapabilityPaging
}

func listServerCapabilities(ctx context.Context, c *route.Caller, in *serverCapabilitiesInput) (*route.List[Capability], error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	return listCapabilities(ctx, c, row.ID, &in.CapabilityPaging)
}

// CapabilityChange changes the rules for a capability.
type CapabilityChange struct {
	Name     string                  `json:"name" minLength:"1" maxLength:"2048" doc:"* with a price_per_call is for all tools without a price"`
	Type     string                  `json:"type" enum:"tool,prompt,resource,resource_template"`
	Enabled  *bool                   `json:"enabled,omitempty"`
	Approved *bool                   `json:"approved,omitempty" doc:"true approves the definition that was read last, and false none"`
	Digest   string                  `json:"digest,omitempty" maxLength:"64" doc:"With approved: the digest that must be that of the definition"`
	Price    route.Optional[float64] `json:"price_per_call,omitempty" minimum:"0" maximum:"1000" doc:"In dollars; null for none"`
}

// CapabilityChanges are the body of a request that changes capabilities.
type CapabilityChanges struct {
	Capabilities []CapabilityChange `json:"capabilities" nullable:"false" minItems:"1" maxItems:"1000"`
}

type success struct {
	Success bool `json:"success"`
}

type updateIntegrationCapabilitiesInput struct {
	NamedIntegration
	Body CapabilityChanges
}

func updateIntegrationCapabilities(ctx context.Context, c *route.Caller, in *updateIntegrationCapabilitiesInput) (*success, error) {
	row, err := findIntegration(ctx, c, in.NamedIntegration, "update")
	if err != nil {
		return nil, err
	}
	return &success{true}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolIntegration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return in.Body.apply(ctx, tx, row.ID, "")
	})
}

type updateServerCapabilitiesInput struct {
	NamedServer
	Body CapabilityChanges
}

func updateServerCapabilities(ctx context.Context, c *route.Caller, in *updateServerCapabilitiesInput) (*success, error) {
	row, err := findServer(ctx, c, in.NamedServer)
	if err != nil {
		return nil, err
	}
	return &success{true}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolServer(ctx, row.Organisation, row.Workspace, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return in.Body.apply(ctx, tx, row.ID, row.Integration)
	})
}

// maxCapabilities is the limit of capabilities with rules of one owner: of all that a server
// may offer, and as many that it does not offer.
const maxCapabilities = 2 * toolserver.MaxItems

// apply changes the rules of an owner. Above is the integration of a server, which outranks it;
// empty for that of an integration itself.
func (b *CapabilityChanges) apply(ctx context.Context, tx *store.Tx, owner, above string) error {
	_, total, err := tx.ToolCapabilities(ctx, owner, "", store.Page{Size: 1})
	if err != nil {
		return err
	}
	for i := range b.Capabilities {
		in, path := &b.Capabilities[i], fmt.Sprintf("capabilities[%d]", i)
		item := toolserver.Item{Kind: toolserver.Kind(in.Type), Name: in.Name}
		if err := item.Check(); err != nil {
			return route.Invalid(path+".name", "is invalid: %v", err)
		}
		if in.Name == "*" && (item.Kind != toolserver.Tool || in.Enabled != nil || in.Approved != nil) {
			return route.Invalid(path+".name", "can be * only for the price of tools")
		}
		row, err := tx.ToolCapability(ctx, owner, in.Type, in.Name)
		if apierr.IsNotFound(err) {
			if total++; total > maxCapabilities {
				return route.Invalid(path, "would be more than %d capabilities of one owner", maxCapabilities)
			}
			row, err = store.ToolCapability{Owner: owner, Kind: in.Type, Name: in.Name, Enabled: true, Gone: true}, nil
		}
		if err != nil {
			return err
		}
		if above != "" {
			if err := in.checkRank(ctx, tx, above, path, &row); err != nil {
				return err
			}
		}
		if err := in.set(path, &row); err != nil {
			return err
		}
		if err := tx.PutToolCapability(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// checkRank returns an error for a change that the integration of a server does not leave to
// it.
func (in *CapabilityChange) checkRank(ctx context.Context, tx *store.Tx, above, path string, row *store.ToolCapability) error {
	find := func(name string) (store.ToolCapability, error) {
		c, err := tx.ToolCapability(ctx, above, in.Type, name)
		if apierr.IsNotFound(err) {
			return store.ToolCapability{Enabled: true}, nil
		}
		return c, err
	}
	c, err := find(in.Name)
	if err != nil {
		return err
	}
	all, err := find("*")
	if err != nil {
		return err
	}
	switch {
	case in.Enabled != nil && *in.Enabled && !c.Enabled:
		return newRankError(path+".enabled", "is switched off by the integration")
	case in.Approved != nil && *in.Approved && c.Approved != "" && c.Approved != row.Seen:
		return newRankError(path+".approved", "is decided by the integration, which has approved another definition")
	case in.Price.Set && !in.Price.Null && (c.Price != nil || all.Price != nil):
		return newRankError(path+".price_per_call", "is set by the integration")
	}
	return nil
}

// newRankError returns the error for a field that the integration decides.
func newRankError(field, problem string) error {
	return apierr.New(apierr.Forbidden, "%s %s; ask those who manage the integration", field, problem).WithParam(field).WithCode("AB03")
}

// set applies the change to a row.
func (in *CapabilityChange) set(path string, row *store.ToolCapability) error {
	if in.Enabled != nil {
		row.Enabled = *in.Enabled
	}
	if in.Price.Set {
		row.Price = nil
		if !in.Price.Null {
			if in.Price.Value < 0 || in.Price.Value > 1000 || math.IsNaN(in.Price.Value) {
				return route.Invalid(path+".price_per_call", "must be from 0 to 1000 dollars")
			}
			nano := int64(math.Round(in.Price.Value * 1e9))
			row.Price = &nano
		}
	}
	switch {
	case in.Digest != "" && (in.Approved == nil || !*in.Approved):
		return route.Invalid(path+".digest", "needs approved: true")
	case in.Approved == nil:
	case !*in.Approved:
		row.Approved = ""
	case row.Seen == "":
		return route.Invalid(path+".approved", "cannot be true: no definition of %.60q was read; read the server again with /sync", in.Name)
	case in.Digest != "" && in.Digest != row.Seen:
		return apierr.New(apierr.Conflict, "%s.digest is not that of the definition that was read last; look at it again", path).
			WithParam(path + ".digest")
	default:
		row.Approved = row.Seen
	}
	return nil
}

// Metadata is what a server says of itself. Its fields are null if it does not say, and all but
// the status if it was never read.
type Metadata struct {
	Title        *string         `json:"title"`
	Description  *string         `json:"description"`
	Icons        route.JSON      `json:"icons" doc:"Array of objects with src, an address of https or data, mimeType and sizes"`
	ServerName   *string         `json:"server_name"`
	Version      *string         `json:"server_version"`
	Protocol     *string         `json:"protocol_version"`
	Capabilities map[string]bool `json:"capability_flags" nullable:"true"`
	Status       *string         `json:"sync_status" doc:"pending, synced or failed"`
	SyncedAt     route.Time      `json:"last_synced_at"`
	Error        *string         `json:"sync_error" doc:"Why it could not be read, or what was left out"`
}

// metadataOf returns the metadata of an integration or a server.
func metadataOf(syncs map[string]store.ToolSync, owner string) Metadata {
	s, ok := syncs[owner]
	if !ok {
		s.Status = store.SyncPending
	}
	m := s.Metadata
	out := Metadata{
		Title: route.OrNull(m.Title), Description: route.OrNull(m.Description), Icons: route.JSON("null"), ServerName: route.OrNull(m.Name),
		Version: route.OrNull(m.Version), Protocol: route.OrNull(m.Protocol), Capabilities: m.Capabilities, Status: route.OrNull(s.Status),
		SyncedAt: route.Time(s.SyncedAt), Error: route.OrNull(s.Error),
	}
	if json.Valid(m.Icons) {
		out.Icons = route.JSON(m.Icons)
	}
	return out
}

func integrationMetadata(ctx context.Context, c *route.Caller, in *NamedIntegration) (*Metadata, error) {
	row, err := findIntegration(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	return metadataResponse(ctx, c, row.ID)
}

func serverMetadata(ctx context.Context, c *route.Caller, in *NamedServer) (*Metadata, error) {
	row, err := findServer(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	return metadataResponse(ctx, c, row.ID)
}

func metadataResponse(ctx context.Context, c *route.Caller, owner string) (*Metadata, error) {
	syncs, err := c.DB().ToolSyncs(ctx, owner)
	if err != nil {
		return nil, err
	}
	m := metadataOf(syncs, owner)
	return &m, nil
}
