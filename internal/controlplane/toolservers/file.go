package toolservers

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// FileRules are the rules of an integration or a server in a file: what is switched off, as
// kind/name, and prices of calls in dollars, by the name of the tool.
type FileRules struct {
	Off    []string
	Prices map[string]float64
}

// FillIntegration sets in row what a file says of an integration. Credentials that in leaves
// out stay. It must not run in a transaction.
func FillIntegration(ctx context.Context, a *route.API, before *store.ToolIntegration, row *store.ToolIntegration, in Configuration) error {
	f := newFamily(Routes{}, a)
	if before != nil {
		keep(before, &in)
	}
	kept, err := f.configure(ctx, row, &in)
	if err != nil {
		return err
	}
	if before != nil && kept != "" && destinations(row) != destinations(before) {
		return route.Invalid(kept, "must be in the file; stored secrets are not sent to a new address")
	}
	return f.check(ctx, nil, row)
}

// IsSameDocument reports whether the document of a file is the stored one.
func IsSameDocument(file, stored string) bool {
	text, err := documentJSON([]byte(file))
	return err == nil && stored != "" && string(text) == stored
}

// keep sets the secrets that in leaves out to marks of the stored ones.
func keep(before *store.ToolIntegration, in *Configuration) {
	headers := make(map[string]string)
	for name := range before.Settings.HeaderMasks {
		headers[name] = "***"
	}
	maps.Copy(headers, in.CustomHeaders)
	in.CustomHeaders = headers
	if o := before.Settings.OAuth; o != nil && o.SecretMask != "" && in.ClientSecret == "" && in.ClientID != "" {
		in.ClientSecret = "***"
	}
}

// FileIntegration is what a file says of an integration.
type FileIntegration struct {
	Row    store.ToolIntegration
	Access map[string]bool // of workspaces, by id
	Rules  FileRules
}

// PutIntegration stores an integration that a file describes, instead of before; nil is a new
// integration.
func PutIntegration(ctx context.Context, c *route.Caller, before *store.ToolIntegration, e FileIntegration) error {
	row := e.Row
	return c.Change(ctx, func(tx *store.Tx) error {
		var err error
		if row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt); before == nil {
			row.CreatedBy, row.CreatedAt = c.Actor(), c.Now
			err = insertIntegration(ctx, tx, row)
		} else {
			err = tx.UpdateToolIntegration(ctx, row)
		}
		if err != nil {
			return err
		}
		if err := tx.DeleteToolGrants(ctx, row.ID); err != nil {
			return err
		}
		for w, enabled := range e.Access {
			if err := tx.PutToolGrant(ctx, store.ToolGrant{Integration: row.ID, Workspace: w, Enabled: enabled}); err != nil {
				return err
			}
		}
		return e.Rules.put(ctx, tx, row.ID, "")
	})
}

// RemoveIntegration removes an integration that a file no longer has.
func RemoveIntegration(ctx context.Context, c *route.Caller, row store.ToolIntegration) error {
	return c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteToolIntegration(ctx, row.ID) })
}

// FileServer is what a file says of a server.
type FileServer struct {
	Row         store.ToolServer
	Integration string // slug
	Users       []UserAccess
	Rules       FileRules
}

// PutServer stores a server that a file describes, instead of before; nil is a new server.
func PutServer(ctx context.Context, c *route.Caller, before *store.ToolServer, e FileServer) error {
	row, k := e.Row, &mcpKind
	if row.Agent {
		k = &agentKind
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		i, err := tx.ToolIntegration(ctx, c.Organisation, e.Integration)
		if apierr.IsNotFound(err) {
			return route.Missing(k.integration, k.integrationName, e.Integration)
		}
		if err != nil {
			return err
		}
		row.Integration = i.ID
		if row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt); before == nil {
			row.CreatedBy, row.CreatedAt = c.Actor(), c.Now
			err = insertServer(ctx, tx, i, row, i.Slug)
		} else {
			err = tx.UpdateToolServer(ctx, row)
		}
		if err != nil {
			return err
		}
		list, err := usersOf(ctx, tx, &row, e.Users)
		if err == nil {
			err = tx.ReplaceToolUserAccess(ctx, row.ID, list)
		}
		if err != nil {
			return err
		}
		return e.Rules.put(ctx, tx, row.ID, i.ID)
	})
}

// RemoveServer removes a server that a file no longer has. One that was removed with its
// integration is gone already.
func RemoveServer(ctx context.Context, c *route.Caller, row store.ToolServer) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		err := tx.DeleteToolServer(ctx, row.ID)
		if apierr.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// PutBundle stores row, which a file describes, instead of before; nil is a new bundle.
func PutBundle(ctx context.Context, c *route.Caller, before *store.ToolBundle, row store.ToolBundle) error {
	if err := checkSelection(row.Selection); err != nil {
		return err
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		if row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt); before != nil {
			return tx.UpdateToolBundle(ctx, row)
		}
		row.CreatedBy, row.CreatedAt = c.Actor(), c.Now
		return insertBundle(ctx, tx, row)
	})
}

// RemoveBundle removes a bundle that a file no longer has.
func RemoveBundle(ctx context.Context, c *route.Caller, row store.ToolBundle) error {
	return c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteToolBundle(ctx, row.ID) })
}

// RulesOf returns the rules among capabilities of one owner, sorted.
func RulesOf(list []store.ToolCapability) (r FileRules) {
	for _, c := range list {
		if !c.Enabled {
			r.Off = append(r.Off, c.Kind+"/"+c.Name)
		}
		if c.Price != nil {
			if r.Prices == nil {
				r.Prices = make(map[string]float64)
			}
			r.Prices[c.Name] = float64(*c.Price) / 1e9
		}
	}
	slices.Sort(r.Off)
	return r
}

// put replaces the rules of an owner. Above is the integration of a server, empty for one.
func (r FileRules) put(ctx context.Context, tx *store.Tx, owner, above string) error {
	rows, _, err := tx.ToolCapabilities(ctx, owner, "", store.Page{})
	if err != nil {
		return err
	}
	wanted := make(map[toolserver.Item]CapabilityChange)
	on := true
	for _, row := range rows {
		if !row.Enabled || row.Price != nil {
			c := CapabilityChange{Name: row.Name, Type: row.Kind, Price: route.Optional[float64]{Set: true, Null: true}}
			if row.Name != "*" && !row.Enabled {
				c.Enabled = &on
			}
			wanted[row.Item()] = c
		}
	}
	for i, text := range r.Off {
		kind, name, ok := strings.Cut(text, "/")
		if !ok {
			return route.Invalid(fmt.Sprintf("off[%d]", i), "must be a kind and a name, such as tool/delete_issue")
		}
		item := toolserver.Item{Kind: toolserver.Kind(kind), Name: name}
		c := wanted[item]
		c.Name, c.Type, c.Enabled = name, kind, new(bool)
		wanted[item] = c
	}
	for name, dollars := range r.Prices {
		item := toolserver.Item{Kind: toolserver.Tool, Name: name}
		c := wanted[item]
		c.Name, c.Type, c.Price = name, string(toolserver.Tool), route.Set(dollars)
		wanted[item] = c
	}
	changes := CapabilityChanges{}
	for _, c := range wanted {
		if math.IsNaN(c.Price.Value) {
			return route.Invalid("prices", "must be numbers")
		}
		changes.Capabilities = append(changes.Capabilities, c)
	}
	return changes.apply(ctx, tx, owner, above)
}
