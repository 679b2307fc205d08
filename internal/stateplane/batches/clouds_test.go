package batches_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/s3test"
	"modelgate/internal/testing/waittest"
)

// startBedrock starts a gateway with Bedrock as @bedrock, whose bucket is that of a real server
// that verifies signatures, and whose jobs are the simulator's.
func startBedrock(t *testing.T, more string) (*client, *s3test.Server) {
	t.Helper()
	s3 := s3test.NewServer(t)
	o := gatewaytest.Options{Settings: fmt.Sprintf(`  - slug: bedrock
    provider: bedrock
    custom_host: "SIMULATOR_ROOT"
    options: {region: %s, access_key_id: %s, secret_access_key: %q, bedrock_url: "SIMULATOR_ROOT", s3_url: %q%s}
`, s3.Region, s3.AccessKey.Reveal(), s3.SecretKey.Reveal(), s3.Endpoint, more)}
	o.Simulator.Buckets = filepath.Dir(s3.Dir)
	o.Simulator.Check = func(r *http.Request, _ []byte) error {
		if signed := r.Header.Get("Authorization"); strings.HasPrefix(r.URL.Path, "/model-invocation-job") &&
			!strings.Contains(signed, "/"+s3.Region+"/bedrock/aws4_request") {
			return fmt.Errorf("%s %s is signed with %.60q", r.Method, r.URL.Path, signed)
		}
		return nil
	}
	return start(t, o), s3
}

const withBucket = ", s3_bucket: modelgate, batch_role_arn: 'arn:aws:iam::123456789012:role/batches'"

// settledOnce follows a batch to its end, and checks its results and its entry in the log.
func (c *client) settledOnce(id, provider string, n int) map[string]any {
	c.t.Helper()
	b := c.await(id)
	if b["status"] != "completed" {
		c.t.Fatalf("%v", b)
	}
	once(c.t, n, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
	var entries []any
	waittest.Until(c.t, "the log entry", func() bool {
		entries = c.ok("GET", "/logs?operation=batches&provider="+provider, "")["data"].([]any)
		return len(entries) > 0
	})
	if e := entries[0].(map[string]any); len(entries) != 1 || e["path"] != "/v1/batches" || e["cost"] == nil || e["cost"].(float64) <= 0 {
		c.t.Errorf("%d entries, the first: %.500v", len(entries), e)
	}
	return b
}

// TestABatchOfBedrockIsSettledOnce has the lines of a batch in a bucket of S3.
func TestABatchOfBedrockIsSettledOnce(t *testing.T) {
	c, s3 := startBedrock(t, withBucket)
	const n = 120
	b := c.create(c.upload(lines(n, "amazon.nova-lite-v1:0"), "batch"), day, "x-gateway-provider", "@bedrock")
	b = c.settledOnce(b["id"].(string), "bedrock", n)
	if got := c.rows(b["output_file_id"]); len(got) != n || got[0].Response == nil || !strings.Contains(string(got[0].Response.Body), "chat.completion") {
		t.Errorf("%d results: %.300v", len(got), got)
	}
	inputs, err := filepath.Glob(filepath.Join(s3.Dir, "modelgate", "*", "input.jsonl"))
	if err != nil || len(inputs) != 0 {
		t.Errorf("the bucket still has the inputs %v, %v", inputs, err)
	}
	if _, err := os.Stat(filepath.Join(s3.Dir, "modelgate")); err != nil {
		t.Errorf("the results are not in the bucket: %v", err)
	}
}

// vertex is the provider @vertex, whose jobs and bucket are the simulator's.
const vertex = `  - slug: vertex
    provider: vertex-ai
    custom_host: "SIMULATOR_ROOT"
    api_key: "${SIM_KEY}"
    options: {region: europe-west4, project_id: team, storage_url: "SIMULATOR_ROOT"%s}
`

// TestABatchOfVertexIsSettledOnce has the lines of a batch in a bucket of Google. The results
// are in another order, and have no custom_id.
func TestABatchOfVertexIsSettledOnce(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: fmt.Sprintf(vertex, ", storage_bucket_name: results")})
	const n = 40
	file := c.upload(lines(n-1, "gemini-2.5-flash")+`{"custom_id":"c39","method":"POST","url":"/v1/chat/completions","body":{"model":"gemini-2.5-flash","messages":[{"role":"user","content":"say 39"}],"max_tokens":3}}`, "batch")
	b := c.create(file, day, "x-gateway-provider", "@vertex")
	b = c.settledOnce(b["id"].(string), "vertex-ai", n)
	for _, r := range c.rows(b["output_file_id"]) {
		if want := "say " + strings.TrimPrefix(r.CustomID, "c") + `"`; r.CustomID != "c39" && (r.Response == nil || !strings.Contains(string(r.Response.Body), want[:len(want)-1])) {
			t.Errorf("the result of %s is that of another line: %.300v", r.CustomID, r)
		}
	}
}

