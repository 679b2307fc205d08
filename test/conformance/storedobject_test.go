package conformance

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// storedObject is an object that a provider stores, with the request that returns it.
type storedObject struct {
	from, to             string // first and last statement
	further              string // other statements
	name                 string
	method, target, body string
	fields               string // that the specification names, inner ones after a dot
	object               string
}

const (
	batch = `{ "id":"batch_1","object":"batch", "endpoint":"/v1/chat/completions","errors":{"object":"list","data":[{"code":"invalid_json_line","message":"no JSON","param":null,"line":3}]},` +
		`"input_file_id":"file-1","completion_window":"24h","status":"STATUS","output_file_id":"file-2","error_file_id":"file-3","created_at":1700000001,"in_progress_at":1700000002,"expires_at":1700086400,` +
		`"finalizing_at":1700000003,"completed_at":null,"failed_at":null,"expired_at":null,"cancelling_at":1700000004,"cancelled_at":1700000005,"request_counts":{"total":3,"completed":2,"failed":1},"metadata":{"team":"a"} }`
	batchFields = "id object endpoint errors.object errors.data.0.code errors.data.0.message errors.data.0.param errors.data.0.line input_file_id completion_window status output_file_id error_file_id " +
		"created_at in_progress_at expires_at finalizing_at completed_at failed_at expired_at cancelling_at cancelled_at request_counts.total request_counts.completed request_counts.failed metadata"

	tuningJob = `{"object":"fine_tuning.job" ,"id":"ftjob-1","created_at":1700000001,"error":{"code":"invalid_file","message":"no examples","param":"training_file"},"fine_tuned_model":null,"finished_at":null,` +
		`"hyperparameters":{"n_epochs":"auto"},"model":"m-1","organization_id":"org-1","result_files":["file-4"],"status":"STATUS","trained_tokens":null,"training_file":"file-1","validation_file":null,"seed":7,` +
		`"integrations":[{"type":"wandb","wandb":{"project":"p","name":null,"entity":null,"tags":["t"]}}],"estimated_finish":null}`
	tuningFields = "object id created_at error.code error.message error.param fine_tuned_model finished_at hyperparameters.n_epochs model organization_id result_files status trained_tokens training_file " +
		"validation_file seed integrations.0.type integrations.0.wandb.project integrations.0.wandb.name integrations.0.wandb.entity integrations.0.wandb.tags estimated_finish"

	checkpoints = `{"object":"list","data":[{"object":"fine_tuning.job.checkpoint","id":"ftckpt-1","created_at":1700000001,"fine_tuned_model_checkpoint":"ft:m-1:step-10","fine_tuning_job_id":"ftjob-1","step_number":10,` +
		`"metrics":{"step":10,"train_loss":0.50,"train_mean_token_accuracy":0.9,"valid_loss":0.6,"valid_mean_token_accuracy":0.8,"full_valid_loss":0.7,"full_valid_mean_token_accuracy":0.7}}],"has_more":false,"first_id":"ftckpt-1","last_id":"ftckpt-1"}`
	checkpointFields = "object data.0.object data.0.id data.0.created_at data.0.fine_tuned_model_checkpoint data.0.fine_tuning_job_id data.0.step_number data.0.metrics.step data.0.metrics.train_loss " +
		"data.0.metrics.train_mean_token_accuracy data.0.metrics.valid_loss data.0.metrics.valid_mean_token_accuracy data.0.metrics.full_valid_loss data.0.metrics.full_valid_mean_token_accuracy has_more first_id last_id"

	file       = `{"object":"file","id":"file-1","bytes":120,"created_at":1700000001,"filename":"a.jsonl","purpose":"PURPOSE","status":"processed","status_details":null }`
	fileFields = "object id bytes created_at filename purpose status status_details"

	storedResponse = `{ "id":"resp_1","object":"response","created_at":1700000001,"status":"STATUS","model":"m-1","instructions":null,"metadata":{"team":"a"},"temperature":1.0,"top_p":1.0,` +
		`"tools":[{"type":"file_search","vector_store_ids":["vs_1"]},{"type":"function","name":"look","parameters":{}},{"type":"computer_use_preview"},{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":true,` +
		`"output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[{"type":"file_citation","index":0,"file_id":"file-1"}]}]},` +
		`{"type":"file_search_call","id":"fs_1"},{"type":"function_call","id":"fc_1"},{"type":"web_search_call","id":"ws_1"},{"type":"computer_call","id":"cu_1"},{"type":"reasoning","id":"rs_1"}],` +
		`"error":{"code":"server_error","message":"no"},"incomplete_details":{"reason":"max_output_tokens"},"previous_response_id":"resp_0","reasoning":{"effort":"medium","generate_summary":"concise"},"max_output_tokens":null,` +
		`"text":{"format":{"type":"text"}},"truncation":"disabled","user":"u","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":9}}`
	storedResponseFields = "id object created_at status model instructions metadata temperature top_p tools.3.type tool_choice parallel_tool_calls output.0.id output.0.type output.0.role output.0.status output.0.content.0.text " +
		"output.0.content.0.annotations.0.file_id output.5.type error.code error.message incomplete_details.reason previous_response_id reasoning.effort reasoning.generate_summary max_output_tokens text.format.type truncation " +
		"user usage.input_tokens usage.input_tokens_details.cached_tokens usage.output_tokens usage.output_tokens_details.reasoning_tokens usage.total_tokens"
)

