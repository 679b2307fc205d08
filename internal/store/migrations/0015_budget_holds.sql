-- What batches have reserved of budgets for their lines that were not sent. counter is the
-- name of a counter of limits, amount nano-dollars, tokens or requests.
CREATE TABLE budget_holds (
	object_id TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	counter TEXT NOT NULL,
	amount BIGINT NOT NULL,
	PRIMARY KEY (object_id, counter)
);
