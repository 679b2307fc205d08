package security

import (
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to read the files of a gateway

	"modelgate/internal/testing/waittest"
)

// byAdministration is the reason for tables to which only the control plane adds rows, for
// callers with the scope for it. An organisation is trusted with them; see docs/security.md.
const byAdministration = "only the control plane adds rows"

// boundedTables says why requests cannot fill a table. A new table needs its reason here.
var boundedTables = map[string]string{
	"api_keys": byAdministration, "claims": byAdministration, "config_versions": byAdministration, "configs": byAdministration,
	"deployments": byAdministration, "exports": byAdministration, "gateway_keys": byAdministration, "guardrail_credentials": byAdministration, "jobs": byAdministration,
	"guardrail_modules": byAdministration, "guardrail_versions": byAdministration, "idempotency_keys": byAdministration, "guardrails": byAdministration, "integration_models": byAdministration, "integration_workspaces": byAdministration,
	"integrations": byAdministration, "invites": byAdministration, "limit_setters": byAdministration, "organisation_members": byAdministration,
	"organisations": byAdministration, "password_links": byAdministration, "policies": byAdministration, "policy_resets": byAdministration,
	"prompt_collections": byAdministration, "prompt_labels": byAdministration, "prompt_versions": byAdministration, "prompts": byAdministration,
	"providers": byAdministration, "secret_references": byAdministration, "users": byAdministration, "workspace_members": byAdministration,
	"webhook_endpoints": byAdministration, "workspaces": byAdministration, "cache_invalidations": byAdministration, "sessions": byAdministration,
	"identity_providers": byAdministration, "domains": byAdministration, "identities": "one of each person that an identity provider names",

	"passkeys":       "twenty for each member",
	"one_time_codes": "one for each member",
	"recovery_codes": "ten for each member",

	"spent_tokens": "as long as the tokens are valid, which only the keys of identity providers and of members sign",

	"workload_identities": "200 for each organisation",
	"device_codes":        "ten minutes, and 10000 at a time",

	"mcp_integrations": "200 for each organisation", "mcp_integration_workspaces": byAdministration,
	"mcp_servers": "128 for each workspace", "mcp_bundles": "128 for each workspace", "mcp_user_access": "1000 for each server",
	"mcp_capabilities": "10000 for each integration and server", "mcp_syncs": "one for each integration and server",
	"mcp_connections": "one for each user and server",
	"mcp_clients":     "one for each server",
	"mcp_sign_ins":    "20 for each user, for 20 minutes",
	"oauth_clients":   "100 for each organisation, and 10000 that registered themselves; deleted if nobody uses them for 30 days",
	"oauth_grants":    "50 for each user, 20000 for each organisation",
	"oauth_proofs":    "one for each grant",

	"directory_tokens":        "two for each organisation",
	"export_schedules":        "200 for each organisation",
	"directory_users":         byAdministration,
	"directory_emails":        "a hundred for each user of a directory",
	"directory_groups":        byAdministration,
	"directory_group_members": byAdministration,
	"directory_mappings":      byAdministration,
	"role_grants":             "a row for each source, user and workspace",

	"objects": "files.workspace_quota, and a number of each kind in a workspace",

	"budget_holds": "200 for each batch; deleted with it",

	"response_turns":     "responses.keep_days; deleted with their objects",
	"response_items":     "the items of a response; deleted with it",
	"response_events":    "responses.keep_days; deleted with their objects",
	"conversation_items": "10000 in a conversation; deleted with it",

	"revision":           "one row",
	"schema_migrations":  "a row for each version of the database",
	"schema_additions":   "a row for each version of the database",
	"format":             "one row",
	"changes":            "the latest revisions only",
	"audit_heads":        "a row for each organisation",
	"audit_marks":        "a row for each organisation and destination",
	"audit_senders":      "a row for each destination",
	"audit_logs":         "audit.retention.bytes",
	"alerts":             "removed after they were sent",
	"webhook_deliveries": "a row for each endpoint and batch, response or job that has ended; removed after 30 days",
	"policy_alerts":      "two rows for each counter of a policy",
	"spending":           "a row for each key, workspace, provider and counter of a policy",
	"ledger_marks":       "a row for each segment of a ledger",
	"sign_in_limits":     "expire, and are limited in number",
	"sign_in_addresses":  "ten for each user",
	"batches":            "a row for each process; they expire",
	"counters":           "a row for each counter; they expire",

	"blocks":        "logs.retention.bytes",
	"bodies":        "logs.retention.bytes",
	"feedback":      "an eighth of logs.retention.bytes",
	"guard_results": "an eighth of logs.retention.bytes",
	"rollups":       "a limited number of values in an hour; logs.retention.sums_days",
	"unrecorded":    "one row for each table, in tests",
}