// variants are the values that a word of an object can have.
func variants(object, word, values string) (list []string) {
	for value := range strings.FieldsSeq(values) {
		list = append(list, strings.ReplaceAll(object, word, value))
	}
	return list
}

var storedObjects = []struct {
	storedObject
	word, values string // a word of the object and what it stands for, one case for each
}{
	{storedObject{"S-153", "S-165", "S-231 S-351 S-352 S-354 S-355 S-356 S-476", "a new batch", "POST", "/v1/batches",
		`{"input_file_id" : "file-1","completion_window":"24h","endpoint":"/v1/embeddings","metadata":{"team":"a"}}`, batchFields, batch},
		"STATUS", "validating failed in_progress finalizing completed expired cancelling cancelled"},
	{storedObject{"S-232", "S-232", "S-360", "a cancelled batch", "POST", "/v1/batches/batch_1/cancel", "", batchFields, batch}, "STATUS", "cancelling"},
	{storedObject{"S-233", "S-233", "S-236", "a batch later", "GET", "/v1/batches/batch_1", "", batchFields, batch}, "STATUS", "cancelled completed"},
	{storedObject{"S-357", "S-359", "S-166 S-501", "batches", "GET", "/v1/batches?after=batch_0&limit=100", "", "object data.0.id first_id last_id has_more",
		`{"object":"list","data":[` + batch + `],"first_id":"batch_1","last_id":"batch_1","has_more":false}`}, "STATUS", "completed"},
	{storedObject{"S-167", "S-183", "S-237 S-361 S-362 S-363 S-364 S-365 S-366 S-478", "a new job", "POST", "/v1/fine_tuning/jobs",
		`{"model":"m-1","training_file":"file-1","suffix":"own","method":{"type":"supervised"},"seed":7}`, tuningFields, tuningJob},
		"STATUS", "validating_files queued running succeeded failed cancelled"},
	{storedObject{"S-367", "S-367", "", "a job", "GET", "/v1/fine_tuning/jobs/ftjob-1", "", tuningFields, tuningJob}, "STATUS", "running"},
	{storedObject{"S-368", "S-368", "S-238", "a cancelled job", "POST", "/v1/fine_tuning/jobs/ftjob-1/cancel", "", tuningFields, tuningJob}, "STATUS", "cancelled"},
	{storedObject{"S-369", "S-370", "S-184 S-185 S-186", "checkpoints", "GET", "/v1/fine_tuning/jobs/ftjob-1/checkpoints?after=ftckpt-0&limit=10", "", checkpointFields, checkpoints}, "", ""},
	{storedObject{"S-371", "S-372", "S-191", "files", "GET", "/v1/files?purpose=batch", "", "object data.0.id", `{"object":"list","data":[` + file + `],"has_more":false}`}, "PURPOSE", "batch"},
	{storedObject{"S-373", "S-373", "S-187 S-188 S-189 S-190 S-239 S-599", "a file", "GET", "/v1/files/file-1", "", fileFields, file},
		"PURPOSE", "assistants assistants_output batch batch_output fine-tune fine-tune-results vision"},
	{storedObject{"S-192", "S-205", "S-207 S-208 S-209 S-210 S-211 S-212 S-213 S-214 S-215 S-240 S-378 S-473 S-474", "a response", "GET", "/v1/responses/resp_1", "", storedResponseFields, storedResponse},
		"STATUS", "completed failed in_progress incomplete"},
}

