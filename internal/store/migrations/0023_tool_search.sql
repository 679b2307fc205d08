-- How many tools the address of a bundle lists at most; longer lists are replaced by tools for
-- searching. Zero lists all.
ALTER TABLE mcp_bundles ADD COLUMN search_above BIGINT NOT NULL DEFAULT 0;
