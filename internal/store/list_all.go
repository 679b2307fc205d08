package store

import (
	"context"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// The following methods read all objects of one kind in an organisation, for export.
// They include archived objects whose slugs are still in use.

// ConfigText is a config and its current text.
type ConfigText struct {
	Config
	Text   string // of the current [ConfigVersion], like Sealed and Number
	Sealed string
	Number int64
}

// AllConfigs returns all configs of an organisation, including archived ones.
func (q Queries) AllConfigs(ctx context.Context, organisation string) ([]ConfigText, error) {
	configTexts := table[ConfigText]{
		name: "configs", row: "config", columns: func(c *ConfigText) []column { return configTable.columns(&c.Config) },
		derived: func(c *ConfigText) []column {
			return []column{{`(SELECT v.text FROM config_versions v WHERE v.id = version_id)`, &c.Text},
				{`(SELECT v.sealed FROM config_versions v WHERE v.id = version_id)`, &c.Sealed},
				{`(SELECT v.number FROM config_versions v WHERE v.id = version_id)`, &c.Number}}
		},
	}
	return configTexts.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// AllGuardrails returns all guardrails of an organisation, including archived ones.
func (q Queries) AllGuardrails(ctx context.Context, organisation string) ([]Guardrail, error) {
	return guardrailTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// AllIntegrationModels returns the configured models of an organisation's active
// integrations.
func (q Queries) AllIntegrationModels(ctx context.Context, organisation string) ([]IntegrationModel, error) {
	return modelTable.list(ctx, q.Reader, `
		WHERE integration_id IN (SELECT id FROM integrations WHERE organisation_id = $1 AND status = 'active')
		ORDER BY integration_id, slug`, organisation)
}

// AllIntegrationWorkspaces returns the grants of active workspaces for an
// organisation's active integrations.
func (q Queries) AllIntegrationWorkspaces(ctx context.Context, organisation string) ([]IntegrationWorkspace, error) {
	return grantTable.list(ctx, q.Reader, `
		WHERE integration_id IN (SELECT id FROM integrations WHERE organisation_id = $1 AND status = 'active')
			AND workspace_id IN (SELECT id FROM workspaces WHERE status = 'active')
		ORDER BY integration_id, workspace_id`, organisation)
}

// AllPrompts returns all prompts and partials of an organisation, including archived
// ones.
func (q Queries) AllPrompts(ctx context.Context, organisation string) ([]Prompt, error) {
	return promptTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// AllPromptVersions returns the versions of an organisation's prompts by prompt id,
// sorted by number.
func (q Queries) AllPromptVersions(ctx context.Context, organisation string) (map[string][]PromptVersion, error) {
	list, err := promptVersionTable.list(ctx, q.Reader, `
		WHERE prompt_id IN (SELECT id FROM prompts WHERE organisation_id = $1)
		ORDER BY prompt_id, number`, organisation)
	versions := make(map[string][]PromptVersion)
	for _, v := range list {
		versions[v.Prompt] = append(versions[v.Prompt], v)
	}
	return versions, err
}

// AllPromptCollections returns all collections of an organisation, including archived
// ones.
func (q Queries) AllPromptCollections(ctx context.Context, organisation string) ([]PromptCollection, error) {
	return promptCollectionTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// AllKeys returns all keys of an organisation, including revoked ones.
func (q Queries) AllKeys(ctx context.Context, organisation string) ([]Key, error) {
	return keyTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id`, organisation)
}

// AllWorkspaceMembers returns the roles of users in the workspaces of an organisation,
// by user id and workspace id.
func (q Queries) AllWorkspaceMembers(ctx context.Context, organisation string) (map[string]map[string]string, error) {
	const text = `
		SELECT m.user_id, m.workspace_id, m.role
		FROM workspace_members m
		JOIN workspaces w ON w.id = m.workspace_id
		WHERE w.organisation_id = $1 AND w.status = 'active'`
	roles := make(map[string]map[string]string)
	_, err := sqlrow.List(ctx, q.Reader, "members", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var user, workspace, role string
		err = r.Scan(&user, &workspace, &role)
		if roles[user] == nil {
			roles[user] = make(map[string]string)
		}
		roles[user][workspace] = role
		return none, err
	}, organisation)
	return roles, err
}

// UserIDs returns the ids of the users of all organisations by e-mail address.
func (q Queries) UserIDs(ctx context.Context) (map[string]string, error) {
	const text = `
		SELECT email, id
		FROM users`
	ids := make(map[string]string)
	_, err := sqlrow.List(ctx, q.Reader, "users", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var email, id string
		err = r.Scan(&email, &id)
		ids[email] = id
		return none, err
	})
	return ids, err
}

// JoinOrganisation adds an existing user to an organisation.
func (tx *Tx) JoinOrganisation(ctx context.Context, organisation string, u User) error {
	const text = `
		INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $4)`
	return tx.write(ctx, journal.Members, "membership", text, organisation, u.ID, u.Role, millis(u.UpdatedAt))
}

// UpdateUser stores the name and state of a user. A user who is not active loses their
// sessions and links, and their keys are disabled until they are active again.
func (tx *Tx) UpdateUser(ctx context.Context, u User) error {
	const text = `
		UPDATE users
		SET first_name = $2, last_name = $3, status = $4, updated_at = $5
		WHERE id = $1`
	const links = `
		DELETE FROM password_links
		WHERE user_id = $1`
	if err := tx.write(ctx, journal.Unpublished, "user", text, u.ID, u.FirstName, u.LastName, u.Status, millis(u.UpdatedAt)); err != nil {
		return err
	}
	// Keys of inactive users are not published.
	if err := tx.change.Record(journal.Keys); err != nil || u.Status == Active {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "links", links, u.ID); err != nil {
		return err
	}
	if err := tx.endGrants(ctx, "", "", u.ID); err != nil {
		return err
	}
	return tx.EndSessions(ctx, "", u.ID, "")
}

// DeleteIntegrationModel deletes the configuration of a model.
func (tx *Tx) DeleteIntegrationModel(ctx context.Context, integration, slug string) error {
	const text = `
		DELETE FROM integration_models
		WHERE integration_id = $1 AND slug = $2`
	return tx.write(ctx, journal.IntegrationModels, "model", text, integration, slug)
}

// DeleteIntegrationWorkspace deletes the grant of a workspace, to which the global
// access then applies.
func (tx *Tx) DeleteIntegrationWorkspace(ctx context.Context, integration, workspace string) error {
	const text = `
		DELETE FROM integration_workspaces
		WHERE integration_id = $1 AND workspace_id = $2`
	return tx.write(ctx, journal.IntegrationWorkspaces, "workspace of an integration", text, integration, workspace)
}
