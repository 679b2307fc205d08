-- The control plane: who there is, what they own and what they did. Text that
-- both SQLite and PostgreSQL take. Times are unix milliseconds, JSON is text
-- that SQL never looks into, ids are time-ordered UUIDs made by the program.

-- What the latest changes wrote to, so that a gateway reads again only that.
CREATE TABLE changes (
        revision BIGINT NOT NULL,
        mark TEXT NOT NULL,
        part TEXT NOT NULL,
        id TEXT NOT NULL
);

CREATE INDEX changes_revision ON changes (revision);

CREATE TABLE organisations (
        id TEXT PRIMARY KEY,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        owner_id TEXT NOT NULL,
        settings TEXT NOT NULL,
        data_key TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX organisations_slug ON organisations (slug);

CREATE TABLE workspaces (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        icon TEXT NOT NULL,
        description TEXT NOT NULL,
        defaults TEXT NOT NULL,
        settings TEXT NOT NULL,
        security_settings TEXT NOT NULL,
        usage_limits TEXT NOT NULL,
        rate_limits TEXT NOT NULL,
        is_default BOOLEAN NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        exhausted BOOLEAN NOT NULL DEFAULT FALSE,
        usage_reset_at BIGINT
);

CREATE UNIQUE INDEX workspaces_slug ON workspaces (organisation_id, slug);

CREATE TABLE users (
        id TEXT PRIMARY KEY,
        email TEXT NOT NULL,
        first_name TEXT NOT NULL,
        last_name TEXT NOT NULL,
        password_hash TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX users_email ON users (email);

CREATE TABLE organisation_members (
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        user_id TEXT NOT NULL REFERENCES users (id),
        role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        PRIMARY KEY (organisation_id, user_id)
);

CREATE TABLE workspace_members (
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        user_id TEXT NOT NULL REFERENCES users (id),
        role TEXT NOT NULL CHECK (role IN ('admin', 'manager', 'member')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        PRIMARY KEY (workspace_id, user_id)
);

CREATE TABLE invites (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        email TEXT NOT NULL,
        role TEXT NOT NULL,
        workspaces TEXT NOT NULL,
        key_details TEXT NOT NULL,
        token_hash TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'accepted', 'cancelled', 'expired')),
        invited_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL,
        accepted_at BIGINT
);

CREATE UNIQUE INDEX invites_pending ON invites (organisation_id, email) WHERE status = 'pending';

-- One-time links for the first owner, and sessions of people. Both are known
-- by the hash of their secret alone.
CREATE TABLE claims (
        hash TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
);

-- One-time links by which people set a password, the first one or another, one
-- link for each.
CREATE TABLE password_links (
        user_id TEXT PRIMARY KEY REFERENCES users (id),
        hash TEXT NOT NULL,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        resets BOOLEAN NOT NULL,
        by_operator BOOLEAN NOT NULL,
        created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX password_links_hash ON password_links (hash);

CREATE TABLE sessions (
        hash TEXT PRIMARY KEY,
        id TEXT NOT NULL,
        user_id TEXT NOT NULL REFERENCES users (id),
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        address TEXT NOT NULL,
        user_agent TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        last_used_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX sessions_id ON sessions (id);

CREATE INDEX sessions_user ON sessions (user_id, organisation_id);

-- Attempts to sign in, by the hash of what they are counted for.
CREATE TABLE sign_in_limits (
        id TEXT PRIMARY KEY,
        tries BIGINT NOT NULL,
        counted_at BIGINT NOT NULL,
        open_at BIGINT NOT NULL,
        ends_at BIGINT NOT NULL
);

CREATE INDEX sign_in_limits_end ON sign_in_limits (ends_at);

-- Addresses from which people signed in with success.
CREATE TABLE sign_in_addresses (
        user_id TEXT NOT NULL REFERENCES users (id),
        address TEXT NOT NULL,
        used_at BIGINT NOT NULL,
        PRIMARY KEY (user_id, address)
);

-- Gateway keys get what belongs to them. The table is made anew because a
-- condition on a column can't be changed in place everywhere.
CREATE TABLE gateway_keys (
        id TEXT PRIMARY KEY,
        type TEXT NOT NULL,
        organisation_id TEXT NOT NULL,
        workspace_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        hash TEXT NOT NULL,
        mask TEXT NOT NULL,
        scopes TEXT NOT NULL,
        providers TEXT NOT NULL,
        defaults TEXT NOT NULL,
        usage_limits TEXT NOT NULL,
        rate_limits TEXT NOT NULL,
        alert_emails TEXT NOT NULL,
        rotation_policy TEXT NOT NULL,
        previous_hash TEXT,
        transition_ends_at BIGINT,
        creation_mode TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'revoked', 'expired', 'exhausted')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        expires_at BIGINT,
        rotation_due_at BIGINT,
        rotation_told_at BIGINT,
        usage_reset_at BIGINT,
        origin TEXT NOT NULL DEFAULT '{}'
);

-- Who set which limit of what, so that a caller below does not lift it.
CREATE TABLE limit_setters (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        field TEXT NOT NULL,
        rank INTEGER NOT NULL,
        set_by TEXT NOT NULL,
        PRIMARY KEY (kind, id, field)
);

INSERT INTO gateway_keys (id, type, organisation_id, workspace_id, user_id, name, description, hash, mask, scopes, providers,
        defaults, usage_limits, rate_limits, alert_emails, rotation_policy, creation_mode, status, created_at, updated_at, expires_at)
SELECT id, 'workspace-service', organisation, workspace, '', name, '', hash, mask, scopes, providers,
        '{}', 'null', '[]', '[]', 'null', 'api', status, created_at, created_at, expires_at
FROM api_keys;

DROP TABLE api_keys;

CREATE UNIQUE INDEX gateway_keys_hash ON gateway_keys (hash);

CREATE UNIQUE INDEX gateway_keys_previous_hash ON gateway_keys (previous_hash);

CREATE TABLE integrations (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        provider TEXT NOT NULL,
        sealed TEXT NOT NULL,
        configurations TEXT NOT NULL,
        secret_mappings TEXT NOT NULL,
        pricing TEXT NOT NULL,
        tags TEXT NOT NULL,
        allow_all_models BOOLEAN NOT NULL,
        global_enabled BOOLEAN NOT NULL,
        global_usage_limits TEXT NOT NULL,
        global_rate_limits TEXT NOT NULL,
        implicit BOOLEAN NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX integrations_slug ON integrations (organisation_id, slug) WHERE status = 'active';

CREATE TABLE integration_models (
        integration_id TEXT NOT NULL REFERENCES integrations (id) ON DELETE CASCADE,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        enabled BOOLEAN NOT NULL,
        is_custom BOOLEAN NOT NULL,
        is_finetune BOOLEAN NOT NULL,
        base_model_slug TEXT NOT NULL,
        pricing TEXT NOT NULL,
        configurations TEXT NOT NULL,
        sealed TEXT NOT NULL,
        PRIMARY KEY (integration_id, slug)
);

CREATE TABLE integration_workspaces (
        integration_id TEXT NOT NULL REFERENCES integrations (id) ON DELETE CASCADE,
        workspace_id TEXT NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
        enabled BOOLEAN NOT NULL,
        usage_limits TEXT NOT NULL,
        rate_limits TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'exhausted')),
        usage_reset_at BIGINT,
        PRIMARY KEY (integration_id, workspace_id)
);

CREATE TABLE providers (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        integration_id TEXT NOT NULL REFERENCES integrations (id),
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        note TEXT NOT NULL,
        usage_limits TEXT NOT NULL,
        rate_limits TEXT NOT NULL,
        tags TEXT NOT NULL,
        made_by_grant BOOLEAN NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'exhausted', 'expired', 'archived')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        expires_at BIGINT,
        usage_reset_at BIGINT
);