// TestLinesThatAVendorLosesOrDoublesAreErrors has a bucket in which one result is missing, and
// another is duplicated.
func TestLinesThatAVendorLosesOrDoublesAreErrors(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: fmt.Sprintf(vertex, ", storage_bucket_name: results")})
	const n = 6
	id := c.create(c.upload(lines(n, "gemini-2.5-flash+odd-results"), "batch"), day, "x-gateway-provider", "@vertex")["id"].(string)
	b := c.await(id)
	output, failures := c.rows(b["output_file_id"]), c.rows(b["error_file_id"])
	codes := map[string]string{}
	for _, r := range failures {
		codes[r.CustomID] = r.Error.Code
	}
	if b["status"] != "completed" || len(output) != n-1 || len(failures) != 2 || codes["c5"] != "missing_result" || codes["c0"] != "duplicate_result" {
		t.Errorf("%d results, the errors %v: %v", len(output), codes, b)
	}
}

// TestALostCreateAtACloudIsFound has the clouds create a job and cut the connection.
func TestALostCreateAtACloudIsFound(t *testing.T) {
	for name, run := range map[string]func(t *testing.T) (*client, string){
		"bedrock": func(t *testing.T) (*client, string) {
			c, _ := startBedrock(t, withBucket)
			return c, "amazon.nova-lite-v1:0+lost+times=1"
		},
		"vertex": func(t *testing.T) (*client, string) {
			return start(t, gatewaytest.Options{Settings: fmt.Sprintf(vertex, ", storage_bucket_name: results")}), "gemini-2.5-flash+lost+times=1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, model := run(t)
			const n = 100
			b := c.create(c.upload(lines(n, model), "batch"), day, "x-gateway-provider", "@"+name)
			if b["status"] != "validating" {
				t.Errorf("created: %v", b)
			}
			b = c.await(b["id"].(string))
			if b["status"] != "completed" {
				t.Fatal(b)
			}
			once(t, n, c.rows(b["output_file_id"]), c.rows(b["error_file_id"]))
		})
	}
}

// TestBatchesOfCloudsNeedABucket has providers without what their batches need.
func TestBatchesOfCloudsNeedABucket(t *testing.T) {
	const key = "  - {slug: bedrock, provider: bedrock, custom_host: SIMULATOR_ROOT, api_key: \"${SIM_KEY}\", options: {bedrock_url: SIMULATOR_ROOT, " +
		"s3_url: SIMULATOR_ROOT%s}}\n"
	const custom = "  - {slug: bedrock, provider: bedrock, custom_host: SIMULATOR_ROOT, api_key: \"${SIM_KEY}\", options: {s3_bucket: b, batch_role_arn: r}}\n"
	for _, tt := range []struct {
		settings, provider, more string
		n                        int
		param, advice            string
	}{
		{fmt.Sprintf(key, ""), "bedrock", "", 100, "s3_bucket", "provider_options.s3_bucket"},
		{fmt.Sprintf(key, ", s3_bucket: b"), "bedrock", "", 100, "role_arn", "batch_role_arn"},
		{fmt.Sprintf(key, withBucket), "bedrock", "", 99, "input_file_id", "at least 100 lines"},
		{fmt.Sprintf(key, withBucket), "bedrock", "", 100, "access_key_id", "access key or a role"},
		{fmt.Sprintf(key, withBucket), "bedrock", `,"provider_options":{"s3_bucket":"other"}`, 100, "s3_bucket", "decide about s3_bucket"},
		{fmt.Sprintf(key, withBucket), "bedrock", `,"role_arn":"arn:aws:iam::123456789012:role/other"`, 100, "role_arn", "decide about role_arn"},
		{fmt.Sprintf(key, withBucket), "bedrock", `,"provider_options":{"region":"eu-west-1"}`, 100, "region", "is not an option of batches"},
		{fmt.Sprintf(key, withBucket), "bedrock", `,"output_data_config":"s3://b/../x"`, 100, "output_data_config", "must be a folder"},
		{custom, "bedrock", "", 100, "s3_url", "set the option s3_url"},
		{fmt.Sprintf(vertex, ""), "vertex", "", 1, "storage_bucket_name", "provider_options.storage_bucket_name"},
	} {
		c := start(t, gatewaytest.Options{Settings: tt.settings})
		file := c.upload(lines(tt.n, "amazon.nova-lite-v1:0"), "batch")
		res := c.do("POST", "/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s%s}`, file, day, tt.more),
			"x-gateway-provider", "@"+tt.provider)
		e, _ := res.JSON(t)["error"].(map[string]any)
		if text, _ := e["message"].(string); res.Status/100 == 2 || e["param"] != tt.param || !strings.Contains(text, tt.advice) {
			t.Errorf("%s%s: status %d: %s", tt.settings, tt.more, res.Status, res.Body)
		}
		if list := c.ok("GET", "/batches", "")["data"].([]any); len(list) != 0 {
			t.Errorf("a refused batch has a record: %v", list)
		}
	}
}

