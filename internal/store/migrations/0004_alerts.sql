-- Alerts, until all of their destinations have them, and then for a while so that none
-- is sent again. Without next_at nothing remains to be done.
CREATE TABLE alerts (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL,
        workspace_id TEXT NOT NULL,
        type TEXT NOT NULL,
        resource_type TEXT NOT NULL,
        resource_id TEXT NOT NULL,
        data TEXT NOT NULL,
        delivered TEXT NOT NULL,
        attempts BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        next_at BIGINT
);

CREATE INDEX alerts_due ON alerts (next_at) WHERE next_at IS NOT NULL;

CREATE INDEX alerts_resource ON alerts (resource_id, created_at);

CREATE INDEX alerts_created ON alerts (created_at);
