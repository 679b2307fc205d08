package batches_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

func TestEveryLineHasOneResult(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	const n = 300
	file := c.upload(lines(n, "@openai/gpt-4o", "@claude/claude-sonnet-4-5", "@openai/gpt-4o+status=400")+"\r\n", "batch")
	b := c.create(file, now+`,"metadata":{"team":"a"}`)
	for _, field := range []string{"in_progress_at", "finalizing_at", "completed_at", "cancelling_at", "output_file_id"} {
		if b[field] != nil {
			t.Errorf("a new batch has %s: %v", field, b[field])
		}
	}
	if b["status"] != "validating" || b["object"] != "batch" || b["input_file_id"] != file || b["endpoint"] != "/v1/chat/completions" || b["completion_window"] != "immediate" {
		t.Errorf("a new batch: %v", b)
	}
	b = c.await(b["id"].(string))
	if b["status"] != "completed" {
		t.Fatalf("%v", b)
	}
	if counts := fmt.Sprint(b["request_counts"]); counts != "map[completed:200 failed:100 total:300]" {
		t.Errorf("counts %s", counts)
	}
	started, finalized, done := b["in_progress_at"].(float64), b["finalizing_at"].(float64), b["completed_at"].(float64)
	if started > finalized || finalized > done || b["cancelled_at"] != nil || fmt.Sprint(b["metadata"]) != "map[team:a]" {
		t.Errorf("times or metadata: %v", b)
	}
	good, bad := c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
	once(t, n, good, bad)
	for _, r := range good {
		if r.Error != nil || r.Response.StatusCode != 200 || r.Response.RequestID == "" || !strings.Contains(string(r.Response.Body), `"chat.completion"`) {
			t.Errorf("output: %+v %s", r, r.Response.Body)
		}
	}
	for _, r := range bad {
		if r.Error == nil || r.Error.Message == "" || r.Response.StatusCode != 400 {
			t.Errorf("error: %+v", r)
		}
	}
	if usage := b["usage"].(map[string]any); usage["total_tokens"].(float64) <= 0 {
		t.Errorf("usage %v", usage)
	}
	out := c.do("GET", "/batches/"+b["id"].(string)+"/output", "")
	if got := strings.Count(string(out.Body), "\n"); got != n || out.Status != 200 {
		t.Errorf("output: status %d, %d lines", out.Status, got)
	}
	if list := c.ok("GET", "/batches?limit=1", ""); list["first_id"] != b["id"] || list["has_more"] != false {
		t.Errorf("list: %v", list)
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: "batches: {max_lines: 20}\n"})
	good := `{"custom_id":"good","method":"POST","url":"/v1/chat/completions","body":{"model":"@openai/gpt-4o","messages":[]}}` + "\n"
	line := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for name, tt := range map[string]struct {
		content     string
		line        float64
		code, param string
	}{
		"no JSON":             {good + "{\n", 2, "invalid_json_line", ""},
		"a list":              {"[]\n", 1, "invalid_json_line", ""},
		"byte order mark":     {"\ufeff" + good, 1, "invalid_json_line", ""},
		"empty line":          {"\n" + good, 1, "invalid_json_line", ""},
		"no custom_id":        {line(`"custom_id":"good",`, ""), 1, "missing_required_parameter", "custom_id"},
		"long custom_id":      {line("good", strings.Repeat("x", 600)), 1, "invalid_value", "custom_id"},
		"duplicate custom_id": {good + good, 2, "duplicate_custom_id", "custom_id"},
		"method":              {line("POST", "GET"), 1, "invalid_method", "method"},
		"another url":         {line("chat/completions", "embeddings"), 1, "invalid_url", "url"},
		"no body":             {line(`"body"`, `"bodi"`), 1, "missing_required_parameter", "body"},
		"body is text":        {line(`{"model":"@openai/gpt-4o","messages":[]}`, `"x"`), 1, "missing_required_parameter", "body"},
		"stream":              {line(`"messages"`, `"stream":true,"messages"`), 1, "invalid_value", "body.stream"},
		"no model":            {line(`"model":"@openai/gpt-4o",`, ""), 1, "missing_required_parameter", "body.model"},
		"too many lines":      {lines(21, "m"), 21, "too_many_lines", ""},
		"only line breaks":    {"\n", 0, "empty_file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.await(c.create(c.upload(tt.content, "batch"), now)["id"].(string))
			if b["status"] != "failed" || b["failed_at"] == nil || b["output_file_id"] != nil {
				t.Fatalf("%v", b)
			}
			errs := b["errors"].(map[string]any)
			first := errs["data"].([]any)[0].(map[string]any)
			number, _ := first["line"].(float64)
			param, _ := first["param"].(string)
			if errs["object"] != "list" || number != tt.line || first["code"] != tt.code || param != tt.param || first["message"] == "" {
				t.Errorf("%v", first)
			}
		})
	}
}

