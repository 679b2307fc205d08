package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/jsonedit"
)

// The least bodies that pass, into which rows put one more member.
var least = map[api.Operation]string{
	api.Chat:        `"model":"m","messages":[{"role":"user","content":"hi"}]`,
	api.Completions: `"model":"m","prompt":"hi"`,
	api.Embeddings:  `"model":"m","input":"hi"`,
	api.Images:      `"prompt":"hi"`,
	api.AudioSpeech: `"model":"m","input":"hi","voice":"alloy"`,
	api.Moderations: `"input":"hi"`,
}

func mustScan(t testing.TB, body string) *jsonedit.Doc {
	t.Helper()
	var d jsonedit.Doc
	if err := d.Scan([]byte(body)); err != nil {
		t.Fatalf("Scan(%.200s): %v", body, err)
	}
	return &d
}

// with is the least body of op and further members.
func with(op api.Operation, members string) string {
	return "{" + least[op] + "," + members + "}"
}

func checkBody(t testing.TB, op api.Operation, body string) *apierr.Error {
	t.Helper()
	return chat.Dialect{}.Check(op, mustScan(t, body))
}

// outcome is "" for a body that passes, else param and code.
func outcome(e *apierr.Error) string {
	if e == nil {
		return ""
	}
	return e.Param + " " + e.CodeOrDefault()
}

const (
	valueOf   = " invalid_value"
	typeOf    = " invalid_type"
	missingOf = " missing_required_parameter"
)

func repeat(n int, s string) string {
	return strings.TrimSuffix(strings.Repeat(s+",", n), ",")
}

func function(name string) string {
	return `{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object","name":7}}}`
}

type row struct {
	name    string
	op      api.Operation
	members string
	want    string
}

func run(t *testing.T, rows []row, body func(row) string) {
	t.Helper()
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			err := checkBody(t, tt.op, body(tt))
			if got := outcome(err); got != tt.want {
				t.Errorf("Check(%s, %.150s) = %q (%v), want %q", tt.op, body(tt), got, err, tt.want)
			}
		})
	}
}

func withMembers(r row) string { return with(r.op, r.members) }

