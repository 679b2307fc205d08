package admin

import "net/http"

// undocumented are routes whose parameters the OpenAPI document does not describe, because
// other parts of the gateway than the control plane serve them.
var undocumented = map[string]*description{
	"models": {Method: http.MethodGet, Path: "/v1/models", Summary: "List models"},
	"log":    {Method: http.MethodGet, Path: "/v1/logs/{log}", Summary: "Show a log entry"},
	"logs": {Method: http.MethodGet, Path: "/v1/logs", Summary: "List log entries, newest first", Query: []field{
		{Name: "from", Type: typeTime, Doc: "Only entries since then, such as 24h or 7d; default 30d"},
		{Name: "to", Type: typeTime, Doc: "Only entries before then"},
		{Name: "workspace", Type: typeText, Doc: "Id, slug or name"},
		{Name: "status", Type: typeText, Doc: "Statuses such as 429 and classes such as 5xx, separated by commas"},
		{Name: "outcome", Type: typeText, Doc: "success, error, cancelled or other, or several separated by commas"},
		{Name: "error_code", Type: typeText, Doc: "Error codes, separated by commas"},
		{Name: "model", Type: typeText, Doc: "Requested model"},
		{Name: "upstream_model", Type: typeText, Doc: "Model that was sent to the provider"},
		{Name: "response_model", Type: typeText, Doc: "Model that the provider reported"},
		{Name: "target", Type: typeText, Doc: "Path of a target in its config, or its name"},
		{Name: "provider", Type: typeText, Doc: "Provider id, or slug of a managed provider"},
		{Name: "api_key", Type: typeText, Doc: "Id or name of the API key"},
		{Name: "user", Type: typeText, Doc: "Id or e-mail address of the user of the API key"},
		{Name: "config", Type: typeText, Doc: "Id or slug of a config, or one of its versions such as main@3"},
		{Name: "prompt", Type: typeText, Doc: "Slug of a prompt, or one of its versions such as greeting@3"},
		{Name: "cache_status", Type: typeText, Doc: "Cache status, such as HIT or MISS"},
		{Name: "text", Type: typeText, Doc: "Text in an entry, in any case"},
		{Name: "trace_id", Type: typeText, Doc: "Trace"},
		{Name: "operation", Type: typeText, Doc: "Operation, such as chat"},
		{Name: "stream", Type: typeFlag, Doc: "Only streams, or with =false none"},
		{Name: "min_latency_ms", Type: typeNumber, Doc: "Least duration in milliseconds"},
		{Name: "max_latency_ms", Type: typeNumber, Doc: "Highest duration in milliseconds"},
		{Name: "metadata", Type: typeMap, Doc: "Metadata of the request"},
		{Name: "cost_nano_usd_min", Type: typeInteger, Doc: "Least cost in nano-dollars"},
		{Name: "cost_nano_usd_max", Type: typeInteger, Doc: "Highest cost in nano-dollars"},
		{Name: "cost_min", Type: typeNumber, Doc: "Least cost in cents"},
		{Name: "cost_max", Type: typeNumber, Doc: "Highest cost in cents"},
		{Name: "total_units_min", Type: typeInteger, Doc: "Fewest tokens"},
		{Name: "total_units_max", Type: typeInteger, Doc: "Most tokens"},
		{Name: "order_by", Type: typeText, Enum: []string{"created_at", "cost", "latency", "tokens", "first_token"}, Doc: "Order of the list"},
		{Name: "order", Type: typeText, Enum: []string{"desc", "asc"}, Doc: "Direction of the order"},
		{Name: "limit", Type: typeInteger, Most: 100}, {Name: "cursor", Type: typeText},
	}},
	"files": {Method: http.MethodGet, Path: "/v1/files", Summary: "List files, newest first", Query: []field{
		{Name: "purpose", Type: typeText, Doc: "Only files for this purpose"},
		{Name: "order", Type: typeText, Enum: []string{"asc", "desc"}, Doc: "Order of creation"},
		{Name: "limit", Type: typeInteger, Most: 1000}, {Name: "after", Type: typeText},
	}},
	"file":         {Method: http.MethodGet, Path: "/v1/files/{file}", Summary: "Show a file"},
	"file-content": {Method: http.MethodGet, Path: "/v1/files/{file}/content", Summary: "Print the content of a file"},
	"delete-file":  {Method: http.MethodDelete, Path: "/v1/files/{file}", Summary: "Delete a file"},
	"upload-file": {Method: http.MethodPost, Path: "/v1/files", Summary: "Upload a file", Body: []field{
		{Name: "file", Type: typeText, Required: true, Doc: "File to upload; - is standard input"},
		{Name: "purpose", Type: typeText, Required: true,
			Enum: []string{"assistants", "batch", "fine-tune", "vision", "user_data", "evals"}, Doc: "Purpose"},
	}},
	"batches": {Method: http.MethodGet, Path: "/v1/batches", Summary: "List batches, newest first", Query: []field{
		{Name: "limit", Type: typeInteger, Most: 100}, {Name: "after", Type: typeText},
	}},
	"batch":        {Method: http.MethodGet, Path: "/v1/batches/{batch}", Summary: "Show a batch and its progress"},
	"cancel-batch": {Method: http.MethodPost, Path: "/v1/batches/{batch}/cancel", Summary: "Cancel a batch"},
	"batch-output": {Method: http.MethodGet, Path: "/v1/batches/{batch}/output", Summary: "Print the results of an ended batch"},
	"create-batch": {Method: http.MethodPost, Path: "/v1/batches", Summary: "Create a batch", Body: []field{
		{Name: "input_file_id", Type: typeText, Required: true, Doc: "File with a request per line"},
		{Name: "endpoint", Type: typeText, Required: true, Doc: "Path of the requests, such as /v1/chat/completions"},
		{Name: "completion_window", Type: typeText, Doc: "How long it may take, such as 24h"},
		{Name: "metadata", Type: typeMap, Doc: "Metadata of the batch"},
	}},
}
