-- Gateway keys, and the number that grows with every change of the control plane.

CREATE TABLE revision (
        id BIGINT PRIMARY KEY CHECK (id = 1),
        value BIGINT NOT NULL
);

INSERT INTO revision (id, value) VALUES (1, 0);

CREATE TABLE api_keys (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        hash TEXT NOT NULL,
        mask TEXT NOT NULL,
        organisation TEXT NOT NULL,
        workspace TEXT NOT NULL,
        scopes TEXT NOT NULL,
        providers TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('active', 'revoked', 'expired')),
        created_at BIGINT NOT NULL,
        expires_at BIGINT
);

CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