func TestAllBadLinesAreListed(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	b := c.await(c.create(c.upload(strings.Repeat("{}\n", 150), "batch"), now)["id"].(string))
	if list := b["errors"].(map[string]any)["data"].([]any); len(list) != 100 {
		t.Errorf("%d errors, want the first 100", len(list))
	}
}

func TestBatchesAreRefusedByName(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	file, other := c.upload(lines(1, "@openai/gpt-4o"), "batch"), c.upload("{}", "user_data")
	big := `"` + strings.Repeat("v", 513) + `"`
	var pairs []string
	for i := range 17 {
		pairs = append(pairs, fmt.Sprintf(`"k%d":"v"`, i))
	}
	for name, tt := range map[string]struct {
		body, param string
		status      int
		h           []string
	}{
		"no file":             {`{"endpoint":"/v1/embeddings","completion_window":"24h"}`, "input_file_id", 400, nil},
		"no endpoint":         {`{"input_file_id":"FILE","completion_window":"24h"}`, "endpoint", 400, nil},
		"no window":           {`{"input_file_id":"FILE","endpoint":"/v1/embeddings"}`, "completion_window", 400, nil},
		"window":              {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"7d"}`, "completion_window", 400, nil},
		"endpoint":            {`{"input_file_id":"FILE","endpoint":"/v1/files","completion_window":"24h"}`, "endpoint", 400, nil},
		"unknown file":        {`{"input_file_id":"file-x","endpoint":"/v1/embeddings","completion_window":"24h"}`, "input_file_id", 404, nil},
		"purpose":             {`{"input_file_id":"OTHER","endpoint":"/v1/embeddings","completion_window":"24h"}`, "input_file_id", 400, nil},
		"unknown field":       {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"24h","windows":1}`, "windows", 400, nil},
		"wrong type":          {`{"input_file_id":7,"endpoint":"/v1/embeddings","completion_window":"24h"}`, "input_file_id", 400, nil},
		"value too long":      {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"24h","metadata":{"k":` + big + `}}`, "metadata", 400, nil},
		"key too long":        {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"24h","metadata":{` + big[:67] + `":"v"}}`, "metadata", 400, nil},
		"too many pairs":      {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"24h","metadata":{` + strings.Join(pairs, ",") + `}}`, "metadata", 400, nil},
		"a key in option":     {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"immediate","gateway_options":{"x-gateway-api-key":"k"}}`, "gateway_options", 400, nil},
		"inline config":       {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"immediate","gateway_options":{"x-gateway-config":"{}"}}`, "gateway_options", 400, nil},
		"own provider":        {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"immediate","gateway_options":{"x-gateway-provider":"openai"}}`, "gateway_options", 400, nil},
		"life of output":      {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"24h","output_expires_after":{"anchor":"now","seconds":3600}}`, "output_expires_after", 400, nil},
		"at once there":       {`{"input_file_id":"FILE","endpoint":"/v1/embeddings","completion_window":"immediate"}`, "completion_window", 400, []string{"x-gateway-provider", "@openai"}},
		"a model at the root": {`{"input_file_id":"FILE","endpoint":"/v1/chat/completions","completion_window":"immediate","model":"m"}`, "model", 400, nil},
		"a config there":      {`{"input_file_id":"FILE","endpoint":"/v1/chat/completions","completion_window":"24h","gateway_options":{"x-gateway-config":"pc-a"}}`, "gateway_options", 400, []string{"x-gateway-provider", "@openai"}},
		"no object":           {`[]`, "", 400, nil},
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.NewReplacer("FILE", file, "OTHER", other).Replace(tt.body)
			res := c.do("POST", "/batches", body, tt.h...)
			e, _ := res.JSON(t)["error"].(map[string]any)
			if param, _ := e["param"].(string); res.Status != tt.status || param != tt.param {
				t.Errorf("status %d, %s", res.Status, res.Body)
			}
		})
	}
	if list := c.ok("GET", "/batches", ""); len(list["data"].([]any)) != 0 {
		t.Errorf("a refused batch was stored: %v", list)
	}
}

func TestLimitsOfListsAreChecked(t *testing.T) {
	c := start(t, gatewaytest.Options{})
	for query, status := range map[string]int{"limit=0": 400, "limit=101": 400, "limit=x": 400, "limit=100": 200, "after=gw_batch_x": 404, "order=up": 400, "": 200} {
		if res := c.do("GET", "/batches?"+query, ""); res.Status != status {
			t.Errorf("%q: status %d, want %d: %s", query, res.Status, status, res.Body)
		}
	}
}

// TestACancelledBatchKeepsItsResults cancels a batch whose later lines are slow.
func TestACancelledBatchKeepsItsResults(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: "batches: {concurrency: 2}\n"})
	id := c.create(c.upload(lines(4, "@openai/gpt-4o")+strings.ReplaceAll(lines(2, "@openai/gpt-4o+headers=5m"), `:"c`, `:"slow`), "batch"), now)["id"].(string)
	waittest.Until(t, "results of the quick lines", func() bool {
		return c.ok("GET", "/batches/"+id, "")["request_counts"].(map[string]any)["completed"] == 4.0
	})
	b := c.ok("POST", "/batches/"+id+"/cancel", "")
	if b["status"] != "cancelling" || b["cancelling_at"] == nil {
		t.Errorf("cancelled: %v", b)
	}
	at := b["cancelling_at"]
	if again := c.do("POST", "/batches/"+id+"/cancel", ""); again.Status != 200 && again.Status != 409 {
		t.Errorf("cancelled again: %d %s", again.Status, again.Body)
	}
	b = c.await(id)
	if b["status"] != "cancelled" || b["cancelled_at"] == nil || b["cancelling_at"] != at || b["cancelled_at"].(float64)-at.(float64) > 5 {
		t.Errorf("%v", b)
	}
	once(t, 4, c.rows(b["output_file_id"]))
	if res := c.do("POST", "/batches/"+id+"/cancel", ""); res.Status != http.StatusConflict {
		t.Errorf("cancelled after the end: %d %s", res.Status, res.Body)
	}
	if after := c.ok("GET", "/batches/"+id, ""); after["status"] != "cancelled" || fmt.Sprint(after) != fmt.Sprint(b) {
		t.Errorf("changed after the end: %v", after)
	}
}

// TestLinesOfARevokedKeyFail deletes the key of a batch while it runs.
func TestLinesOfARevokedKeyFail(t *testing.T) {
	admin := start(t, gatewaytest.Options{Settings: "batches: {concurrency: 1}\n"})
	made := admin.ok("POST", "/api-keys/workspace/service", `{"name":"b","workspace_id":"default","scopes":["completions.write"]}`)
	c := &client{admin.Gateway, t, made["key"].(string)}
	id := c.create(c.upload(lines(1, "@openai/gpt-4o")+strings.ReplaceAll(lines(1, "@openai/gpt-4o+headers=5s"), "c0", "c1")+strings.ReplaceAll(lines(1, "@openai/gpt-4o"), "c0", "c2"), "batch"), now)["id"].(string)
	waittest.Until(t, "the first result", func() bool {
		return admin.ok("GET", "/batches/"+id, "")["request_counts"].(map[string]any)["completed"].(float64) >= 1
	})
	admin.ok("DELETE", "/api-keys/"+made["id"].(string), "")
	b := admin.await(id)
	bad := admin.rows(b["error_file_id"])
	once(t, 3, admin.rows(b["output_file_id"]), bad)
	last := bad[len(bad)-1]
	if b["status"] != "completed" || last.CustomID != "c2" || last.Error.Code != "invalid_api_key" || last.Response != nil {
		t.Errorf("%v, last error %+v", b, last)
	}
}

// TestASecondNodeGoesOn stops a gateway in the middle of a batch, and starts another one on
// its data.
func TestASecondNodeGoesOn(t *testing.T) {
	data := t.TempDir()
	c := start(t, gatewaytest.Options{Data: data, Settings: "batches: {concurrency: 2}\n"})
	const n = 400
	id := c.create(c.upload(lines(n, "@openai/gpt-4o+headers=5ms"), "batch"), now)["id"].(string)
	waittest.Until(t, "some results", func() bool {
		return c.ok("GET", "/batches/"+id, "")["request_counts"].(map[string]any)["completed"].(float64) > 10
	})
	c.Stop()
	next := start(t, gatewaytest.Options{Data: data})
	b := next.await(id)
	if counts := fmt.Sprint(b["request_counts"]); b["status"] != "completed" || counts != fmt.Sprintf("map[completed:%d failed:0 total:%d]", n, n) {
		t.Errorf("%v", b)
	}
	once(t, n, next.rows(b["output_file_id"]))
}

// TestABatchOfAProviderIsSettledOnce follows batches of OpenAI's and Anthropic's APIs, and
// reads what they cost.
func TestABatchOfAProviderIsSettledOnce(t *testing.T) {
	for _, tt := range []struct{ provider, id, model string }{{"@openai", "openai", "gpt-4o"}, {"@claude", "anthropic", "claude-sonnet-4-5"}, {"@gemini", "google", "gemini-2.5-flash"}} {
		t.Run(tt.provider, func(t *testing.T) {
			c := start(t, gatewaytest.Options{})
			const n = 150 // more than is read at once
			file := c.upload(lines(n, tt.model), "batch")
			b := c.create(file, `,"completion_window":"24h"`, "x-gateway-provider", tt.provider)
			b = c.await(b["id"].(string))
			if b["status"] != "completed" || b["input_file_id"] != file {
				t.Fatalf("%v", b)
			}
			once(t, n, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
			var entries []any
			waittest.Until(t, "the log entry", func() bool {
				entries = c.ok("GET", "/logs?operation=batches&provider="+tt.id, "")["data"].([]any)
				return len(entries) > 0
			})
			if e := entries[0].(map[string]any); len(entries) != 1 || e["path"] != "/v1/batches" || e["cost"] == nil || e["cost"].(float64) <= 0 {
				t.Errorf("%d entries, the first: %.500v", len(entries), e)
			}
		})
	}
}
