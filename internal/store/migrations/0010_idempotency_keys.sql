-- Requests with an Idempotency-Key, by a hash of it and of the caller's credential. The
-- response is sealed with both, and empty until the request has ended.
CREATE TABLE idempotency_keys (
	id TEXT NOT NULL PRIMARY KEY,
	request TEXT NOT NULL,
	response TEXT NOT NULL,
	created_at BIGINT NOT NULL
);
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);