func TestCheckHoldsChatParametersToTheirRules(t *testing.T) {
	c := api.Chat
	run(t, []row{
		{"S-259 frequency_penalty -2", c, `"frequency_penalty":-2`, ""},
		{"S-259 frequency_penalty 2", c, `"frequency_penalty":2`, ""},
		{"S-259 frequency_penalty 2.0", c, `"frequency_penalty":2.0`, ""},
		{"S-259 frequency_penalty null", c, `"frequency_penalty":null`, ""},
		{"S-259 frequency_penalty -2.1", c, `"frequency_penalty":-2.1`, "frequency_penalty" + valueOf},
		{"S-259 frequency_penalty 2.1", c, `"frequency_penalty":2.1`, "frequency_penalty" + valueOf},
		{"S-259 frequency_penalty 3", c, `"frequency_penalty":3`, "frequency_penalty" + valueOf},
		{"S-259 frequency_penalty 1e400", c, `"frequency_penalty":1e400`, "frequency_penalty" + valueOf},
		{"S-259 frequency_penalty string", c, `"frequency_penalty":"1"`, "frequency_penalty" + typeOf},
		{"S-260 presence_penalty -2", c, `"presence_penalty":-2`, ""},
		{"S-260 presence_penalty 2", c, `"presence_penalty":2`, ""},
		{"S-260 presence_penalty null", c, `"presence_penalty":null`, ""},
		{"S-260 presence_penalty -2.01", c, `"presence_penalty":-2.01`, "presence_penalty" + valueOf},
		{"S-494 presence_penalty 2.01", c, `"presence_penalty":2.01`, "presence_penalty" + valueOf},
		{"S-260 presence_penalty array", c, `"presence_penalty":[]`, "presence_penalty" + typeOf},
		{"S-261 logit_bias bounds", c, `"logit_bias":{"50256":-100,"1":100}`, ""},
		{"S-261 logit_bias empty", c, `"logit_bias":{}`, ""},
		{"S-261 logit_bias null", c, `"logit_bias":null`, ""},
		{"S-261 logit_bias 101", c, `"logit_bias":{"1":0,"50256":101}`, "logit_bias.50256" + valueOf},
		{"S-261 logit_bias -100.5", c, `"logit_bias":{"50256":-100.5}`, "logit_bias.50256" + valueOf},
		{"S-261 logit_bias text value", c, `"logit_bias":{"50256":"5"}`, "logit_bias.50256" + typeOf},
		{"S-261 logit_bias array", c, `"logit_bias":[1]`, "logit_bias" + typeOf},
		{"S-262 logprobs true", c, `"logprobs":true`, ""},
		{"S-262 logprobs 1", c, `"logprobs":1`, "logprobs" + typeOf},
		{"S-262 logprobs string", c, `"logprobs":"true"`, "logprobs" + typeOf},
		{"S-263 top_logprobs 0", c, `"logprobs":true,"top_logprobs":0`, ""},
		{"S-491 top_logprobs 20", c, `"logprobs":true,"top_logprobs":20`, ""},
		{"S-263 top_logprobs -1", c, `"logprobs":true,"top_logprobs":-1`, "top_logprobs" + valueOf},
		{"S-491 top_logprobs 21", c, `"logprobs":true,"top_logprobs":21`, "top_logprobs" + valueOf},
		{"S-263 top_logprobs 1.5", c, `"logprobs":true,"top_logprobs":1.5`, "top_logprobs" + typeOf},
		{"S-264 top_logprobs alone", c, `"top_logprobs":5`, "top_logprobs" + valueOf},
		{"S-264 top_logprobs with logprobs false", c, `"logprobs":false,"top_logprobs":5`, "top_logprobs" + valueOf},
		{"S-264 top_logprobs before logprobs", c, `"top_logprobs":5,"logprobs":true`, ""},
		{"S-264 top_logprobs null alone", c, `"top_logprobs":null`, ""},
		{"S-265 max_tokens 100", c, `"max_tokens":100`, ""},
		{"S-265 max_tokens 1.5", c, `"max_tokens":1.5`, "max_tokens" + typeOf},
		{"S-265 max_tokens 100.0", c, `"max_tokens":100.0`, "max_tokens" + typeOf},
		{"S-265 max_tokens string", c, `"max_tokens":"100"`, "max_tokens" + typeOf},
		{"S-266 n 1", c, `"n":1`, ""},
		{"S-488 n 128", c, `"n":128`, ""},
		{"S-266 n 0", c, `"n":0`, "n" + valueOf},
		{"S-488 n 129", c, `"n":129`, "n" + valueOf},
		{"S-266 n beyond int64", c, `"n":99999999999999999999`, "n" + valueOf},
		{"S-267 response_format json_schema", c, `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`, ""},
		{"S-267 response_format string", c, `"response_format":"json"`, "response_format" + typeOf},
		{"S-268 seed", c, `"seed":-42`, ""},
		{"S-268 seed beyond int64", c, `"seed":99999999999999999999`, ""},
		{"S-268 seed 1.5", c, `"seed":1.5`, "seed" + typeOf},
		{"S-269 stop string", c, `"stop":"END"`, ""},
		{"S-490 stop 4", c, `"stop":["a","b","c","d"]`, ""},
		{"S-490 stop 5", c, `"stop":["a","b","c","d","e"]`, "stop" + valueOf},
		{"S-269 stop number", c, `"stop":7`, "stop" + typeOf},
		{"S-269 stop null", c, `"stop":null`, ""},
		{"S-269 stop of numbers", c, `"stop":["a",7]`, "stop[1]" + typeOf},
		{"S-270 stream true", c, `"stream":true`, ""},
		{"S-270 stream string", c, `"stream":"true"`, "stream" + typeOf},
		{"S-272 stream_options with stream", c, `"stream_options":{"include_usage":true},"stream":true`, ""},
		{"S-272 stream_options alone", c, `"stream_options":{"include_usage":true}`, "stream_options" + valueOf},
		{"S-272 stream_options with stream false", c, `"stream":false,"stream_options":{}`, "stream_options" + valueOf},
		{"S-272 stream_options null alone", c, `"stream_options":null`, ""},
		{"S-272 stream_options boolean", c, `"stream":true,"stream_options":true`, "stream_options" + typeOf},
		{"S-273 thinking enabled", c, `"thinking":{"type":"enabled","budget_tokens":1024}`, ""},
		{"decision 16 thinking adaptive", c, `"thinking":{"type":"adaptive"}`, ""},
		{"decision 16 thinking disabled", c, `"thinking":{"type":"disabled","budget_tokens":null}`, ""},
		{"S-273 thinking other type", c, `"thinking":{"type":"on"}`, "thinking.type" + valueOf},
		{"S-273 thinking budget 1.5", c, `"thinking":{"type":"enabled","budget_tokens":1.5}`, "thinking.budget_tokens" + typeOf},
		{"S-273 thinking true", c, `"thinking":true`, "thinking" + typeOf},
		{"S-277 temperature 0", c, `"temperature":0`, ""},
		{"S-495 temperature 2", c, `"temperature":2`, ""},
		{"S-277 temperature -0.1", c, `"temperature":-0.1`, "temperature" + valueOf},
		{"S-495 temperature 2.1", c, `"temperature":2.1`, "temperature" + valueOf},
		{"S-277 temperature string", c, `"temperature":"hot"`, "temperature" + typeOf},
		{"S-278 top_p 0", c, `"top_p":0`, ""},
		{"S-496 top_p 1", c, `"top_p":1`, ""},
		{"S-278 top_p 1.1", c, `"top_p":1.1`, "top_p" + valueOf},
		{"S-496 top_p -0.1", c, `"top_p":-0.1`, "top_p" + valueOf},
		{"S-280 tools 128", c, `"tools":[` + repeat(128, function("f")) + `]`, ""},
		{"S-489 tools 129", c, `"tools":[` + repeat(129, function("f")) + `]`, "tools" + valueOf},
		{"S-280 tools object", c, `"tools":{}`, "tools" + typeOf},
		{"S-279 tool without function", c, `"tools":[{"type":"function"}]`, "tools[0].function" + missingOf},
		{"S-279 tool name missing", c, `"tools":[` + repeat(3, function("f")) + `,{"type":"function","function":{"parameters":{}}}]`, "tools[3].function.name" + missingOf},
		{"S-279 tool name number", c, `"tools":[{"function":{"name":5,"x":[1]},"type":"function"}]`, "tools[0].function.name" + typeOf},
		{"S-279 tool function string", c, `"tools":[{"type":"function","function":"f"}]`, "tools[0].function" + typeOf},
		{"S-279 tool string", c, `"tools":["f"]`, "tools[0]" + typeOf},
		{"S-279 tool type number", c, `"tools":[{"type":1}]`, "tools[0].type" + typeOf},
		{"decision 16 tool of the provider", c, `"tools":[{"type":"web_search","function":5},{"type":"custom","custom":{"name":"x"}}]`, ""},
		{"decision 16 tool without type", c, `"tools":[{"function":{"name":"f"}}]`, ""},
		{"decision 16 tool without type and function", c, `"tools":[{"google_search":{}}]`, ""},
		{"decision 16 tool of another type with a function of its own", c, `"tools":[{"function":{"name":5,"x":{"y":[0]}},"type":"custom"},{"type":1}]`, "tools[1].type" + typeOf},
		{"S-281 tool_choice none", c, `"tool_choice":"none"`, ""},
		{"S-281 tool_choice auto", c, `"tool_choice":"auto"`, ""},
		{"S-281 tool_choice required", c, `"tool_choice":"required"`, ""},
		{"S-281 tool_choice function", c, `"tool_choice":{"type":"function","function":{"name":"f"}}`, ""},
		{"S-281 tool_choice other word", c, `"tool_choice":"sometimes"`, "tool_choice" + valueOf},
		{"S-281 tool_choice number", c, `"tool_choice":1`, "tool_choice" + typeOf},
		{"S-281 tool_choice function without name", c, `"tool_choice":{"type":"function","function":{}}`, "tool_choice.function.name" + missingOf},
		{"S-281 tool_choice empty object", c, `"tool_choice":{}`, "tool_choice.function" + missingOf},
		{"decision 16 tool_choice any", c, `"tool_choice":"any"`, ""},
		{"decision 16 tool_choice allowed_tools", c, `"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`, ""},
		{"S-283 parallel_tool_calls false", c, `"parallel_tool_calls":false`, ""},
		{"S-283 parallel_tool_calls 0", c, `"parallel_tool_calls":0`, "parallel_tool_calls" + typeOf},
		{"S-284 user", c, `"user":"u"`, ""},
		{"S-284 user number", c, `"user":5`, "user" + typeOf},
		{"S-285 function_call none", c, `"function_call":"none"`, ""},
		{"S-285 function_call auto", c, `"function_call":"auto"`, ""},
		{"S-285 function_call name", c, `"function_call":{"name":"f"}`, ""},
		{"S-285 function_call required", c, `"function_call":"required"`, "function_call" + valueOf},
		{"S-285 function_call without name", c, `"function_call":{}`, "function_call.name" + missingOf},
		{"S-286 functions 1", c, `"functions":[{"name":"f"}]`, ""},
		{"S-489 functions 128", c, `"functions":[` + repeat(128, `{"name":"f"}`) + `]`, ""},
		{"S-286 functions empty", c, `"functions":[]`, "functions" + valueOf},
		{"S-489 functions 129", c, `"functions":[` + repeat(129, `{"name":"f"}`) + `]`, "functions" + valueOf},
		{"S-286 functions without name", c, `"functions":[{"description":"f"}]`, "functions[0].name" + missingOf},
		{"decision 16 newer parameters", c, `"max_completion_tokens":5,"reasoning_effort":"high","verbosity":"low","service_tier":"auto","store":true,"prediction":{},"modalities":["text"],"audio":{},"web_search_options":{}`, ""},
		{"decision 16 newer parameters null", c, `"max_completion_tokens":null,"reasoning_effort":null,"store":null,"prediction":null,"modalities":null,"audio":null`, ""},
		{"decision 16 max_completion_tokens 1.5", c, `"max_completion_tokens":1.5`, "max_completion_tokens" + typeOf},
		{"decision 16 unknown parameters", c, `"top_k":-1,"extra_body":{"n":0},"Temperature":9`, ""},
		{"escaped key", c, `"temp\u0065rature":9`, "temperature" + valueOf},
		{"fault found first wins", c, `"n":0,"temperature":9`, "n" + valueOf},
	}, withMembers)
}

