package conformance

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

const (
	weakKey   = "mg-conformance-models-only-0123456789"
	unknownID = "none_0123456789abcdef0123456789abcdef"
)

// keptObjects starts a gateway with two workspaces and returns one object of each kind in the
// first, by the word that paths of accessRows have for it, and a key of the second, which has
// a provider @sim2.
func keptObjects(t *testing.T) (g *gateway, id map[string]string, foreignKey string) {
	t.Helper()
	g = launchFor(t, strings.NewReplacer("SIM", simulate(t), "WEAK", hashOf(weakKey)).Replace(`
version: 1
providers:
  - {slug: sim, provider: openai, custom_host: "SIM/v1", api_key: "${STORED_KEY}"}
  - {slug: claude, provider: anthropic, custom_host: "SIM/v1", api_key: "${STORED_KEY}"}
keys:
  - {name: weak, sha256: WEAK, scopes: [models.list]}
`), "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	id = make(map[string]string)
	made := func(word, target, body string, header ...string) {
		t.Helper()
		id[word], _ = g.do(t, "POST", target, body, own(header...)...).wantOK(t).object(t)["id"].(string)
		if id[word] == "" {
			t.Fatalf("%s has no id", word)
		}
	}
	made("OTHER", "/v1/admin/workspaces", `{"name":"other"}`)
	foreignKey, _ = g.do(t, "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"`+id["OTHER"]+`","scopes":["completions.write","logs.export",`+
		`"webhooks.create","webhooks.read","webhooks.update","webhooks.delete","webhooks.list"]}`, own()...).wantOK(t).object(t)["key"].(string)
	g.do(t, "POST", "/v1/virtual-keys", `{"name":"sim2","provider":"openai","key":"`+storedKey+`","workspace_id":"`+id["OTHER"]+`","customHost":"`+simulate(t)+`/v1"}`, own()...).wantOK(t)
	delete(id, "OTHER")
	made("HOOK", "/v1/webhook_endpoints", `{"name":"hook","url":"https://hooks.example.com/a","event_types":["batch.completed"]}`)
	id["FILE"] = g.upload(t, "batch", batchLines(1))
	id["THEIRS"] = g.upload(t, "batch", batchLines(1), "x-gateway-provider", "@sim")
	made("UPLOAD", "/v1/uploads", `{"bytes":3,"filename":"a.txt","mime_type":"text/plain","purpose":"user_data"}`)
	made("BATCH", "/v1/batches", `{"input_file_id":"`+id["FILE"]+`","endpoint":"/v1/chat/completions","completion_window":"immediate"}`)
	g.batchAfter(t, id["BATCH"], "completed")
	made("VENDOR", "/v1/batches", `{"input_file_id":"`+id["THEIRS"]+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`, "x-gateway-provider", "@sim")
	training := g.upload(t, "fine-tune", strings.Repeat(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`+"\n", 12), "x-gateway-provider", "@sim")
	made("TUNING", "/v1/fine_tuning/jobs", `{"model":"gpt-4o-mini+job=hang","training_file":"`+training+`"}`, "x-gateway-provider", "@sim")
	made("KEPT", "/v1/responses", `{"model":"@claude/claude-sonnet-4-5","input":"hi"}`)
	made("RECORDED", "/v1/responses", `{"model":"@sim/gpt-4o","input":"hi"}`)
	made("LATER", "/v1/responses", `{"model":"@claude/claude-sonnet-4-5","input":"hi","background":true}`)
	made("TALK", "/v1/conversations", `{"items":[{"type":"message","role":"user","content":"hi"}]}`)
	id["ITEM"] = fmt.Sprint(at(g.do(t, "GET", "/v1/conversations/"+id["TALK"]+"/items", "", own()...).wantOK(t).object(t), "data", 0, "id"))
	waittest.Until(t, "the job of a batch and the delivery of its event are listed", func() bool {
		job := at(g.do(t, "GET", "/v1/admin/jobs?kind=batch", "", own()...).wantOK(t).object(t), "data", 0, "id")
		sent := at(g.do(t, "GET", "/v1/webhook_endpoints/"+id["HOOK"]+"/deliveries", "", own()...).wantOK(t).object(t), "data", 0, "id")
		id["JOB"], id["DELIVERY"] = fmt.Sprint(job), fmt.Sprint(sent)
		return job != nil && sent != nil
	})
	return g, id, foreignKey
}

// accessRow is a route, and what it answers to a key that may call it. What deletes an object
// comes after what reads it.
type accessRow struct {
	route, body string
	status      int
}