// TestStoredObjectsArriveUnchanged reads objects that providers store. Each holds every
// field that the specification names.
func TestStoredObjectsArriveUnchanged(t *testing.T) {
	g, _ := start(t)
	for _, o := range storedObjects {
		objects := []string{o.object}
		if o.word != "" {
			objects = variants(o.object, o.word, o.values)
		}
		for i, object := range objects {
			t.Run(fmt.Sprintf("%s %d", o.name, i+1), func(t *testing.T) {
				covers(t, through(o.from, o.to)+" "+o.further)
				p := newProvider(t, says(http.StatusOK, "application/json", object))
				got := g.do(t, o.method, o.target, o.body, to(p)...).wantOK(t)
				if string(got.body) != object {
					t.Errorf("the client got %s, want %s", got.body, object)
				}
				if in := p.only(t); in.method != o.method || in.uri != o.target || string(in.body) != o.body {
					t.Errorf("the provider got %s %s %q, want %s %s %q", in.method, in.uri, in.body, o.method, o.target, o.body)
				}
				for field := range strings.FieldsSeq(o.fields) {
					if !holds(got.object(t), field) {
						t.Errorf("the object has no %s: %s", field, got.body)
					}
				}
			})
		}
	}
}

// through returns the numbers from the first to the last.
func through(first, last string) string {
	var from, to int
	fmt.Sscanf(first+" "+last, "S-%d S-%d", &from, &to)
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, fmt.Sprintf("S-%03d", n))
	}
	return strings.Join(list, " ")
}

// holds reports whether an object has a field, which may be null.
func holds(object map[string]any, field string) bool {
	var v any = object
	for name := range strings.SplitSeq(field, ".") {
		switch inner := v.(type) {
		case map[string]any:
			member, ok := inner[name]
			if !ok {
				return false
			}
			v = member
		case []any:
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(inner) {
				return false
			}
			v = inner[i]
		default:
			return false
		}
	}
	return true
}