func TestCheckHoldsTextParametersToTheirRules(t *testing.T) {
	c := api.Completions
	run(t, []row{
		{"S-294 best_of 0", c, `"best_of":0`, ""},
		{"S-493 best_of 20", c, `"best_of":20`, ""},
		{"S-294 best_of null", c, `"best_of":null,"n":5`, ""},
		{"S-294 best_of -1", c, `"best_of":-1`, "best_of" + valueOf},
		{"S-493 best_of 21", c, `"best_of":21`, "best_of" + valueOf},
		{"S-295 best_of below n", c, `"best_of":2,"n":3`, "best_of" + valueOf},
		{"AMB-5 best_of equals n", c, `"best_of":3,"n":3`, ""},
		{"S-295 best_of above n", c, `"n":3,"best_of":4`, ""},
		{"S-296 best_of streamed", c, `"best_of":2,"stream":true`, "best_of" + valueOf},
		{"S-296 best_of 1 streamed", c, `"best_of":1,"stream":true`, ""},
		{"S-296 best_of not streamed", c, `"best_of":2,"stream":false`, ""},
		{"S-297 echo", c, `"echo":true`, ""},
		{"S-297 echo null", c, `"echo":null`, ""},
		{"S-297 echo 1", c, `"echo":1`, "echo" + typeOf},
		{"S-298 frequency_penalty 2", c, `"frequency_penalty":2`, ""},
		{"S-298 frequency_penalty 2.1", c, `"frequency_penalty":2.1`, "frequency_penalty" + valueOf},
		{"S-298 presence_penalty -2.1", c, `"presence_penalty":-2.1`, "presence_penalty" + valueOf},
		{"S-299 logit_bias 100", c, `"logit_bias":{"1":100}`, ""},
		{"S-299 logit_bias 101", c, `"logit_bias":{"1":101}`, "logit_bias.1" + valueOf},
		{"S-492 logprobs 5", c, `"logprobs":5`, ""},
		{"S-300 logprobs 0", c, `"logprobs":0`, ""},
		{"S-300 logprobs null", c, `"logprobs":null`, ""},
		{"S-492 logprobs 6", c, `"logprobs":6`, "logprobs" + valueOf},
		{"S-300 logprobs -1", c, `"logprobs":-1`, "logprobs" + valueOf},
		{"S-300 logprobs true", c, `"logprobs":true`, "logprobs" + typeOf},
		{"S-301 max_tokens 0", c, `"max_tokens":0`, ""},
		{"S-301 max_tokens beyond int64", c, `"max_tokens":99999999999999999999`, ""},
		{"S-301 max_tokens below int64", c, `"max_tokens":-99999999999999999999`, "max_tokens" + valueOf},
		{"S-301 max_tokens null", c, `"max_tokens":null`, ""},
		{"S-301 max_tokens -1", c, `"max_tokens":-1`, "max_tokens" + valueOf},
		{"S-301 max_tokens 1.5", c, `"max_tokens":1.5`, "max_tokens" + typeOf},
		{"S-302 n 1", c, `"n":1`, ""},
		{"S-488 n 128", c, `"n":128`, ""},
		{"S-302 n 0", c, `"n":0`, "n" + valueOf},
		{"S-488 n 129", c, `"n":129`, "n" + valueOf},
		{"S-302 n null", c, `"n":null`, ""},
		{"S-303 seed", c, `"seed":1`, ""},
		{"S-303 seed string", c, `"seed":"1"`, "seed" + typeOf},
		{"S-490 stop 4", c, `"stop":["a","b","c","d"]`, ""},
		{"S-490 stop 5", c, `"stop":["a","b","c","d","e"]`, "stop" + valueOf},
		{"S-304 stop null", c, `"stop":null`, ""},
		{"S-305 stream null", c, `"stream":null`, ""},
		{"S-305 stream 1", c, `"stream":1`, "stream" + typeOf},
		{"S-306 stream_options alone", c, `"stream_options":{}`, "stream_options" + valueOf},
		{"S-306 stream_options with stream null", c, `"stream":null,"stream_options":{}`, "stream_options" + valueOf},
		{"S-306 stream_options with stream", c, `"stream":true,"stream_options":{}`, ""},
		{"S-307 suffix", c, `"suffix":"."`, ""},
		{"S-307 suffix null", c, `"suffix":null`, ""},
		{"S-307 suffix number", c, `"suffix":1`, "suffix" + typeOf},
		{"S-308 temperature 2", c, `"temperature":2`, ""},
		{"S-308 temperature 2.1", c, `"temperature":2.1`, "temperature" + valueOf},
		{"S-309 top_p 1", c, `"top_p":1.0`, ""},
		{"S-309 top_p 1.1", c, `"top_p":1.1`, "top_p" + valueOf},
		{"S-310 user number", c, `"user":1`, "user" + typeOf},
	}, withMembers)
}

