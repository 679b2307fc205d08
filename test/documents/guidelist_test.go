package documents_test

// What pages name that a new gateway lacks.
const (
	openai      = "echo sk-1 | modelgate integrations create OpenAI --slug openai --ai-provider openai --workspace default --credential @-\n"
	claude      = "echo sk-2 | modelgate integrations create Claude --slug claude --ai-provider anthropic --workspace default --credential @-\n"
	fireworks   = "echo fw-1 | modelgate integrations create Fireworks --slug fireworks --ai-provider fireworks-ai --workspace default --credential @-\n"
	team        = "echo sk-3 | modelgate integrations create Team --slug team --ai-provider openai --workspace default --credential @-\n"
	application = "APPLICATION=$(modelgate keys create application --workspace default --scopes completions.write,models.list,logs.list,logs.write,prompts.render)\n"
	workspaces  = `echo 'workspaces: [{slug: support}, {slug: research}, {slug: ws-research}]
members: [{email: ann@example.com, workspaces: {support: member}}]' >workspaces.yaml
modelgate apply workspaces.yaml --data data
`
	guardrails = `cat >guardrails.yaml <<'END'
guardrails:
  - {slug: pg-no-secrets, name: No secrets, checks: [{id: default.contains, parameters: {words: [secret]}}], actions: {deny: true}}
  - {slug: pg-heron, name: Heron, checks: [{id: default.contains, parameters: {words: [heron], operator: none}}], actions: {mode: shadow}}
organisation: {settings: {output_guardrails: [pg-heron]}}
END
modelgate apply guardrails.yaml --data data
`
	check = `cat >check.go <<'END'
package main

import "fmt"

func main() { fmt.Println("{\"verdict\": true}") }
END
go mod init check >/dev/null 2>&1
`
	// Each code is accepted once, so that the first is of the step before, the next of this one and so on.
	// https://www.rfc-editor.org/rfc/rfc6238
	totp = `echo -1 >steps
totp() {
	SECRET=$(jq -r .secret enrolment.json | base32 -d | od -An -v -tx1 | tr -d ' \n')
	STEP=$(printf %016x $(($(date +%s) / 30 + $(cat steps))) | sed 's/../\\x&/g')
	MAC=$(printf "$STEP" | openssl dgst -sha1 -mac HMAC -macopt "hexkey:$SECRET" -r | cut -c 1-40)
	FROM=$((0x${MAC:39:1} * 2))
	printf %06d $(((0x${MAC:FROM:8} & 0x7fffffff) % 1000000))
	echo $(($(cat steps) + 1)) >steps
}
`
	batch = `FILE=$(curl -s $MODELGATE_URL/v1/files -H "x-gateway-api-key: $MODELGATE_BOOTSTRAP_KEY" -F purpose=batch -F 'file={"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"@openai/gpt-4o","messages":[{"role":"user","content":"Hello"}]}};filename=a.jsonl' | jq -r .id)
curl -s $MODELGATE_URL/v1/batches -H "x-gateway-api-key: $MODELGATE_BOOTSTRAP_KEY" --json '{"input_file_id": "'$FILE'", "endpoint": "/v1/chat/completions", "completion_window": "immediate"}'
`
	okta = `curl -s $MODELGATE_URL/v1/identity-providers -H "x-gateway-api-key: $MODELGATE_BOOTSTRAP_KEY" --json '{"name": "Okta", "slug": "okta", "issuer": "https://example.okta.com",
  "client_id": "0oa1", "client_secret": "secret", "domains": ["example.com"]}'
`
	owner = `echo 'members: [{email: owner@example.com, role: owner}, {email: somebody@example.com}]' >people.yaml
modelgate apply people.yaml --data data
`
	server = `cat >server.json <<'END'
{"name": "com.example/issues", "description": "Issues", "version": "1.0.0",
 "remotes": [{"type": "streamable-http", "url": "https://tracker.example.com/mcp", "headers": [{"name": "Authorization", "isRequired": true, "isSecret": true}]}]}
END
`
	request = `curl -s $MODELGATE_URL/v1/chat/completions -H "x-gateway-api-key: $APPLICATION" -H "x-gateway-provider: @openai" \
  -H 'x-gateway-trace-id: order-7' -H 'x-gateway-metadata: {"team": "search"}' --json '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "A heron"}]}'
`
)