// TestProvidersRefuseRequestsForStoredObjects sends requests that the specification
// forbids: the provider decides, and the client gets its refusal.
func TestProvidersRefuseRequestsForStoredObjects(t *testing.T) {
	g, _ := start(t)
	long := strings.Repeat("k", 513)
	for _, tt := range []struct {
		of, name             string
		status               int
		method, target, body string
	}{
		{"S-351 S-352 S-354", "a batch without its required fields", 400, "POST", "/v1/batches", `{}`},
		{"S-352 S-354", "a batch with other words", 400, "POST", "/v1/batches", `{"input_file_id":"f","completion_window":"1h","endpoint":"/v1/things"}`},
		{"S-165 S-502", "a batch with long metadata", 400, "POST", "/v1/batches", `{"input_file_id":"f","completion_window":"24h","endpoint":"/v1/embeddings","metadata":{"a":"` + long + `"}}`},
		{"S-358 S-501", "too many batches", 400, "GET", "/v1/batches?limit=101", ""},
		{"S-234", "a batch that does not exist", 404, "POST", "/v1/batches/none/cancel", ""},
		{"S-235", "a batch that has ended", 409, "POST", "/v1/batches/batch_1/cancel", ""},
		{"S-361 S-362 S-363 S-364", "a job without its required fields", 400, "POST", "/v1/fine_tuning/jobs", `{"suffix":1,"method":2}`},
		{"S-182 S-503", "a job with six integrations", 400, "POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"f","integrations":[{},{},{},{},{},{}]}`},
		{"S-367", "a job that does not exist", 404, "GET", "/v1/fine_tuning/jobs/none", ""},
		{"S-238", "a job that has ended", 400, "POST", "/v1/fine_tuning/jobs/ftjob-1/cancel", ""},
		{"S-369", "a limit that is no integer", 400, "GET", "/v1/fine_tuning/jobs/ftjob-1/checkpoints?limit=x", ""},
		{"S-373", "a file that does not exist", 404, "GET", "/v1/files/none", ""},
		{"S-375", "an unknown part of a response", 400, "GET", "/v1/responses/resp_1?include=colour", ""},
		{"S-378", "a response that does not exist", 404, "GET", "/v1/responses/none", ""},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			const refusal = `{ "error":{"message":"the provider says no","type":"invalid_request_error","param":null,"code":null} }`
			p := newProvider(t, says(tt.status, "application/json", refusal))
			got := g.do(t, tt.method, tt.target, tt.body, to(p)...)
			if got.status != tt.status || string(got.body) != refusal {
				t.Errorf("status %d: %s, want the provider's %d", got.status, got.body, tt.status)
			}
			if in := p.only(t); in.uri != tt.target || string(in.body) != tt.body {
				t.Errorf("the provider got %s %q, want %s %q", in.uri, in.body, tt.target, tt.body)
			}
		})
	}
}

// TestOperationsThatTheSpecificationLeavesOpenAreReachable uploads, reads and deletes.
func TestOperationsThatTheSpecificationLeavesOpenAreReachable(t *testing.T) {
	g, _ := start(t)
	const form = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n{\"custom_id\" : \"1\"}\n\r\n--b--\r\n"
	for _, tt := range []struct{ of, name, method, target, body, returns string }{
		{"S-374", "a file is uploaded", "POST", "/v1/files", form, file},
		{"S-374", "a file is deleted", "DELETE", "/v1/files/file-1", "", `{"id":"file-1","object":"file","deleted":true }`},
		{"S-374", "a batch is read", "GET", "/v1/batches/batch_1", "", batch},
		{"S-374", "jobs are listed", "GET", "/v1/fine_tuning/jobs?limit=2", "", `{"object":"list","data":[` + tuningJob + `],"has_more":false}`},
		{"S-374 S-161", "results of a batch are read", "GET", "/v1/files/file-2/content", "", `{"custom_id":"1","response":{"status_code":200,"body":{}},"error":null}` + "\n"},
		{"S-374 S-162 S-477", "errors of a batch are read", "GET", "/v1/files/file-3/content", "", `{"custom_id":"2","response":{"status_code":400,"body":{}},"error":null}` + "\n"},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			p := newProvider(t, func(w http.ResponseWriter, _ *http.Request, _ received) { io.WriteString(w, tt.returns) })
			header := to(p)
			if tt.body != "" {
				header = append(header, "Content-Type", "multipart/form-data; boundary=b")
			}
			got := g.do(t, tt.method, tt.target, tt.body, header...).wantOK(t)
			if string(got.body) != tt.returns {
				t.Errorf("the client got %s, want %s", got.body, tt.returns)
			}
			if in := p.only(t); in.method != tt.method || in.uri != tt.target || string(in.body) != tt.body {
				t.Errorf("the provider got %s %s %q, want %s %s %q", in.method, in.uri, in.body, tt.method, tt.target, tt.body)
			}
		})
	}
}