func TestCheckHoldsEmbeddingAndImageParametersToTheirRules(t *testing.T) {
	e, i := api.Embeddings, api.Images
	run(t, []row{
		{"S-318 encoding_format float", e, `"encoding_format":"float"`, ""},
		{"S-318 encoding_format base64", e, `"encoding_format":"base64"`, ""},
		{"S-318 encoding_format number", e, `"encoding_format":1`, "encoding_format" + typeOf},
		{"S-319 dimensions 1", e, `"dimensions":1`, ""},
		{"S-319 dimensions 0", e, `"dimensions":0`, "dimensions" + valueOf},
		{"S-319 dimensions 1.5", e, `"dimensions":1.5`, "dimensions" + typeOf},
		{"S-320 user number", e, `"user":1`, "user" + typeOf},
		{"S-324 model absent", i, `"n":10`, ""},
		{"S-324 model null", i, `"model":null,"n":10`, ""},
		{"S-324 model number", i, `"model":3`, "model" + typeOf},
		{"S-325 n 1", i, `"n":1`, ""},
		{"S-325 n 0", i, `"n":0`, "n" + valueOf},
		{"S-499 n 11", i, `"n":11`, "n" + valueOf},
		{"S-499 n 11 of a later model", i, `"model":"gpt-image-1","n":11`, "n" + valueOf},
		{"S-325 newer n 1", i, `"model":"dall-e-3","n":1`, ""},
		{"S-499 newer n 2", i, `"model":"dall-e-3","n":2`, "n" + valueOf},
		{"S-499 newer n 2 behind a provider's name", i, `"model":"openai/dall-e-3","n":2`, "n" + valueOf},
		{"S-325 older n 10", i, `"model":"dall-e-2","n":10`, ""},
		{"S-326 quality newer hd", i, `"model":"dall-e-3","quality":"hd"`, ""},
		{"S-326 quality newer standard", i, `"model":"dall-e-3","quality":"standard"`, ""},
		{"S-326 quality other", i, `"model":"dall-e-3","quality":"ultra"`, "quality" + valueOf},
		{"S-326 quality older hd", i, `"model":"dall-e-2","quality":"hd"`, "quality" + valueOf},
		{"S-326 quality hd without model", i, `"quality":"hd"`, "quality" + valueOf},
		{"decision 16 quality of a later model", i, `"model":"gpt-image-1","quality":"low"`, ""},
		{"decision 16 quality of a later model unnamed", i, `"quality":"low","size":"1536x1024","background":"transparent"`, ""},
		{"S-326 quality number", i, `"model":"gpt-image-1","quality":1`, "quality" + typeOf},
		{"S-327 response_format url", i, `"response_format":"url"`, ""},
		{"S-327 response_format b64_json", i, `"response_format":"b64_json"`, ""},
		{"S-327 response_format other", i, `"response_format":"png"`, "response_format" + valueOf},
		{"S-327 response_format other of a later model", i, `"model":"sd","response_format":"png"`, "response_format" + valueOf},
		{"S-329 size other", i, `"size":"2048x2048"`, "size" + valueOf},
		{"S-330 older 256x256", i, `"size":"256x256"`, ""},
		{"S-330 older 512x512", i, `"model":"dall-e-2","size":"512x512"`, ""},
		{"S-330 older 1024x1024", i, `"size":"1024x1024"`, ""},
		{"S-330 older 1792x1024", i, `"model":"dall-e-2","size":"1792x1024"`, "size" + valueOf},
		{"S-331 newer 1792x1024", i, `"model":"dall-e-3","size":"1792x1024"`, ""},
		{"S-331 newer 1024x1792", i, `"model":"dall-e-3","size":"1024x1792"`, ""},
		{"S-331 newer 1024x1024", i, `"model":"dall-e-3","size":"1024x1024"`, ""},
		{"S-331 newer 256x256", i, `"model":"dall-e-3","size":"256x256"`, "size" + valueOf},
		{"decision 16 size of a later model", i, `"model":"gpt-image-1","size":"auto"`, ""},
		{"S-332 style newer vivid", i, `"model":"dall-e-3","style":"vivid"`, ""},
		{"S-332 style newer natural", i, `"model":"dall-e-3","style":"natural"`, ""},
		{"S-332 style other", i, `"model":"dall-e-3","style":"plain"`, "style" + valueOf},
		{"S-332 style older", i, `"style":"vivid"`, "style" + valueOf},
		{"S-332 style older null", i, `"style":null`, ""},
		{"S-333 user number", i, `"user":1`, "user" + typeOf},
	}, withMembers)
}

