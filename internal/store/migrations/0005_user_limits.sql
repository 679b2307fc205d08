-- Rate limits and a budget of each user of an organisation.
ALTER TABLE organisation_members ADD COLUMN usage_limits TEXT NOT NULL DEFAULT 'null';

ALTER TABLE organisation_members ADD COLUMN rate_limits TEXT NOT NULL DEFAULT '[]';

ALTER TABLE organisation_members ADD COLUMN exhausted BOOLEAN NOT NULL DEFAULT FALSE;

ALTER TABLE organisation_members ADD COLUMN usage_reset_at BIGINT;
