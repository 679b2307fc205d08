-- Users and groups that the directory of an organisation writes by SCIM. A person who
-- is deactivated stays a member, with a status of their own in each organisation. The
-- role of a membership was set by hand or given by groups; the one set by hand returns
-- when groups give none that is higher.
ALTER TABLE organisation_members ADD COLUMN status TEXT NOT NULL DEFAULT 'active';

ALTER TABLE organisation_members ADD COLUMN origin TEXT NOT NULL DEFAULT 'manual';

ALTER TABLE organisation_members ADD COLUMN manual_role TEXT NOT NULL DEFAULT '';

ALTER TABLE workspace_members ADD COLUMN origin TEXT NOT NULL DEFAULT 'manual';

ALTER TABLE workspace_members ADD COLUMN manual_role TEXT NOT NULL DEFAULT '';

-- Limits of users are read after each change, of whom a directory may write ten thousand.
CREATE INDEX organisation_members_limited ON organisation_members (organisation_id, user_id)
WHERE rate_limits <> '[]' OR usage_limits <> 'null';

CREATE INDEX workspace_members_user ON workspace_members (user_id);

CREATE TABLE directory_tokens (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	name TEXT NOT NULL,
	hash TEXT NOT NULL,
	hint TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	last_used_at BIGINT
);

CREATE UNIQUE INDEX directory_tokens_hash ON directory_tokens (hash);

CREATE INDEX directory_tokens_organisation ON directory_tokens (organisation_id);

-- Keys are in lower case, for comparisons in any letter case.
CREATE TABLE directory_users (
	organisation_id TEXT NOT NULL,
	id TEXT NOT NULL,
	name_key TEXT NOT NULL,
	external_id TEXT NOT NULL,
	display_key TEXT NOT NULL,
	given_key TEXT NOT NULL,
	family_key TEXT NOT NULL,
	active BOOLEAN NOT NULL,
	attributes TEXT NOT NULL,
	version BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (organisation_id, id)
);

CREATE UNIQUE INDEX directory_users_name ON directory_users (organisation_id, name_key);

CREATE INDEX directory_users_external ON directory_users (organisation_id, external_id);

CREATE TABLE directory_emails (
	organisation_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	position BIGINT NOT NULL,
	value_key TEXT NOT NULL,
	type_key TEXT NOT NULL,
	is_primary BOOLEAN NOT NULL,
	PRIMARY KEY (organisation_id, user_id, position)
);

CREATE INDEX directory_emails_value ON directory_emails (organisation_id, value_key);

-- A group that a mapping names before the directory sends it is not provisioned yet.
CREATE TABLE directory_groups (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	name TEXT NOT NULL,
	name_key TEXT NOT NULL,
	external_id TEXT NOT NULL,
	provisioned BOOLEAN NOT NULL,
	version BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX directory_groups_name ON directory_groups (organisation_id, name_key);

CREATE INDEX directory_groups_external ON directory_groups (organisation_id, external_id);

CREATE TABLE directory_group_members (
	group_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	PRIMARY KEY (group_id, user_id)
);

CREATE INDEX directory_group_members_user ON directory_group_members (user_id);

-- Roles that groups give: in a workspace, or in the organisation if there is none. A
-- mapping by name follows the name of its group.
CREATE TABLE directory_mappings (
	id TEXT PRIMARY KEY,
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	group_id TEXT NOT NULL,
	role TEXT NOT NULL,
	by_name BOOLEAN NOT NULL,
	status TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX directory_mappings_active ON directory_mappings (group_id, workspace_id) WHERE status = 'active';

CREATE INDEX directory_mappings_organisation ON directory_mappings (organisation_id);

-- Roles that groups of other sources than SCIM give, such as those of an identity provider.
CREATE TABLE role_grants (
	organisation_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	source TEXT NOT NULL,
	role TEXT NOT NULL,
	PRIMARY KEY (organisation_id, user_id, workspace_id, source)
);