func TestCheckAsksForRequiredParameters(t *testing.T) {
	run(t, []row{
		{"S-257 messages missing", api.Chat, `"model":"m"`, "messages" + missingOf},
		{"S-257 messages null", api.Chat, `"model":"m","messages":null`, "messages" + missingOf},
		{"S-257 messages empty", api.Chat, `"model":"m","messages":[]`, "messages" + valueOf},
		{"S-257 messages string", api.Chat, `"model":"m","messages":"hi"`, "messages" + typeOf},
		{"S-257 message string", api.Chat, `"model":"m","messages":["hi"]`, "messages[0]" + typeOf},
		{"S-257 message without role", api.Chat, `"model":"m","messages":[{"role":"user"},{"content":"x"}]`, "messages[1].role" + missingOf},
		{"S-257 message role number", api.Chat, `"model":"m","messages":[{"content":[{"role":1}],"role":1}]`, "messages[0].role" + typeOf},
		{"S-257 content with brackets and quotes", api.Chat, `"model":"m","messages":[{"content":["]","\\"],"role":"x"},{"content":"\\","role":1}]`, "messages[1].role" + typeOf},
		{"S-257 content of any form", api.Chat, `"model":"m","messages":[{"role":"x","content":null},{"content":[{"a":[]}],"role":"tool"}]`, ""},
		{"S-258 model missing", api.Chat, `"messages":[{"role":"user"}]`, "model" + missingOf},
		{"S-258 model null", api.Chat, `"model":null,"messages":[{"role":"user"}]`, "model" + missingOf},
		{"S-258 model number", api.Chat, `"model":4,"messages":[{"role":"user"}]`, "model" + typeOf},
		{"S-291 model missing", api.Completions, `"prompt":"x"`, "model" + missingOf},
		{"S-292 prompt string", api.Completions, `"model":"m","prompt":""`, ""},
		{"S-292 prompt strings", api.Completions, `"model":"m","prompt":["a",""]`, ""},
		{"S-292 prompt tokens", api.Completions, `"model":"m","prompt":[1,2]`, ""},
		{"S-292 prompt token arrays", api.Completions, `"model":"m","prompt":[[1],[2,3],[]]`, ""},
		{"S-292 prompt object", api.Completions, `"model":"m","prompt":{}`, "prompt" + typeOf},
		{"S-292 prompt mixed", api.Completions, `"model":"m","prompt":["a",1]`, "prompt[1]" + typeOf},
		{"S-292 prompt token fraction", api.Completions, `"model":"m","prompt":[[1],[2,1.5]]`, "prompt[1][1]" + typeOf},
		{"AMB-6 prompt missing", api.Completions, `"model":"m"`, "prompt" + missingOf},
		{"S-293 prompt null", api.Completions, `"model":"m","prompt":null`, ""},
		{"S-313 input missing", api.Embeddings, `"model":"m"`, "input" + missingOf},
		{"S-313 input null", api.Embeddings, `"model":"m","input":null`, "input" + missingOf},
		{"S-313 input string", api.Embeddings, `"model":"m","input":"x"`, ""},
		{"S-313 input strings", api.Embeddings, `"model":"m","input":["x","y"]`, ""},
		{"S-313 input tokens", api.Embeddings, `"model":"m","input":[1,2]`, ""},
		{"S-313 input token arrays", api.Embeddings, `"model":"m","input":[[1],[2]]`, ""},
		{"S-313 input object", api.Embeddings, `"model":"m","input":{}`, "input" + typeOf},
		{"S-313 input mixed", api.Embeddings, `"model":"m","input":[1,"x"]`, "input[1]" + typeOf},
		{"S-314 input empty string", api.Embeddings, `"model":"m","input":""`, "input" + valueOf},
		{"S-314 input of an empty string", api.Embeddings, `"model":"m","input":["a",""]`, "input[1]" + valueOf},
		{"S-497 input empty array", api.Embeddings, `"model":"m","input":[]`, "input" + valueOf},
		{"S-497 input of an empty array", api.Embeddings, `"model":"m","input":[[]]`, "input[0]" + valueOf},
		{"S-315 input 2048", api.Embeddings, `"model":"m","input":[` + repeat(2048, `"a"`) + `]`, ""},
		{"S-315 input 2049", api.Embeddings, `"model":"m","input":[` + repeat(2049, `"a"`) + `]`, "input" + valueOf},
		{"S-497 input tokens 2049", api.Embeddings, `"model":"m","input":[` + repeat(2049, `1`) + `]`, "input" + valueOf},
		{"S-316 8192 tokens", api.Embeddings, `"model":"text-embedding-ada-002","input":[[` + repeat(8192, `1`) + `]]`, ""},
		{"S-316 8193 tokens", api.Embeddings, `"model":"text-embedding-ada-002","input":[[` + repeat(8193, `1`) + `]]`, "input[0]" + valueOf},
		{"S-316 8193 tokens of another model", api.Embeddings, `"model":"m","input":[[` + repeat(8193, `1`) + `]]`, ""},
		{"S-316 text of possible length", api.Embeddings, `"model":"text-embedding-ada-002","input":"` + strings.Repeat("a", 2<<20) + `"`, ""},
		{"S-316 text beyond any tokenizer", api.Embeddings, `"model":"text-embedding-ada-002","input":"` + strings.Repeat("a", 2<<20+1) + `"`, "input" + valueOf},
		{"S-316 one text beyond any tokenizer", api.Embeddings, `"input":["x","` + strings.Repeat("a", 2<<20+1) + `"],"model":"text-embedding-ada-002"`, "input[1]" + valueOf},
		{"S-316 escapes count as what they spell", api.Embeddings, `"model":"text-embedding-ada-002","input":"` + strings.Repeat(`\u0061`, 2<<20) + `"`, ""},
		{"S-317 model missing", api.Embeddings, `"input":"x"`, "model" + missingOf},
		{"S-322 prompt missing", api.Images, `"model":"dall-e-3"`, "prompt" + missingOf},
		{"S-322 prompt number", api.Images, `"prompt":1`, "prompt" + typeOf},
		{"S-323 older 1000", api.Images, `"prompt":"` + strings.Repeat("é", 1000) + `"`, ""},
		{"S-323 older 1001", api.Images, `"prompt":"` + strings.Repeat("é", 1001) + `"`, "prompt" + valueOf},
		{"S-323 older 1000 escaped", api.Images, `"prompt":"` + strings.Repeat(`\n`, 1000) + `"`, ""},
		{"S-498 older 1000 pairs", api.Images, `"model":"dall-e-2","prompt":"` + strings.Repeat(`\ud83d\ude00`, 1000) + `"`, ""},
		{"S-498 older 1001 pairs", api.Images, `"model":"dall-e-2","prompt":"` + strings.Repeat(`\ud83d\ude00`, 1001) + `"`, "prompt" + valueOf},
		{"S-323 newer 4000", api.Images, `"model":"dall-e-3","prompt":"` + strings.Repeat("日", 4000) + `"`, ""},
		{"S-323 newer 4001", api.Images, `"model":"dall-e-3","prompt":"` + strings.Repeat("日", 4001) + `"`, "prompt" + valueOf},
		{"decision 16 prompt of a later model", api.Images, `"model":"gpt-image-1","prompt":"` + strings.Repeat("a", 9000) + `"`, ""},
		{"speech model missing", api.AudioSpeech, `"input":"x","voice":"v"`, "model" + missingOf},
		{"speech input missing", api.AudioSpeech, `"model":"m","voice":"v"`, "input" + missingOf},
		{"speech voice missing", api.AudioSpeech, `"model":"m","input":"x"`, "voice" + missingOf},
		{"speech voice number", api.AudioSpeech, `"model":"m","input":"x","voice":1`, "voice" + typeOf},
		{"speech voice of a client's own", api.AudioSpeech, `"model":"m","input":"x","voice":{"id":"v"}`, ""},
		{"moderations input missing", api.Moderations, `"model":"m"`, "input" + missingOf},
		{"moderations input number", api.Moderations, `"input":1`, "input" + typeOf},
		{"moderations input images", api.Moderations, `"input":[{"type":"image_url"}]`, ""},
		{"other operations", api.Files, `"model":5`, ""},
	}, func(r row) string { return "{" + r.members + "}" })
}