// guides are the pages that need more than a gateway.
var guides = map[string]guide{
	"../README.md": {fill: []string{"curl -i http", "curl -s -i http"}},
	"administration.md": {bare: true, before: "echo gsk-2 >key.txt; echo 'members: [{email: somebody@example.com}]' >people.yaml", fill: []string{
		"curl -s -X POST $BASE/admin/users/somebody@example.com/link", "modelgate apply people.yaml --data data\ncurl -s -X POST $BASE/admin/users/somebody@example.com/link",
		`"role": "manager"}]}'`, `"role": "manager"}]}' >invite.json
curl -s $BASE/auth/invites/accept --json '{"token": "'$(grep -o 'token=[A-Za-z0-9_-]*' invite.json | head -n 1 | cut -d = -f 2)'", "password": "a long password of theirs"}'`,
		"LINK=mgl-...", "LINK=$(grep -oh 'mgl-[A-Za-z0-9_-]*' ../script-*.out | head -n 1)",
		"ID=01a2...", `ID=$(curl -s $BASE/auth/login --json '{"email": "you@example.com", "password": "a long password of yours"}' | jq -r .id)`,
		"MAKER=mg-...", `MAKER=$(curl -s $BASE/api-keys/workspace/service -H "authorization: Bearer $TOKEN" --json '{"name": "maker", "workspace_id": "default",
			"scopes": ["completions.write", "workspace_service_api_keys.create"], "usage_limits": {"credit_limit": 100}}' | jq -r .key)`,
	}},
	"agents.md": {before: workspaces, fill: []string{
		"KEY=mg-...                        # of the workspace support", "KEY=$(MODELGATE_URL=http://127.0.0.1:8787 MODELGATE_BOOTSTRAP_KEY=" + adminKey + " modelgate keys create app --workspace support --scopes agents.invoke)"}},
	"alerts.md": {before: "export ALERT_SECRET=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n" +
		"echo 'alerts: {webhooks: [{url: https://hooks.example.com/modelgate, secret: \"${ALERT_SECRET}\"}]}' >>modelgate.yaml"},
	"backup.md": {postgres: true, before: "kill %1; wait; true", fill: []string{
		"'postgres://modelgate:password@db.internal:5432/modelgate'", "$POSTGRES",
		" modelgate-20261130T015537Z.backup", " /var/backups/modelgate/*.backup",
		"MASTER_KEY=...", "MASTER_KEY=0123456789abcdef0123456789abcdef",
	}},
	"batches.md":       {before: openai + claude},
	"directory.md":     {before: workspaces},
	"coding-agents.md": {bare: true, before: "KEY=mg-1"},
	"errors.md":        {errors: map[string]string{"curl ends with": "curl ends with 18"}},
	"exports.md": {before: "EXPORTER=$(modelgate keys create exporter --workspace default --scopes logs.export)", fill: []string{
		"MODELGATE_BOOTSTRAP_KEY=mg-...", "MODELGATE_BOOTSTRAP_KEY=$EXPORTER",
		"SCHEDULE=01a2...", "SCHEDULE=$(modelgate export-schedules list -o name | head -n 1)",
	}},
	"files.md":       {before: openai + "echo '{}' >lines.jsonl; echo %PDF >report.pdf"},
	"fine-tuning.md": {before: team + `for I in $(seq 20); do echo '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'; done >examples.jsonl`},
	"guardrails.md": {before: openai + workspaces + guardrails + application + request + check, fill: []string{
		"RESULT=01a2...", "RESULT=$(curl -s $BASE/guardrails/pg-heron/results -H \"x-gateway-api-key: $KEY\" | jq -r '.data[0].id')",
	}},
	"headers.md": {before: openai + fireworks + `FILE=$(curl -s $MODELGATE_URL/v1/files -H "x-gateway-api-key: $MODELGATE_BOOTSTRAP_KEY" -H "x-gateway-provider: @openai" -F purpose=batch -F 'file={};filename=a.jsonl' | jq -r .id)`,
		fill: []string{"files/file-1/", "files/$FILE/"}},
	"install.md": {before: "echo 'version: 1' >/etc/modelgate/modelgate.yaml", bare: true},
	"jobs.md": {before: openai + batch, errors: map[string]string{
		"modelgate jobs retry":          "only a failed or dead job can be retried",
		"BASE=http://127.0.0.1:8787/v1": "dead",
	}, fill: []string{"JOB=01a2...", "JOB=$(modelgate jobs list --data data | awk 'END {print $1}')"}},
	"logs.md": {before: openai + application + request + request, fill: []string{
		"KEY=mg-...                                   # of a workspace", "KEY=$APPLICATION",
	}},
	"migrate-from-others.md": {bare: true, before: `echo 'model_list: [{model_name: fast, litellm_params: {model: openai/gpt-4.1-mini, api_key: os.environ/OPENAI_API_KEY}}]' >config.yaml`},
	"operations.md": {postgres: true, before: "mkdir -p /usr/local/share/man/man1; echo $MODELGATE_MASTER_KEY >old.key; openssl rand -hex 32 | tee new.key >/etc/modelgate/master.key", fill: []string{
		"'postgres://modelgate:password@db.internal:5432/modelgate'", "$POSTGRES",
		"ID=01a2...", "ID=$(modelgate keys list --data data | awk 'END {print $1}')",
		"'postgres://modelgate:password@pooler.internal:6432/modelgate?pool_mode=transaction&direct=db.internal:5432'", "$POSTGRES",
		"systemctl restart modelgate     # on each node in turn", "unset DATABASE_URL DB_SSL DB_SSL_CA",
		"modelgate restore --data data --force /var/backups/modelgate/modelgate-20261130T015537Z.backup", "kill %1; wait %1 || true; modelgate restore --data data --force /var/backups/modelgate/*.backup",
		"modelgate serve --admin-listen 0.0.0.0:8788", "modelgate serve --admin-listen 0.0.0.0:9788 --listen 127.0.0.1:9787 --data admin",
	}},
	"prices.md": {before: `mkdir prices
echo '{"gpt-4.1": {"pricing_config": {"pay_as_you_go": {"request_token": {"price": 0.0002}, "response_token": {"price": 0.0008}}}}}' >prices/openai.json
echo '{"gpt-9": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": 0.000002, "output_cost_per_token": 0.000008}}' >model_prices_and_context_window.json
echo 'provider,model,source,read,input,output,cached,write_5m,write_1h,batch,from,above,long_input,long_output,long_cached,long_write_5m,long_write_1h,reasoning,audio_in,audio_out,request,flex,priority,image_in,image_out,image,second,characters,training' >prices.csv
`},
	"prompts.md":   {before: openai + application},
	"realtime.md":  {before: openai + "printf 'v=0\r\n' >offer.sdp"},
	"responses.md": {before: claude},
	"roles.md":     {fill: []string{"ID=01a2...", "ID=$(curl -s $BASE/admin/users -H \"x-gateway-api-key: $KEY\" | jq -r '.data[0].id')"}},
	"routing.md": {before: `modelgate configs create Main --workspace default --config '{"provider": "groq", "api_key": "gsk-1234567890abcdefghijklmn9f"}'
CONFIG=$(modelgate configs list --workspace default -o name)
`, fill: []string{"/configs/pc-main", "/configs/$CONFIG"}, errors: map[string]string{
		"ask bad.json":     "400 Bad Request",
		"ask timeout.json": "408 Request Timeout",
	}},
	"second-factors.md": {before: totp + okta + owner, errors: map[string]string{
		`"password_sign_in": false`: "no_other_sign_in", // the owner has a password and codes
		"users reset-factors":       "has no second factor",
	}, fill: []string{
		"CODE=123456", "CODE=$(totp)",
		"TOKEN=$(curl -s -X POST $BASE/auth/second-factor", `TOKEN=$(curl -s $BASE/auth/login --json '{"email": "you@example.com", "password": "a long password of yours"}' | jq -r .token)
TOKEN=$(curl -s -X POST $BASE/auth/second-factor`,
	}},
	"semantic-cache.md": {bare: true, fill: []string{"KEY=...", "KEY=sk-1"}, errors: map[string]string{
		"modelgate cache evaluate": "embedder text-embedding-3-small", // vectors of the simulator mean nothing
	}},
	"sign-in.md": {fill: []string{"exk1...", "exk1"}, errors: map[string]string{
		"/domains/example.com/verify": "TXT record _modelgate.example.com", // which nobody has entered
	}},
	"simulator.md": {bare: true, before: `echo '{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "sim-1", "messages": []}}' >requests.jsonl`,
		errors: map[string]string{"sim-1+status=429": "HTTP/1.1 429"}},
	"tools.md": {before: workspaces + server, fill: []string{
		"MCP_INTEGRATION_ISSUES", "MODELGATE_MASTER_KEY=0123456789abcdef0123456789abcdef MCP_INTEGRATION_ISSUES",
		"ID=0199...                        # of a user", "ID=$(curl -s $BASE/admin/users -H \"authorization: Bearer $TOKEN\" | jq -r '.data[] | select(.email == \"ann@example.com\").id')",
		"ID=0199...                        # of a key", "ID=$(MODELGATE_URL=http://127.0.0.1:8787 MODELGATE_BOOTSTRAP_KEY=$TOKEN modelgate keys create app --workspace support --scopes mcp.invoke -o name)",
		`"6b86b273..."`, `"'$(curl -s -X POST "$BASE/mcp-servers/issues/sync?workspace_id=support" -H "authorization: Bearer $TOKEN" >sync.json
			curl -s "$BASE/mcp-servers/issues/capabilities?workspace_id=support" -H "authorization: Bearer $TOKEN" | jq -r '.data[] | select(.name == "create_issue").digest')'"`,
	}},
	"tools-sign-in.md": {before: workspaces, errors: map[string]string{
		"-X DELETE \"$BASE/auth/tool-connections": "not found",
		"-X DELETE $BASE/auth/grants":             `grant \"01a2...\" not found`}},
	"webhooks.md": {errors: map[string]string{
		"deliveries/$DELIVERY/retry": "not found", // nothing failed yet
	}},
}