// rowCounts returns the number of rows of each table of the databases of a gateway.
// Partitions count for their table.
func (g *gateway) rowCounts(t *testing.T) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	if g.options.database != "" {
		g.countRows(t, counts, "pgx", g.options.database, `
			SELECT DISTINCT t.table_schema || '.' || t.table_name, COALESCE(parent.relname, t.table_name)
			FROM information_schema.tables t
			JOIN pg_class c ON c.oid = (quote_ident(t.table_schema) || '.' || quote_ident(t.table_name))::regclass
			LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
			LEFT JOIN pg_class parent ON parent.oid = i.inhparent
			WHERE t.table_schema NOT IN ('pg_catalog', 'information_schema') AND c.relkind = 'r'`)
		return counts
	}
	for _, file := range []string{"modelgate.db", "logs.db"} {
		g.countRows(t, counts, "sqlite", "file:"+filepath.Join(g.data, file)+"?mode=ro", `
			SELECT name, name
			FROM sqlite_master
			WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`)
	}
	return counts
}

// countRows adds the number of rows of the tables that a query lists.
func (g *gateway) countRows(t *testing.T, counts map[string]int, driver, address, list string) {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	tables := make(map[string]string)
	for rows.Next() {
		var name, table string
		if err := rows.Scan(&name, &table); err != nil {
			t.Fatal(err)
		}
		tables[name] = table
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for name, table := range tables {
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM `+name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[table] += n
	}
}

// TestRequestsFillNoTable walks all tables of both databases before and after requests of
// all kinds by a key that administers nothing.
func TestRequestsFillNoTable(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		config := func(more string) string {
			return fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x"%s}`, p.url, more)
		}
		round := func(i int) {
			id := fmt.Sprint("v", i)
			g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config(`,"input_guardrails":[{"id":"`+id+`","default.contains":{"words":["x"]},"on_success":{"feedback":{"value":1,"metadata":{"a":"`+id+`"}}}}]`),
				"x-gateway-trace-id", id, "x-gateway-metadata", `{"_user":"`+id+`","`+id+`":"x"}`)
			g.do(t, "POST", "/v1/embeddings", `{"model":"`+id+`","input":"x"}`, "x-gateway-api-key", key, "x-gateway-config", config(`,"retry":{"attempts":1}`))
			g.do(t, "POST", "/v1/feedback", `{"trace_id":"`+id+`","value":1}`, "x-gateway-api-key", key)
			g.do(t, "GET", "/v1/configs/"+id, "", "x-gateway-api-key", key)
			g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", "mg-"+id)
			g.do(t, "GET", "/v1/"+id, "", "x-gateway-api-key", key)
		}
		round(0)
		waittest.Until(t, "the log has the first requests", func() bool { return g.rowCounts(t)["feedback"] > 0 && g.rowCounts(t)["blocks"] > 0 })
		before := g.rowCounts(t)
		for i := range 25 {
			round(i + 1)
		}
		waittest.Until(t, "the log has the feedback", func() bool { return g.rowCounts(t)["feedback"] >= 26 })
		after := g.rowCounts(t)
		if len(after) < 40 {
			t.Fatalf("only %d tables were found: %q", len(after), slices.Sorted(maps.Keys(after)))
		}
		for _, table := range slices.Sorted(maps.Keys(after)) {
			attack(t, "exhaustion", "fill the table "+table, func(t *testing.T) {
				reason := boundedTables[table]
				if reason == "" {
					t.Errorf("nothing bounds the table %s: give it a retention with bytes, or its reason in boundedTables", table)
				}
				if n := after[table] - before[table]; n > 0 && reason == byAdministration {
					t.Errorf("requests of a key that administers nothing added %d rows", n)
				}
			})
		}
	})
}

// TestFeedbackStaysWithinTheRetention sends feedback with as much metadata as it may have.
func TestFeedbackStaysWithinTheRetention(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		o.settings = "version: 1\nlogs: {retention: {bytes: 64 MB}}\n"
		g := launch(t, o)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		metadata := make([]string, 64)
		for i := range metadata {
			metadata[i] = fmt.Sprintf(`"%d":%q`, i, strings.Repeat("x", 512))
		}
		one := `{"trace_id":"t","value":1,"metadata":{` + strings.Join(metadata, ",") + `}}`
		attack(t, "exhaustion", "feedback of 50 MB where it may have 8 MB", func(t *testing.T) {
			for range 75 {
				g.as(t, key, "POST", "/v1/feedback", `[`+strings.Repeat(one+",", 19)+one+`]`).ok(t)
			}
			// A row has 33 KB. 8 MB are allowed, and 16 MB more until the next removal.
			waittest.Until(t, "the oldest feedback is removed", func() bool { n := g.rowCounts(t)["feedback"]; return n > 100 && n < 770 })
		})
	})
}