func TestEveryLeastBodyPasses(t *testing.T) {
	for op, members := range least {
		if err := checkBody(t, op, "{"+members+"}"); err != nil {
			t.Errorf("Check(%s, {%s}) = %v, want none", op, members, err)
		}
	}
}

func TestMessagesSayTheRuleAndWhatWasSent(t *testing.T) {
	secret := strings.Repeat("secret", 30)
	for _, tt := range []struct{ members, want string }{
		{`"temperature":2.1`, "temperature must be a number from 0 to 2, not 2.1"},
		{`"n":0`, "n must be an integer from 1 to 128, not 0"},
		{`"max_tokens":"` + secret + `"`, "max_tokens must be an integer, not a string"},
		{`"n":` + strings.Repeat("9", 500), "n must be an integer from 1 to 128, not a number of 500 characters"},
		{`"tool_choice":"maybe"`, `tool_choice must be one of "none", "auto", "required", "any", not "maybe"`},
		{`"tool_choice":"` + secret + `"`, `tool_choice must be one of "none", "auto", "required", "any", not a string`},
		{`"stop":["a","b","c","d","e"]`, "stop must be an array of at most 4 strings, not one of 5"},
		{`"logit_bias":{"` + secret + `":101}`, "logit_bias." + secret[:32] + "… must be a number from -100 to 100, not 101"},
		{`"stream_options":{}`, "stream_options is only for streams: send stream true, or leave stream_options out"},
		{`"tools":[{"type":"function"}]`, "tools[0].function is required: send an object with the function's name"},
	} {
		err := checkBody(t, api.Chat, with(api.Chat, tt.members))
		if err == nil || err.Message != tt.want {
			t.Errorf("Check(%.60s) = %v, want %s", tt.members, err, tt.want)
		}
	}
}

