-- Agents are servers whose integration has the transport a2a.
ALTER TABLE mcp_servers ADD COLUMN agent BOOLEAN NOT NULL DEFAULT FALSE;
