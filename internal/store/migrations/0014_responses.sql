-- Contents of responses and conversations that the gateway keeps, sealed with the data key
-- of the organisation. They are deleted with the objects that they belong to.
CREATE TABLE response_turns (
	id TEXT PRIMARY KEY REFERENCES objects (id) ON DELETE CASCADE,
	content BYTEA NOT NULL
);

-- The items of conversations, in the order of their positions.
CREATE TABLE conversation_items (
	conversation_id TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	position BIGINT NOT NULL,
	id TEXT NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (conversation_id, position)
);

CREATE UNIQUE INDEX conversation_items_id ON conversation_items (conversation_id, id);

-- The events of responses in the background, several in a row. first is the sequence number
-- of the first event, last that of the last one.
CREATE TABLE response_events (
	response_id TEXT NOT NULL REFERENCES objects (id) ON DELETE CASCADE,
	first BIGINT NOT NULL,
	last BIGINT NOT NULL,
	content BYTEA NOT NULL,
	PRIMARY KEY (response_id, first)
);