func TestRefusalsAreBadRequestsOfThisDialect(t *testing.T) {
	err := checkBody(t, api.Chat, with(api.Chat, `"n":0`))
	const want = `{"error":{"message":"n must be an integer from 1 to 128, not 0","type":"invalid_request_error","param":"n","code":"invalid_value","source":"gateway"},"status":"failure","message":"n must be an integer from 1 to 128, not 0"}`
	if got := string(chat.Dialect{}.Error(err)); got != want || err.Status() != 400 {
		t.Errorf("Error = %d %s, want 400 %s", err.Status(), got, want)
	}
	if got := string(chat.Dialect{}.ErrorEvent([]byte("x"), err)); got != "xdata: "+want+"\n\n" {
		t.Errorf("ErrorEvent = %q", got)
	}
	if got := string(chat.Dialect{}.Terminator()); got != "data: [DONE]\n\n" {
		t.Errorf("Terminator = %q", got)
	}
}

func TestDefaultsWriteOutANullPrompt(t *testing.T) {
	for _, tt := range []struct {
		op         api.Operation
		body, want string
	}{
		{api.Completions, `{"model":"m", "prompt":null}`, `{"model":"m", "prompt":"<|endoftext|>"}`},
		{api.Completions, `{"model":"m","prompt":"x","stop":null}`, `{"model":"m","prompt":"x","stop":null}`},
		{api.Completions, `{"model":"m"}`, `{"model":"m"}`},
		{api.Images, `{"prompt":null}`, `{"prompt":null}`},
	} {
		d := mustScan(t, tt.body)
		if got := string(d.Apply(nil, chat.Dialect{}.Defaults(tt.op, d)...)); got != tt.want {
			t.Errorf("Defaults(%s, %s) makes %s, want %s", tt.op, tt.body, got, tt.want)
		}
	}
}