var accessRows = []accessRow{
	{"GET /v1/files/FILE", "", 200},
	{"GET /v1/files/FILE/content", "", 200},
	{"HEAD /v1/files/FILE/content", "", 200},
	{"GET /v1/files/THEIRS", "", 200},
	{"GET /v1/files/THEIRS/content", "", 200},
	{"POST /v1/uploads/UPLOAD/complete", `{"part_ids":["part_none"]}`, 400},
	{"POST /v1/uploads/UPLOAD/cancel", "", 200},
	{"GET /v1/batches/BATCH", "", 200},
	{"GET /v1/batches/BATCH/output", "", 200},
	{"POST /v1/batches/BATCH/cancel", "", 409},
	{"GET /v1/batches/VENDOR", "", 200},
	{"POST /v1/batches/VENDOR/cancel", "", 200},
	{"GET /v1/fine_tuning/jobs/TUNING", "", 200},
	{"GET /v1/fine_tuning/jobs/TUNING/events", "", 200},
	{"GET /v1/fine_tuning/jobs/TUNING/checkpoints", "", 200},
	{"POST /v1/fine_tuning/jobs/TUNING/pause", "", 200},
	{"POST /v1/fine_tuning/jobs/TUNING/resume", "", 200},
	{"POST /v1/fine_tuning/jobs/TUNING/cancel", "", 200},
	{"GET /v1/responses/KEPT", "", 200},
	{"GET /v1/responses/KEPT/input_items", "", 200},
	{"POST /v1/responses/KEPT/cancel", "", 400},
	{"DELETE /v1/responses/KEPT", "", 200},
	{"GET /v1/responses/RECORDED", "", 200},
	{"GET /v1/responses/RECORDED/input_items", "", 200},
	{"DELETE /v1/responses/RECORDED", "", 200},
	{"GET /v1/responses/LATER", "", 200},
	{"POST /v1/responses/LATER/cancel", "", 200},
	{"GET /v1/conversations/TALK", "", 200},
	{"POST /v1/conversations/TALK", `{"metadata":{"a":"b"}}`, 200},
	{"GET /v1/conversations/TALK/items", "", 200},
	{"POST /v1/conversations/TALK/items", `{"items":[{"type":"message","role":"user","content":"more"}]}`, 200},
	{"GET /v1/conversations/TALK/items/ITEM", "", 200},
	{"DELETE /v1/conversations/TALK/items/ITEM", "", 200},
	{"DELETE /v1/conversations/TALK", "", 200},
	{"GET /v1/admin/jobs/JOB", "", 200},
	{"POST /v1/admin/jobs/JOB/cancel", "", 409},
	{"POST /v1/admin/jobs/JOB/retry", "", 409},
	{"GET /v1/webhook_endpoints/HOOK", "", 200},
	{"GET /v1/webhook_endpoints/HOOK/deliveries", "", 200},
	{"GET /v1/webhook_endpoints/HOOK/deliveries/DELIVERY", "", 200},
	{"DELETE /v1/webhook_endpoints/HOOK", "", 200},
	{"DELETE /v1/files/THEIRS", "", 200},
	{"DELETE /v1/files/FILE", "", 200},
}

// TestKeptObjectsOpenForTheirWorkspaceOnly calls each route of an object without a key, with
// a key without its scope, and with keys of both workspaces.
func TestKeptObjectsOpenForTheirWorkspaceOnly(t *testing.T) {
	g, ids, foreignKey := keptObjects(t)
	for _, row := range accessRows {
		t.Run(row.route, func(t *testing.T) {
			method, path, _ := strings.Cut(row.route, " ")
			known, unknown := path, path
			for word, id := range ids {
				known, unknown = strings.ReplaceAll(known, word, id), strings.ReplaceAll(unknown, word, unknownID)
			}
			call := func(path, key string) response {
				if key == "" {
					return g.do(t, method, path, row.body)
				}
				return g.do(t, method, path, row.body, "x-gateway-api-key", key)
			}
			for _, tt := range []struct {
				name, path, key string
				status          int
			}{
				{"without a key", known, "", 401},
				{"with a wrong key", known, "mg-conformance-nobody-0123456789", 401},
				{"with a key without the scope", known, weakKey, 403},
				{"with a key of another workspace", known, foreignKey, 404},
				{"with a key of another workspace, of an unknown id", unknown, foreignKey, 404},
				{"of an unknown id", unknown, bootstrapKey, 404},
			} {
				if got := call(tt.path, tt.key); got.status != tt.status {
					t.Errorf("%s: status %d, want %d: %.300s", tt.name, got.status, tt.status, got.body)
				}
			}
			foreign, absent, mine := call(known, foreignKey), call(unknown, foreignKey), call(unknown, bootstrapKey)
			if a, b, c := anonymous(foreign, ids), anonymous(absent, ids), anonymous(mine, ids); a != b || b != c {
				t.Errorf("an object of another workspace does not look like an unknown one:\n%s\n%s\n%s", a, b, c)
			}
			if got := call(known, bootstrapKey); got.status != row.status {
				t.Errorf("with a key of the workspace: status %d, want %d: %.300s", got.status, row.status, got.body)
			}
		})
	}
}

