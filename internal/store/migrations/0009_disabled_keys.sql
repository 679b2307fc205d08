-- Keys can be disabled without revoking them.
ALTER TABLE gateway_keys ADD COLUMN disabled BOOLEAN NOT NULL DEFAULT FALSE;