func TestStrictTargetsTakeFunctionsOnly(t *testing.T) {
	for _, tt := range []struct{ tools, want string }{
		{`[` + function("f") + `,{"function":{"name":"g"}}]`, ""},
		{`[` + function("f") + `,{"type":"web_search"}]`, "tools[1].type" + valueOf},
		{`[{"google_search":{}}]`, "tools[0].type" + valueOf},
		{`null`, ""},
	} {
		d := mustScan(t, with(api.Chat, `"tools":`+tt.tools))
		if err := chat.FunctionsOnly(api.Chat, d); outcome(err) != tt.want {
			t.Errorf("FunctionsOnly(%s) = %v, want %q", tt.tools, err, tt.want)
		}
	}
}

// fourKB is a conversation with tools of about 4 KB, as clients send them.
func fourKB() string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-4o","temperature":0.7,"max_tokens":1024,"stream":true,"stream_options":{"include_usage":true},"top_p":1,"user":"u-1","messages":[{"role":"system","content":"You are a helpful assistant."}`)
	for i := range 6 {
		fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, strings.Repeat(fmt.Sprintf("Question %d of the talk, at some length. ", i), 12))
	}
	b.WriteString(`],"tools":[{"type":"function","function":{"name":"get_weather","description":"Get the weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string","enum":["c","f"]}},"required":["city"]}}}],"tool_choice":"auto"}`)
	return b.String()
}

func TestCheckOfAValidBodyAllocatesAlmostNothing(t *testing.T) {
	d := mustScan(t, fourKB())
	if n := testing.AllocsPerRun(100, func() { _ = chat.Dialect{}.Check(api.Chat, d) }); n > 1 {
		t.Errorf("Check allocates %v times, want at most once", n)
	}
}

func BenchmarkScanAlone(b *testing.B) {
	body := []byte(fourKB())
	var d jsonedit.Doc
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		_ = d.Scan(body)
	}
}

func BenchmarkCheckAlone(b *testing.B) {
	body := []byte(fourKB())
	var d jsonedit.Doc
	_ = d.Scan(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := (chat.Dialect{}).Check(api.Chat, &d); err != nil {
			b.Fatal(err)
		}
	}
}

func mustScanOrSkip(t *testing.T, body string) *jsonedit.Doc {
	t.Helper()
	var d jsonedit.Doc
	if d.Scan([]byte(body)) != nil {
		t.SkipNow()
	}
	return &d
}
