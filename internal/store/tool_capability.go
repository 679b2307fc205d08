package store

import (
	"context"
	"encoding/json"
	"time"

	"modelgate/internal/storage/journal"
)

// ToolCapability is a tool, prompt, resource or resource template that an integration or a
// server offers, with the rules of its owner for it.
type ToolCapability struct {
	Owner    string // id of the integration or the server
	Kind     string // of toolserver.Kind
	Name     string // name or URI; * for the price of all other tools
	Enabled  bool
	Seen     string // digest of the definition; empty if none was read
	Approved string // digest of the approved definition; empty for none
	Gone     bool   // it is no longer offered

	Definition string // JSON as the server wrote it; empty if none was read
	Price      *int64 // of a call, in billionths of a dollar; nil for none
}

var toolCapabilityTable = table[ToolCapability]{
	name: "mcp_capabilities", row: "capability", order: "kind, name", fixed: "owner_id kind name",
	columns: func(c *ToolCapability) []column {
		return []column{
			{"owner_id", &c.Owner}, {"kind", &c.Kind}, {"name", &c.Name}, {"enabled", &c.Enabled}, {"seen", &c.Seen},
			{"approved", &c.Approved}, {"gone", &c.Gone}, {"definition", &c.Definition}, {"price", &c.Price},
		}
	},
}

// ToolCapabilities returns a page of the capabilities of an integration or server, sorted by
// kind and name, and the number of all. An empty kind selects all.
func (q Queries) ToolCapabilities(ctx context.Context, owner, kind string, p Page) (list []ToolCapability, total int, err error) {
	return toolCapabilityTable.page(ctx, q.Reader, p, `
		WHERE owner_id = $1 AND ($2 = '' OR kind = $2)`, owner, kind)
}

// ToolCapability returns a capability of an integration or server.
func (q Queries) ToolCapability(ctx context.Context, owner, kind, name string) (ToolCapability, error) {
	return toolCapabilityTable.one(ctx, q.Reader, `
		WHERE owner_id = $1 AND kind = $2 AND name = $3`, owner, kind, name)
}

// ToolCapabilityRules returns the capabilities of all integrations and servers that a rule
// applies to, without what was read of them.
func (q Queries) ToolCapabilityRules(ctx context.Context) ([]ToolCapability, error) {
	return toolCapabilityTable.limitTo("owner_id", "kind", "name", "enabled", "approved", "price").list(ctx, q.Reader, `
		WHERE enabled = FALSE OR approved <> '' OR price IS NOT NULL
		ORDER BY owner_id, kind, name`)
}

// PutToolCapability stores c, replacing the previous row.
func (tx *Tx) PutToolCapability(ctx context.Context, c ToolCapability) error {
	return toolCapabilityTable.put(ctx, tx, c)
}

// DeleteToolCapability deletes a capability with its rules.
func (tx *Tx) DeleteToolCapability(ctx context.Context, owner, kind, name string) error {
	const text = `
		DELETE FROM mcp_capabilities
		WHERE owner_id = $1 AND kind = $2 AND name = $3`
	return tx.exec(ctx, journal.ToolCapabilities, "capability", text, owner, kind, name)
}

// ToolSync is what an integration or a server said of itself when it was last read.
type ToolSync struct {
	Owner    string // id of the integration or the server
	Status   string // SyncPending, SyncSynced or SyncFailed
	Error    string // of the last reading; empty for none
	Metadata ToolMetadata
	TriedAt  time.Time
	SyncedAt time.Time // zero if it was never read
}

// States of a [ToolSync].
const (
	SyncPending = "pending"
	SyncSynced  = "synced"
	SyncFailed  = "failed"
)

// ToolMetadata is how a tool server describes itself.
type ToolMetadata struct {
	Title        string          `json:"title,omitempty"`
	Description  string          `json:"description,omitempty"`
	Icons        json.RawMessage `json:"icons,omitempty"` // array; nil for none
	Name         string          `json:"server_name,omitempty"`
	Version      string          `json:"server_version,omitempty"`
	Protocol     string          `json:"protocol_version,omitempty"`
	Capabilities map[string]bool `json:"capability_flags,omitempty"`
}

var toolSyncTable = table[ToolSync]{
	name: "mcp_syncs", row: "metadata of an MCP server", fixed: "owner_id",
	columns: func(s *ToolSync) []column {
		return []column{
			{"owner_id", &s.Owner}, {"status", &s.Status}, {"error", &s.Error}, {"metadata", object(&s.Metadata)}, {"tried_at", &s.TriedAt},
			{"synced_at", &s.SyncedAt},
		}
	},
}

// ToolSyncs returns what was read of integrations or servers, by id. Those that were never
// read are not in it.
func (q Queries) ToolSyncs(ctx context.Context, owners ...string) (map[string]ToolSync, error) {
	out := make(map[string]ToolSync, len(owners))
	for len(owners) > 0 {
		n := min(len(owners), spentAtOnce)
		list, err := toolSyncTable.list(ctx, q.Reader, ` WHERE owner_id IN `+placeholders(0, n), toArgs(owners[:n])...)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			out[s.Owner] = s
		}
		owners = owners[n:]
	}
	return out, nil
}

// PutToolSync stores s, replacing the previous row.
func (tx *Tx) PutToolSync(ctx context.Context, s ToolSync) error {
	return toolSyncTable.put(ctx, tx, s)
}

// deleteToolOwner deletes what was read of an integration or a server, and the rules for it.
func (tx *Tx) deleteToolOwner(ctx context.Context, id string) error {
	const capabilities = `
		DELETE FROM mcp_capabilities
		WHERE owner_id = $1`
	const sync = `
		DELETE FROM mcp_syncs
		WHERE owner_id = $1`
	if err := tx.exec(ctx, journal.ToolCapabilities, "capabilities", capabilities, id); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "metadata of an MCP server", sync, id)
}
