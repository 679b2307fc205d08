-- The items of responses that the gateway keeps, by which requests refer to them.
CREATE TABLE response_items (
	response_id TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	item_id TEXT NOT NULL,
	workspace_id TEXT NOT NULL,
	PRIMARY KEY (response_id, item_id)
);

CREATE INDEX response_items_item ON response_items (workspace_id, item_id);
