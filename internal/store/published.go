package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/egress"
	"modelgate/internal/jwt"
	"modelgate/internal/prompt"
)

// RuntimeState is everything that a gateway makes its snapshot of, as of one
// revision. Credentials are in it as they are stored: sealed.
type RuntimeState struct {
	Revision int64
	Mark     string // of the change that made the revision

	// DataKeys are those of the organisations that have one, wrapped by the
	// master key, by id of the organisation.
	DataKeys map[string]string

	// SavedOnly are the organisations, by id, whose requests may not bring a
	// config of their own.
	SavedOnly map[string]bool

	// Logging is how much is kept of the exchanges of keys that say nothing
	// themselves: by id of their workspace, else of their organisation.
	Logging map[string]access.Logging

	// Egress limits where requests go, by id of the organisation or the workspace.
	Egress map[string]*egress.Policy

	// Exhausted are the workspaces, by id, that have used up their budget.
	Exhausted map[string]bool

	// Identities are the owners of keys that count: active ones and those that
	// used up their budget, of workspaces that are not archived. They may have
	// expired by the clock.
	Identities []*access.Identity

	// Deployments are those of all organisations.
	Deployments []PublishedDeployment

	Configs   []PublishedConfig
	Providers []PublishedProvider
	Prompts   []*prompt.Saved // that are active
	Partials  []*prompt.Saved

	// Issuers are whose tokens organisations take, with the workspaces that are
	// active.
	Issuers []jwt.Issuer

	// References are the secret references, by id.
	References map[string]SecretReference
}

