-- Rate-limit and usage-limit policies, and how often their counters were reset.
CREATE TABLE policies (
        id TEXT PRIMARY KEY,
        organisation_id TEXT NOT NULL REFERENCES organisations (id),
        workspace_id TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('rate', 'usage')),
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        conditions TEXT NOT NULL,
        group_by TEXT NOT NULL,
        type TEXT NOT NULL,
        unit TEXT NOT NULL,
        settings TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'archived')),
        created_by TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
);

CREATE INDEX policies_organisation ON policies (organisation_id, kind, status);

CREATE TABLE policy_resets (
        policy_id TEXT NOT NULL REFERENCES policies (id),
        entity_id TEXT NOT NULL,
        generation BIGINT NOT NULL,
        reset_at BIGINT NOT NULL,
        PRIMARY KEY (policy_id, entity_id)
);

-- Warnings that were recorded about counters of usage limits.
CREATE TABLE policy_alerts (
        policy_id TEXT NOT NULL REFERENCES policies (id),
        counter TEXT NOT NULL,
        event TEXT NOT NULL CHECK (event IN ('threshold', 'exhausted')),
        created_at BIGINT NOT NULL,
        PRIMARY KEY (policy_id, counter, event)
);

-- Spend is also counted for policies, by the names of their counters. A table
-- without the old list of kinds replaces the one that has it.
CREATE TABLE spending_of_all_kinds (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        attempts BIGINT NOT NULL,
        cost BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        unknown BIGINT NOT NULL,
        unpriced BIGINT NOT NULL,
        PRIMARY KEY (kind, id)
);

INSERT INTO spending_of_all_kinds (kind, id, attempts, cost, tokens, unknown, unpriced)
SELECT kind, id, attempts, cost, tokens, unknown, unpriced
FROM spending;

DROP TABLE spending;

ALTER TABLE spending_of_all_kinds RENAME TO spending;

-- A counter of a policy begins with the id of the policy.
CREATE INDEX spending_policy ON spending (SUBSTR(id, 1, 36)) WHERE kind = 'policy';