// TestABucketOfTheRequestIsUsed names a bucket where the settings of the provider do not.
func TestABucketOfTheRequestIsUsed(t *testing.T) {
	c := start(t, gatewaytest.Options{Settings: fmt.Sprintf(vertex, "")})
	const n = 3
	b := c.create(c.upload(lines(n, "gemini-2.5-flash"), "batch"), day+`,"provider_options":{"storage_bucket_name":"mine"},"output_data_config":"gs://mine/done"`,
		"x-gateway-provider", "@vertex")
	c.settledOnce(b["id"].(string), "vertex-ai", n)
}

// TestBatchesInBucketsRunEnabledModelsOnly has an integration with a list of models. Objects and
// jobs name no model, or the one of the batch.
func TestBatchesInBucketsRunEnabledModelsOnly(t *testing.T) {
	for _, tt := range []struct{ id, options, model, other string }{
		{"vertex-ai", `"cloud_b_region":"europe-west4","cloud_b_project_id":"p","cloud_b_storage_bucket_name":"b","cloud_b_storage_url":%[3]q`,
			"gemini-2.5-flash", "gemini-2.5-pro"},
		{"bedrock", `"cloud_a_access_key_id":"TESTACCESS0123456789","cloud_a_secret_access_key":"test-secret-key","cloud_a_s3_bucket":"b",` +
			`"cloud_a_bedrock_url":%[3]q,"cloud_a_s3_url":"%[3]s/s3","cloud_a_batch_role_arn":"arn:aws:iam::123456789012:role/r"`,
			"amazon.nova-lite-v1:0", "amazon.nova-pro-v1:0"},
	} {
		t.Run(tt.id, func(t *testing.T) {
			o := gatewaytest.Options{}
			o.Simulator.Check = func(*http.Request, []byte) error { return nil } // accepts signatures
			c := start(t, o)
			root := strings.TrimSuffix(c.Upstream, "/v1")
			c.ok("POST", "/integrations", fmt.Sprintf(`{"name":"n","slug":"cloud","ai_provider_id":%q,"key":%q,"create_default_provider":true,"configurations":{"custom_host":%q,`+tt.options+`}}`,
				tt.id, gatewaytest.SimulatorKey, root))
			c.ok("PUT", "/integrations/cloud/models", fmt.Sprintf(`{"allow_all_models":false,"models":[{"slug":%q,"enabled":true}]}`, tt.model))
			const n = 100
			b := c.create(c.upload(lines(n, tt.model), "batch"), day, "x-gateway-provider", "@cloud")
			if b = c.await(b["id"].(string)); b["status"] != "completed" {
				t.Errorf("%v", b)
			}
			res := c.do("POST", "/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions"%s}`, c.upload(lines(n, tt.other), "batch"), day), "x-gateway-provider", "@cloud")
			if res.Status/100 == 2 || !strings.Contains(string(res.Body), tt.other) {
				t.Errorf("a batch of another model: status %d: %s", res.Status, res.Body)
			}
			id := c.create(c.upload(lines(n, tt.model), "batch"), day, "x-gateway-provider", "@cloud")["id"].(string)
			c.ok("POST", "/batches/"+id+"/cancel", "")
			if b = c.await(id); b["status"] != "cancelled" {
				t.Errorf("cancelled: %v", b)
			}
		})
	}
}
