-- The form of what an endpoint receives: slack or teams, or empty for the events themselves.
ALTER TABLE webhook_endpoints ADD COLUMN format TEXT NOT NULL DEFAULT '';