CREATE UNIQUE INDEX providers_slug ON providers (workspace_id, slug) WHERE status <> 'archived';

CREATE INDEX providers_integration ON providers (integration_id);

CREATE TABLE configs (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        is_default BOOLEAN NOT NULL,
        version_id TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        owner_id TEXT NOT NULL,
        updated_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX configs_slug ON configs (workspace_id, slug);

CREATE TABLE config_versions (
        id TEXT PRIMARY KEY,
        config_id TEXT NOT NULL REFERENCES configs (id) ON DELETE CASCADE,
        number BIGINT NOT NULL,
        text TEXT NOT NULL,
        sealed TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX config_versions_number ON config_versions (config_id, number);

CREATE TABLE guardrails (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        version_id TEXT NOT NULL,
        checks TEXT NOT NULL,
        actions TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        owner_id TEXT NOT NULL,
        updated_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX guardrails_slug ON guardrails (organisation_id, slug);

-- Saved prompts and the partials that they hold, told apart by their kind. What
-- a version says never changes; its label may move to another.
CREATE TABLE prompt_collections (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        parent_id TEXT NOT NULL,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        is_default BOOLEAN NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX prompt_collections_slug ON prompt_collections (workspace_id, slug);

CREATE UNIQUE INDEX prompt_collections_default ON prompt_collections (workspace_id) WHERE is_default;

CREATE TABLE prompts (
        id TEXT PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('prompt', 'partial')),
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        collection_id TEXT NOT NULL,
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        published BIGINT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        owner_id TEXT NOT NULL,
        updated_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX prompts_slug ON prompts (workspace_id, slug);

CREATE TABLE prompt_versions (
        id TEXT PRIMARY KEY,
        prompt_id TEXT NOT NULL REFERENCES prompts (id) ON DELETE CASCADE,
        number BIGINT NOT NULL,
        text TEXT NOT NULL,
        model TEXT NOT NULL,
        description TEXT NOT NULL,
        metadata TEXT NOT NULL,
        label_id TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX prompt_versions_number ON prompt_versions (prompt_id, number);

CREATE UNIQUE INDEX prompt_versions_label ON prompt_versions (prompt_id, label_id) WHERE label_id <> '';

-- Labels without an organisation are those that everybody has.
CREATE TABLE prompt_labels (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL,
        workspace_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        color_code TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX prompt_labels_name ON prompt_labels (organisation_id, workspace_id, name);

CREATE TABLE secret_references (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        manager_type TEXT NOT NULL,
        auth_config TEXT NOT NULL,
        sealed TEXT NOT NULL,
        secret_path TEXT NOT NULL,
        secret_key TEXT NOT NULL,
        allow_all_workspaces BOOLEAN NOT NULL,
        allowed_workspaces TEXT NOT NULL,
        allowed_providers TEXT NOT NULL,
        allowed_hosts TEXT NOT NULL,
        tags TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX secret_references_slug ON secret_references (organisation_id, slug);

CREATE TABLE deployments (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        slug TEXT NOT NULL,
        name TEXT NOT NULL,
        type TEXT NOT NULL CHECK (type IN ('production', 'non-production')),
        config TEXT NOT NULL,
        allow_all_workspaces BOOLEAN NOT NULL,
        workspaces TEXT NOT NULL,
        auth_settings TEXT NOT NULL,
        client_hash TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'inactive')),
        last_seen_at BIGINT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX deployments_slug ON deployments (organisation_id, slug);

-- Exports of the log: what is asked for, and where it stands. The node that
-- makes one holds it by a lease.
CREATE TABLE exports (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL REFERENCES workspaces (id),
        format TEXT NOT NULL CHECK (format IN ('jsonl', 'csv', 'parquet')),
        filters TEXT NOT NULL,
        requested TEXT NOT NULL,
        fields TEXT NOT NULL,
        visible_keys TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('draft', 'in_progress', 'success', 'failed', 'stopped', 'expired')),
        failure TEXT NOT NULL,
        expected BIGINT,
        row_count BIGINT NOT NULL,
        byte_count BIGINT NOT NULL,
        file TEXT NOT NULL,
        link_key TEXT NOT NULL,
        claimed_by TEXT NOT NULL,
        tries BIGINT NOT NULL,
        lease_until BIGINT,
        user_id TEXT NOT NULL,
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        started_at BIGINT,
        ended_at BIGINT,
        expires_at BIGINT
);

CREATE INDEX exports_organisation ON exports (organisation_id, workspace_id);

CREATE INDEX exports_status ON exports (status);

-- What attempts came to since there is a ledger: by key, by workspace, by provider
-- and by what a workspace has of an integration, whose id is both with a slash.
CREATE TABLE spending (
        kind TEXT NOT NULL CHECK (kind IN ('key', 'workspace', 'provider', 'grant')),
        id TEXT NOT NULL,
        attempts BIGINT NOT NULL,
        cost BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        unknown BIGINT NOT NULL,
        unpriced BIGINT NOT NULL,
        PRIMARY KEY (kind, id)
);

-- Up to where the segments of ledgers are in it.
CREATE TABLE ledger_marks (
        segment TEXT PRIMARY KEY,
        counted BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE INDEX ledger_marks_time ON ledger_marks (updated_at);

CREATE TABLE audit_logs (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL,
        workspace_id TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        method TEXT NOT NULL,
        uri TEXT NOT NULL,
        query_params TEXT NOT NULL,
        request_headers TEXT NOT NULL,
        request_body TEXT NOT NULL,
        request_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        user_type TEXT NOT NULL,
        response_status_code BIGINT NOT NULL,
        resource_type TEXT NOT NULL,
        resource_id TEXT NOT NULL,
        action TEXT NOT NULL,
        client_ip TEXT NOT NULL,
        host TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        hash TEXT NOT NULL
);

CREATE INDEX audit_logs_time ON audit_logs (organisation_id, created_at);

CREATE UNIQUE INDEX audit_logs_sequence ON audit_logs (organisation_id, sequence);

-- The latest row of each organisation's audit log: whoever adds one locks it.
CREATE TABLE audit_heads (
        organisation_id TEXT PRIMARY KEY,
        sequence BIGINT NOT NULL,
        hash TEXT NOT NULL
);

-- Up to where the audit log was sent, and which node sends it now.
CREATE TABLE audit_marks (
        destination TEXT NOT NULL,
        organisation_id TEXT NOT NULL,
        sequence BIGINT NOT NULL,
        PRIMARY KEY (destination, organisation_id)
);

CREATE TABLE audit_senders (
        destination TEXT PRIMARY KEY,
        node TEXT NOT NULL,
        lease_until BIGINT NOT NULL
);

-- What there is from the start: one organisation with one workspace, under
-- fixed ids. Keys made before there were organisations belong to it.
INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
VALUES ('00000000-0000-7000-8000-000000000001', 'default', 'Default', '', '{}', '', 'active', 0, 0);

INSERT INTO workspaces (id, organisation_id, slug, name, icon, description, defaults, settings, security_settings,
        usage_limits, rate_limits, is_default, status, created_by, created_at, updated_at)
VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'default', 'Default', '', '', '{}', '{}', '{}',
        '[]', '[]', TRUE, 'active', '', 0, 0);

INSERT INTO prompt_collections (id, organisation_id, workspace_id, parent_id, slug, name, is_default, status, created_at, updated_at)
VALUES ('00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002', '',
        'co-default', 'Default', TRUE, 'active', 0, 0);

INSERT INTO prompt_labels (id, organisation_id, workspace_id, name, description, color_code, created_at, updated_at)
VALUES ('00000000-0000-7000-8000-000000000011', '', '', 'production', '', '', 0, 0),
        ('00000000-0000-7000-8000-000000000012', '', '', 'staging', '', '', 0, 0),
        ('00000000-0000-7000-8000-000000000013', '', '', 'development', '', '', 0, 0);

UPDATE gateway_keys
SET organisation_id = '00000000-0000-7000-8000-000000000001', workspace_id = '00000000-0000-7000-8000-000000000002'
WHERE organisation_id = '' AND workspace_id = '';