// HasKeys reports whether any key was ever made.
func (q Queries) HasKeys(ctx context.Context) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM (SELECT id FROM gateway_keys LIMIT 1) AS k`
	n, err := count(ctx, q.q, text)
	return n > 0, err
}

// PublishedConfig is a saved config that is active, with its current text.
type PublishedConfig struct {
	Organisation, Workspace, ID, Slug string
	Version                           string // id
	Text                              string // as that of a [ConfigVersion], as is Sealed
	Sealed                            string
}

// PublishedProvider is a provider entry that is not archived, with what it has
// from its integration.
type PublishedProvider struct {
	Organisation, Workspace, Slug string
	Provider                      string // id of a row
	Sealed                        string // [Secrets.Text], sealed for the organisation; empty for none
	Configuration                 IntegrationSettings
	Mappings                      []SecretMapping  // of fields that are filled at run time
	Integration                   string           // id
	Owner                         string           // id of the workspace whose integration it is; empty for the organisation's
	Pricing                       json.RawMessage  // of the integration: adjustments of prices
	Models                        []PublishedModel // of the integration: entries of one share them
	AllModels                     bool             // those that are not enabled may be used as well
	Status                        string
	Withdrawn                     bool // the integration is archived, or disabled in this workspace
	ExpiresAt                     time.Time
}

// PublishedDeployment is whom the gateways of a deployment serve.
type PublishedDeployment struct {
	Organisation, ID, Slug string
	ClientHash             string // SHA-256 of the secret that they identify themselves by
	AllWorkspaces          bool
	Workspaces             []string // ids, unless AllWorkspaces
	Status                 string   // active or inactive
}

// LoadRuntimeState reads what a snapshot is made of, all of it at one moment. What has
// not changed since before is taken from there; it may be nil. Neither is changed
// afterwards.
func (db *DB) LoadRuntimeState(ctx context.Context, before *RuntimeState) (*RuntimeState, error) {
	tx, err := db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("reading what is published: %w", err)
	}
	defer tx.Rollback()
	q := Queries{tx}
	p := &RuntimeState{DataKeys: make(map[string]string), SavedOnly: make(map[string]bool), Exhausted: make(map[string]bool)}
	if p.Revision, err = q.Revision(ctx); err != nil {
		return nil, err
	}
	n, err := q.newsSince(ctx, before, p.Revision)
	if err != nil {
		return nil, err
	}
	p.Mark = n.mark
	for _, read := range []func(context.Context, *changedTables, *RuntimeState, *RuntimeState) error{q.publishOrganisations, q.publishLogging, q.publishExhausted, q.publishDeployments, q.publishIdentities, q.publishProviders, q.publishReferences, q.publishConfigs, q.publishPrompts, q.publishIssuers} {
		if err := read(ctx, n, p, before); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (q Queries) publishOrganisations(ctx context.Context, _ *changedTables, p, _ *RuntimeState) error {
	all, err := q.Organisations(ctx)
	for _, o := range all {
		if o.DataKey != "" {
			p.DataKeys[o.ID] = o.DataKey
		}
		if o.Settings.BlockInlineConfig {
			p.SavedOnly[o.ID] = true
		}
	}
	return err
}

func (q Queries) publishDeployments(ctx context.Context, _ *changedTables, p, _ *RuntimeState) (err error) {
	const text = `
		SELECT organisation_id, id, slug, client_hash, allow_all_workspaces, workspaces, status
		FROM deployments
		ORDER BY id`
	p.Deployments, err = rows(ctx, q.q, "deployments", text, func(r row) (d PublishedDeployment, err error) {
		err = r.Scan(&d.Organisation, &d.ID, &d.Slug, &d.ClientHash, &d.AllWorkspaces, jsonText{&d.Workspaces}, &d.Status)
		return d, err
	})
	return err
}

func (q Queries) publishIdentities(ctx context.Context, n *changedTables, p, before *RuntimeState) error {
	if n.wrote("gateway_keys", "workspaces", "organisations") {
		return q.readIdentities(ctx, p, "")
	}
	p.Identities = before.Identities
	if len(n.keys) == 0 {
		return nil
	}
	changed := make(map[string]bool, len(n.keys))
	for _, id := range n.keys {
		changed[id] = true
	}
	p.Identities = make([]*access.Identity, 0, len(before.Identities)+len(changed))
	for _, id := range before.Identities {
		if !changed[id.KeyID] {
			p.Identities = append(p.Identities, id)
		}
	}
	for id := range changed {
		if err := q.readIdentities(ctx, p, id); err != nil {
			return err
		}
	}
	return nil
}

// readIdentities adds what the key with this id proves, or else all keys.
func (q Queries) readIdentities(ctx context.Context, p *RuntimeState, id string) error {
	text := `
		SELECT k.id, k.type, k.organisation_id, k.workspace_id, k.user_id, k.name, k.hash, k.scopes, k.providers, k.defaults,
			k.previous_hash, k.transition_ends_at, k.status, k.expires_at, k.origin, COALESCE(w.defaults, '{}')
		FROM gateway_keys k
		LEFT JOIN workspaces w ON w.id = k.workspace_id
		LEFT JOIN users u ON u.id = k.user_id
		WHERE k.status IN ('active', 'exhausted') AND (w.status IS NULL OR w.status <> 'archived') AND (u.status IS NULL OR u.status = 'active')`
	var args []any
	if id != "" {
		text, args = text+` AND k.id = $1`, []any{id}
	}
	same := interner{scopes: map[string][]access.Scope{}, words: map[string][]string{}, texts: map[string]string{}, origins: map[string]KeyOrigin{}, above: map[string]KeyDefaults{}}
	_, err := rows(ctx, q.q, "API keys", text, func(r row) (none struct{}, err error) {
		k, err := same.key(r)
		if err == nil {
			for _, id := range k.Identities() {
				id.Logging = p.LoggingFor(id)
				p.Identities = append(p.Identities, id)
			}
		}
		return none, err
	}, args...)
	return err
}

// interner keeps what many keys have in common once.
type interner struct {
	scopes  map[string][]access.Scope
	words   map[string][]string
	texts   map[string]string
	origins map[string]KeyOrigin
	above   map[string]KeyDefaults // of workspaces; only their metadata is read
}

func (s *interner) text(t string) string {
	if kept, ok := s.texts[t]; ok {
		return kept
	}
	s.texts[t] = t
	return t
}

// key reads the part of a key that requests ask for, with the metadata that its
// workspace adds.
func (s *interner) key(r row) (k Key, err error) {
	var hash, scopes, providers, defaults, origin, workspaceDefaults string
	var previous sql.NullString
	err = r.Scan(&k.ID, &k.Type, &k.Organisation, &k.Workspace, &k.UserID, &k.Name, &hash, &scopes, &providers, &defaults,
		&previous, nullTime{&k.TransitionEndsAt}, &k.Status, nullTime{&k.ExpiresAt}, &origin, &workspaceDefaults)
	if err != nil {
		return k, err
	}
	if k.Hash, err = access.ParseHash(hash); err != nil {
		return k, fmt.Errorf("key %s: %w", k.ID, err)
	}
	if previous.Valid {
		h, err := access.ParseHash(previous.String)
		if err != nil {
			return k, fmt.Errorf("key %s: %w", k.ID, err)
		}
		k.PreviousHash = &h
	}
	k.Type, k.Status = access.KeyType(s.text(string(k.Type))), s.text(k.Status)
	k.Organisation, k.Workspace, k.UserID = s.text(k.Organisation), s.text(k.Workspace), s.text(k.UserID)
	if k.Scopes, err = shared(s.scopes, scopes); err != nil {
		return k, fmt.Errorf("scopes of key %s: %w", k.ID, err)
	}
	if k.Providers, err = shared(s.words, providers); err != nil {
		return k, fmt.Errorf("providers of key %s: %w", k.ID, err)
	}
	if k.Origin, err = shared(s.origins, origin); err != nil {
		return k, fmt.Errorf("origin of key %s: %w", k.ID, err)
	}
	k.Defaults, err = s.defaults(defaults, workspaceDefaults)
	return k, err
}

// defaults returns a key's defaults with the metadata of its workspace, which
// wins. Nil stands for none.
func (s *interner) defaults(own, workspace string) (json.RawMessage, error) {
	var d KeyDefaults
	above, err := shared(s.above, workspace)
	if err != nil || len(above.Metadata) == 0 {
		if own == "{}" {
			return nil, err
		}
		return json.RawMessage(own), err
	}
	if err := json.Unmarshal([]byte(own), &d); err != nil {
		return nil, err
	}
	if d.Metadata == nil {
		d.Metadata = make(map[string]string, len(above.Metadata))
	}
	maps.Copy(d.Metadata, above.Metadata)
	return json.RawMessage(text(d)), nil
}

// shared returns the value of a JSON text, which is read once.
func shared[T any](known map[string]T, text string) (v T, err error) {
	v, ok := known[text]
	if ok {
		return v, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, err
	}
	known[text] = v
	return v, nil
}

func (q Queries) publishProviders(ctx context.Context, n *changedTables, p, before *RuntimeState) error {
	if !n.wrote("providers", "integrations", "integration_models", "integration_workspaces", "workspaces") {
		p.Providers = before.Providers
		return nil
	}
	const text = `
		SELECT p.organisation_id, p.workspace_id, p.slug, p.status, p.expires_at, p.integration_id,
			i.workspace_id, i.provider, i.sealed, i.configurations, i.secret_mappings, i.pricing, i.allow_all_models, i.status,
			COALESCE(g.enabled, i.global_enabled) AND i.workspace_id IN ('', p.workspace_id), COALESCE(g.status, 'active')
		FROM providers p
		JOIN workspaces w ON w.id = p.workspace_id
		JOIN integrations i ON i.id = p.integration_id
		LEFT JOIN integration_workspaces g ON g.integration_id = p.integration_id AND g.workspace_id = p.workspace_id
		WHERE p.status <> 'archived' AND w.status = 'active'
		ORDER BY p.id`
	models, err := q.publishedModels(ctx)
	if err != nil {
		return err
	}
	p.Providers, err = rows(ctx, q.q, "providers", text, func(r row) (v PublishedProvider, err error) {
		var status, grant string
		var enabled bool
		err = r.Scan(&v.Organisation, &v.Workspace, &v.Slug, &v.Status, nullTime{&v.ExpiresAt}, &v.Integration,
			&v.Owner, &v.Provider, &v.Sealed, jsonText{&v.Configuration}, jsonText{&v.Mappings}, jsonText{&v.Pricing}, &v.AllModels, &status, &enabled, &grant)
		v.Models, v.Withdrawn = models[v.Integration], status != Active || !enabled
		if v.Status == Active && grant == Exhausted {
			v.Status = Exhausted
		}
		return v, err
	})
	return err
}

func (q Queries) publishConfigs(ctx context.Context, n *changedTables, p, before *RuntimeState) (err error) {
	if !n.wrote("configs", "config_versions", "workspaces") {
		p.Configs = before.Configs
		return nil
	}
	const text = `
		SELECT c.organisation_id, c.workspace_id, c.id, c.slug, c.version_id
		FROM configs c
		JOIN workspaces w ON w.id = c.workspace_id
		WHERE c.status = 'active' AND w.status = 'active'
		ORDER BY c.id`
	p.Configs, err = rows(ctx, q.q, "configs", text, func(r row) (c PublishedConfig, err error) {
		err = r.Scan(&c.Organisation, &c.Workspace, &c.ID, &c.Slug, &c.Version)
		return c, err
	})
	if err != nil {
		return err
	}
	texts := make(map[string]ConfigVersion, len(p.Configs)) // by id
	if before != nil {
		for _, c := range before.Configs {
			texts[c.Version] = ConfigVersion{Text: c.Text, Sealed: c.Sealed}
		}
	}
	if err := q.readVersions(ctx, p.Configs, texts); err != nil {
		return err
	}
	for i := range p.Configs {
		v := texts[p.Configs[i].Version]
		p.Configs[i].Text, p.Configs[i].Sealed = v.Text, v.Sealed
	}
	return nil
}

// readVersions adds the texts of configs that are missing: one by one when they
// are few, as after a change, or all at once.
func (q Queries) readVersions(ctx context.Context, configs []PublishedConfig, texts map[string]ConfigVersion) error {
	const few = 20
	var missing []string
	for _, c := range configs {
		if _, ok := texts[c.Version]; !ok {
			missing = append(missing, c.Version)
		}
	}
	if len(missing) > few {
		versions, err := configVersionTable.list(ctx, q.q, `
		WHERE id IN (SELECT version_id FROM configs WHERE status = 'active')`)
		for _, v := range versions {
			texts[v.ID] = v
		}
		return err
	}
	for _, id := range missing {
		v, err := q.ConfigVersion(ctx, id)
		if err != nil {
			return err
		}
		texts[id] = v
	}
	return nil
}