// anonymous returns what a client sees of a response, without the ids that it sent.
func anonymous(r response, ids map[string]string) string {
	text := fmt.Sprint(r.status, " ", r.header.Get("Content-Type"), " ", string(r.body))
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, "ID")
	}
	return strings.ReplaceAll(text, unknownID, "ID")
}

// TestKeptObjectsOfOthersAreInNoListAndNoBody lists objects, and names them in bodies, with a
// key of another workspace.
func TestKeptObjectsOfOthersAreInNoListAndNoBody(t *testing.T) {
	g, ids, foreignKey := keptObjects(t)
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/admin/jobs", "/v1/webhook_endpoints"} {
		t.Run("GET "+path, func(t *testing.T) {
			for key, status := range map[string]int{"": 401, weakKey: 403} {
				header := []string{}
				if key != "" {
					header = []string{"x-gateway-api-key", key}
				}
				if got := g.do(t, "GET", path, "", header...); got.status != status {
					t.Errorf("status %d, want %d: %.300s", got.status, status, got.body)
				}
			}
			if data, _ := g.do(t, "GET", path, "", "x-gateway-api-key", foreignKey).wantOK(t).object(t)["data"].([]any); len(data) != 0 {
				t.Errorf("another workspace sees %v", data)
			}
			if data, _ := g.do(t, "GET", path, "", own()...).wantOK(t).object(t)["data"].([]any); len(data) == 0 {
				t.Error("its own workspace sees nothing")
			}
		})
	}
	for _, row := range []accessRow{
		{"POST /v1/batches", `{"input_file_id":"FILE","endpoint":"/v1/chat/completions","completion_window":"immediate"}`, 200},
		{"POST /v1/batches", `{"input_file_id":"THEIRS","endpoint":"/v1/chat/completions","completion_window":"24h"}`, 200},
		{"POST /v1/fine_tuning/jobs", `{"model":"gpt-4o-mini","training_file":"THEIRS"}`, 400},
		{"POST /v1/responses", `{"model":"@sim2/gpt-4o","input":"hi","previous_response_id":"RECORDED"}`, 404},
		{"POST /v1/responses", `{"model":"@sim2/gpt-4o","input":"hi","previous_response_id":"KEPT"}`, 404},
		{"POST /v1/responses", `{"model":"@sim2/gpt-4o","input":"hi","conversation":"TALK"}`, 404},
		{"POST /v1/responses", `{"model":"@sim2/gpt-4o","input":[{"role":"user","content":[{"type":"input_file","file_id":"THEIRS"}]}]}`, 404},
	} {
		t.Run(row.route+" "+row.body, func(t *testing.T) {
			known, unknown := row.body, row.body
			for word, id := range ids {
				known, unknown = strings.ReplaceAll(known, `"`+word+`"`, `"`+id+`"`), strings.ReplaceAll(unknown, `"`+word+`"`, `"`+unknownID+`"`)
			}
			method, path, _ := strings.Cut(row.route, " ")
			foreign := g.do(t, method, path, known, "x-gateway-api-key", foreignKey)
			absent := g.do(t, method, path, unknown, "x-gateway-api-key", foreignKey)
			if foreign.status < 400 || foreign.status >= 500 {
				t.Errorf("status %d: %.300s", foreign.status, foreign.body)
			}
			if a, b := anonymous(foreign, ids), anonymous(absent, ids); a != b {
				t.Errorf("an object of another workspace does not look like an unknown one:\n%s\n%s", a, b)
			}
			for key, status := range map[string]int{"": 401, weakKey: 403} {
				header := []string{"x-gateway-trace-id", "t"}
				if key != "" {
					header = append(header, "x-gateway-api-key", key)
				}
				if got := g.do(t, method, path, known, header...); got.status != status {
					t.Errorf("status %d, want %d: %.300s", got.status, status, got.body)
				}
			}
		})
	}
}
