package conformance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// trial sends a body to a unified route: base with the members of set over it
// and those of drop taken out.
type trial struct {
	of    string // statements
	name  string
	set   string // JSON object
	drop  string
	param string // whom the refusal has to name; empty when the body is fine
	with  []string
}

// accept and refuse make trials that are named by what they send.
func accept(of, set string) trial { return trial{of: of, name: brief(set) + " is taken", set: set} }

func refuse(of, param, set string) trial {
	return trial{of: of, name: brief(set) + " is refused", set: set, param: param}
}

func without(of, param string) trial {
	return trial{of: of, name: "a body without " + param + " is refused", drop: param, param: param}
}

// given adds request headers to a trial.
func (tr trial) given(header ...string) trial {
	tr.name += " with " + strings.Join(header, " ")
	tr.with = header
	return tr
}

func brief(set string) string {
	if len(set) <= 60 {
		return set
	}
	return fmt.Sprintf("%s… of %d bytes", strings.ToValidUTF8(set[:40], ""), len(set))
}

// body is the base with the trial's changes.
func (tr trial) body(t *testing.T, base string) string {
	t.Helper()
	members := map[string]json.RawMessage{}
	for _, text := range []string{base, tr.set} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Fatalf("the trial is no JSON object: %v: %.100s", err, text)
		}
	}
	delete(members, tr.drop)
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// try sends every trial to the route. What is taken reaches the provider with
// each member as it was sent; what is refused names the parameter and reaches
// nobody.
func try(t *testing.T, path, base string, trials []trial) {
	t.Helper()
	g, _ := start(t)
	p := newProvider(t, nil)
	for _, tr := range trials {
		prove(t, tr.of, tr.name, func(t *testing.T) {
			p.forget()
			sent := tr.body(t, base)
			got := g.do(t, "POST", path, sent, to(p, tr.with...)...)
			if tr.param != "" {
				got.refusedFor(t, tr.param)
				p.wantNoRequests(t)
				return
			}
			got.wantOK(t)
			want := sent
			if strings.Contains(sent, `"stream":true`) && !strings.Contains(sent, "stream_options") { // the gateway asks for usage
				want = strings.TrimSuffix(sent, "}") + `,"stream_options":{"include_usage":true}}`
			}
			if in := p.only(t); string(in.body) != want {
				t.Errorf("the provider got %.300s, want %.300s", in.body, want)
			}
		})
	}
}

// many returns a JSON array of n times the element.
func many(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

func TestChatParameters(t *testing.T) {
	const (
		tool     = `{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}`
		function = `{"name":"look"}`
	)
	try(t, "/v1/chat/completions", `{"model":"m-1","messages":[{"role":"user","content":"hi"}]}`, []trial{
		without("S-257", "messages"),
		refuse("S-257", "messages", `{"messages":[]}`),
		refuse("S-257", "messages", `{"messages":"hi"}`),
		refuse("S-257", "messages", `{"messages":{"role":"user","content":"hi"}}`),
		refuse("S-257", "messages", `{"messages":null}`),
		refuse("S-257", "messages", `{"messages":["hi"]}`),
		refuse("S-257", "messages[1]", `{"messages":[{"role":"user","content":"hi"},"hi"]}`),
		accept("S-257", `{"messages":[{"role":"user","content":"one"}]}`),
		accept("S-257", `{"messages":`+many(300, `{"role":"user","content":"x"}`)+`}`),
		without("S-258", "model"),
		refuse("S-258", "model", `{"model":7}`),
		refuse("S-258", "model", `{"model":null}`),
		refuse("S-258", "model", `{"model":["m-1"]}`),
		accept("S-258", `{"model":"vendor/m-1:latest"}`),

		accept("S-259 S-494", `{"frequency_penalty":-2}`),
		accept("S-259 S-494", `{"frequency_penalty":2}`),
		accept("S-259 S-494", `{"frequency_penalty":2.0}`),
		accept("S-259", `{"frequency_penalty":0}`),
		accept("S-259", `{"frequency_penalty":null}`),
		refuse("S-259 S-494", "frequency_penalty", `{"frequency_penalty":-2.1}`),
		refuse("S-259 S-494", "frequency_penalty", `{"frequency_penalty":2.0001}`),
		refuse("S-259 S-494", "frequency_penalty", `{"frequency_penalty":3e0}`),
		refuse("S-259", "frequency_penalty", `{"frequency_penalty":"1"}`),
		accept("S-260 S-494", `{"presence_penalty":-2}`),
		accept("S-260 S-494", `{"presence_penalty":2}`),
		accept("S-260", `{"presence_penalty":null}`),
		refuse("S-260 S-494", "presence_penalty", `{"presence_penalty":-2.1}`),
		refuse("S-260 S-494", "presence_penalty", `{"presence_penalty":2.1}`),
		refuse("S-260", "presence_penalty", `{"presence_penalty":true}`),
		refuse("S-260", "presence_penalty", `{"presence_penalty":"1"}`),

		// Official clients send null for what their caller left out, and newer
		// parameters that the specification does not know.
		accept("S-265 S-266 S-267 S-268 S-269 S-277 S-278", `{"logit_bias":null,"logprobs":null,"top_logprobs":null,"max_tokens":null,"n":null,"response_format":null,"seed":null,"stop":null,"stream":null,"stream_options":null,"temperature":null,"top_p":null}`),
		accept("S-281 S-283 S-284 S-285", `{"tools":null,"tool_choice":null,"parallel_tool_calls":null,"user":null,"function_call":null,"functions":null,"thinking":null}`),
		accept("S-289", `{"max_completion_tokens":9,"reasoning_effort":"low","verbosity":"low","service_tier":"auto","store":true,"modalities":["text"],"metadata":{"a":"b"},"prompt_cache_key":"k","anything":{"else":1}}`),
		accept("S-261", `{"logit_bias":{"50256":-100,"11":100,"12":0.5}}`),
		accept("S-261", `{"logit_bias":{}}`),
		refuse("S-261", "logit_bias", `{"logit_bias":{"50256":101}}`),
		refuse("S-261", "logit_bias", `{"logit_bias":{"11":1,"50256":-100.5}}`),
		refuse("S-261", "logit_bias", `{"logit_bias":{"50256":"5"}}`),
		refuse("S-261", "logit_bias", `{"logit_bias":[5]}`),
		refuse("S-261", "logit_bias", `{"logit_bias":"50256"}`),

		accept("S-262", `{"logprobs":true}`),
		accept("S-262", `{"logprobs":false}`),
		refuse("S-262", "logprobs", `{"logprobs":"true"}`),
		refuse("S-262", "logprobs", `{"logprobs":1}`),
		accept("S-263 S-491", `{"logprobs":true,"top_logprobs":0}`),
		accept("S-263 S-491", `{"logprobs":true,"top_logprobs":20}`),
		refuse("S-263 S-491", "top_logprobs", `{"logprobs":true,"top_logprobs":-1}`),
		refuse("S-263 S-491", "top_logprobs", `{"logprobs":true,"top_logprobs":21}`),
		refuse("S-263", "top_logprobs", `{"logprobs":true,"top_logprobs":1.5}`),
		refuse("S-263", "top_logprobs", `{"logprobs":true,"top_logprobs":"3"}`),
		refuse("S-264", "top_logprobs", `{"top_logprobs":3}`),
		refuse("S-264", "top_logprobs", `{"top_logprobs":0}`),
		refuse("S-264", "top_logprobs", `{"logprobs":false,"top_logprobs":3}`),
		refuse("S-264", "top_logprobs", `{"logprobs":null,"top_logprobs":3}`),

		accept("S-265", `{"max_tokens":1}`),
		accept("S-265", `{"max_tokens":0}`),
		accept("S-265", `{"max_tokens":-1}`),
		accept("S-265", `{"max_tokens":1000000}`),
		refuse("S-265", "max_tokens", `{"max_tokens":1.5}`),
		refuse("S-265", "max_tokens", `{"max_tokens":"10"}`),
		accept("S-266 S-488", `{"n":1}`),
		accept("S-266 S-488", `{"n":128}`),
		refuse("S-266 S-488", "n", `{"n":0}`),
		refuse("S-266 S-488", "n", `{"n":129}`),
		refuse("S-266", "n", `{"n":1.5}`),
		refuse("S-266", "n", `{"n":"1"}`),
		accept("S-267", `{"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}}}`),
		refuse("S-267", "response_format", `{"response_format":"json_object"}`),
		refuse("S-267", "response_format", `{"response_format":["json_object"]}`),
		accept("S-268", `{"seed":9223372036854775807}`),
		accept("S-268", `{"seed":-1}`),
		refuse("S-268", "seed", `{"seed":0.5}`),
		refuse("S-268", "seed", `{"seed":"7"}`),
		accept("S-269 S-490", `{"stop":"a"}`),
		accept("S-269 S-490", `{"stop":["a","b","c","d"]}`),
		accept("S-269", `{"stop":null}`),
		accept("S-269", `{"stop":[]}`),
		refuse("S-269 S-490", "stop", `{"stop":["a","b","c","d","e"]}`),
		refuse("S-269", "stop", `{"stop":7}`),
		refuse("S-269", "stop", `{"stop":["a",7]}`),

		accept("S-270", `{"stream":false}`),
		refuse("S-270", "stream", `{"stream":"true"}`),
		refuse("S-270", "stream", `{"stream":1}`),
		accept("S-272", `{"stream":true,"stream_options":{"include_usage":true}}`),
		refuse("S-272", "stream_options", `{"stream_options":{"include_usage":true}}`),
		accept("S-272", `{"stream":false,"stream_options":{"include_usage":true}}`),
		refuse("S-272", "stream_options", `{"stream":true,"stream_options":"usage"}`),
		accept("S-273", `{"thinking":{"type":"enabled","budget_tokens":1024}}`),
		accept("S-273", `{"thinking":{"type":"disabled"}}`),
		accept("S-273", `{"thinking":{"type":"adaptive"}}`),
		refuse("S-273", "thinking", `{"thinking":{"type":"sometimes","budget_tokens":1024}}`),
		refuse("S-273", "thinking", `{"thinking":{"type":"enabled","budget_tokens":1.5}}`),
		refuse("S-273", "thinking", `{"thinking":"enabled"}`),
		accept("S-276", `{"thinking":{"type":"enabled","budget_tokens":1}}`).given("x-gateway-strict-vendora-compliance", "false"),
		accept("S-277 S-495", `{"temperature":0}`),
		accept("S-277 S-495", `{"temperature":2}`),
		refuse("S-277 S-495", "temperature", `{"temperature":-0.1}`),
		refuse("S-277 S-495", "temperature", `{"temperature":2.1}`),
		refuse("S-277", "temperature", `{"temperature":"1"}`),
		accept("S-278 S-496", `{"top_p":0}`),
		accept("S-278 S-496", `{"top_p":1}`),
		accept("S-278 S-496", `{"top_p":1.0}`),
		refuse("S-278 S-496", "top_p", `{"top_p":-0.1}`),
		refuse("S-278 S-496", "top_p", `{"top_p":1.1}`),
		refuse("S-278", "top_p", `{"top_p":"1"}`),

		accept("S-279", `{"tools":[`+tool+`]}`),
		accept("S-279", `{"tools":[`+tool+`]}`).given("x-gateway-strict-vendora-compliance", "true"),
		accept("S-279", `{"tools":[{"type":"custom","custom":{"name":"x"}}]}`),
		accept("S-279", `{"tools":[{"type":"web_search"}]}`).given("x-gateway-strict-vendora-compliance", "false"),
		refuse("S-279", "tools", `{"tools":[{"type":"web_search"}]}`).given("x-gateway-strict-vendora-compliance", "true"),
		refuse("S-279", "tools[1]", `{"tools":[`+tool+`,{"type":"web_search"}]}`).given("x-gateway-strict-vendora-compliance", "true"),
		refuse("S-279", "tools", `{"tools":{"type":"function"}}`),
		refuse("S-279", "tools", `{"tools":["look"]}`),
		refuse("S-279", "tools", `{"tools":[{"type":7,"function":{"name":"look"}}]}`),
		refuse("S-279", "tools", `{"tools":[{"type":"function"}]}`),
		accept("S-280 S-489", `{"tools":`+many(128, tool)+`}`),
		refuse("S-280 S-489", "tools", `{"tools":`+many(129, tool)+`}`),
		accept("S-281", `{"tools":[`+tool+`],"tool_choice":"none"}`),
		accept("S-281", `{"tools":[`+tool+`],"tool_choice":"auto"}`),
		accept("S-281", `{"tools":[`+tool+`],"tool_choice":"required"}`),
		accept("S-281", `{"tools":[`+tool+`],"tool_choice":{"type":"function","function":{"name":"look"}}}`),
		refuse("S-281", "tool_choice", `{"tool_choice":"sometimes"}`),
		refuse("S-281", "tool_choice", `{"tool_choice":7}`),
		refuse("S-281", "tool_choice", `{"tool_choice":{"type":"function"}}`),
		refuse("S-281", "tool_choice", `{"tool_choice":{"type":"function","function":{"name":7}}}`),
		accept("S-283", `{"parallel_tool_calls":true}`),
		accept("S-283", `{"parallel_tool_calls":false}`),
		refuse("S-283", "parallel_tool_calls", `{"parallel_tool_calls":"no"}`),
		accept("S-284", `{"user":"u-1"}`),
		refuse("S-284", "user", `{"user":7}`),
		accept("S-285", `{"functions":[`+function+`],"function_call":"none"}`),
		accept("S-285", `{"functions":[`+function+`],"function_call":"auto"}`),
		accept("S-285", `{"functions":[`+function+`],"function_call":{"name":"look"}}`),
		refuse("S-285", "function_call", `{"function_call":"required"}`),
		refuse("S-285", "function_call", `{"function_call":{}}`),
		accept("S-286", `{"functions":[`+function+`]}`),
		accept("S-286 S-489", `{"functions":`+many(128, function)+`}`),
		refuse("S-286", "functions", `{"functions":[]}`),
		refuse("S-286", "functions[0].name", `{"functions":[{}]}`),
		refuse("S-286", "functions[1]", `{"functions":[`+function+`,"look"]}`),
		refuse("S-286 S-489", "functions", `{"functions":`+many(129, function)+`}`),
	})
}

func TestTemperatureOfResponses(t *testing.T) {
	g, _ := start(t)
	for value, want := range map[string]int{"0": 200, "2": 200, "-0.1": 400, "2.1": 400} {
		prove(t, "S-495", "responses with temperature "+value, func(t *testing.T) {
			p := newProvider(t, says(200, "application/json", cannedBodies["/chat/completions"]))
			got := g.do(t, "POST", "/v1/responses", `{"model":"m","input":"hi","temperature":`+value+`}`, to(p)...)
			if want == 400 {
				got.refusedFor(t, "temperature")
				p.wantNoRequests(t)
				return
			}
			got.wantOK(t)
			if in := p.only(t); !strings.Contains(string(in.body), `"temperature":`+value) {
				t.Errorf("the provider got %s, want temperature %s", in.body, value)
			}
		})
	}
}

func TestTextParameters(t *testing.T) {
	try(t, "/v1/completions", `{"model":"m-2","prompt":"once"}`, []trial{
		without("S-291", "model"),
		refuse("S-291", "model", `{"model":7}`),
		refuse("S-291", "model", `{"model":null}`),
		without("S-292", "prompt"),
		accept("S-292", `{"prompt":"one"}`),
		accept("S-292", `{"prompt":""}`),
		accept("S-292", `{"prompt":["one","two"]}`),
		accept("S-292", `{"prompt":[1,2,3]}`),
		accept("S-292", `{"prompt":[[1,2],[3]]}`),
		refuse("S-292", "prompt", `{"prompt":{"text":"one"}}`),
		refuse("S-292", "prompt", `{"prompt":7}`),
		refuse("S-292", "prompt", `{"prompt":[true]}`),
		refuse("S-292", "prompt[1]", `{"prompt":["one",2]}`),
		refuse("S-292", "prompt[1]", `{"prompt":[1,2.5]}`),
		refuse("S-292", "prompt[1]", `{"prompt":[[1],["one"]]}`),
		accept("S-294 S-493", `{"best_of":0}`),
		accept("S-294 S-493", `{"best_of":20}`),
		accept("S-294", `{"best_of":null}`),
		refuse("S-294 S-493", "best_of", `{"best_of":-1}`),
		refuse("S-294 S-493", "best_of", `{"best_of":21}`),
		refuse("S-294", "best_of", `{"best_of":1.5}`),
		accept("S-295", `{"best_of":3,"n":2}`),
		accept("S-295", `{"best_of":2,"n":2}`),
		accept("S-295", `{"n":2}`),
		refuse("S-295", "best_of", `{"best_of":1,"n":2}`),
		accept("S-295", `{"best_of":0,"n":1}`),
		accept("S-295", `{"best_of":null,"n":2}`),
		refuse("S-295", "best_of", `{"best_of":0,"n":2}`),
		accept("S-296", `{"best_of":1,"stream":true}`),
		accept("S-296", `{"best_of":2,"stream":false}`),
		refuse("S-296", "best_of", `{"best_of":2,"stream":true}`),
		accept("S-297", `{"echo":true}`),
		accept("S-297", `{"echo":null}`),
		refuse("S-297", "echo", `{"echo":"yes"}`),
		accept("S-298 S-494", `{"frequency_penalty":-2,"presence_penalty":2}`),
		accept("S-298 S-494", `{"frequency_penalty":2,"presence_penalty":-2}`),
		accept("S-298", `{"frequency_penalty":null,"presence_penalty":null}`),
		refuse("S-298 S-494", "frequency_penalty", `{"frequency_penalty":2.1}`),
		refuse("S-298 S-494", "frequency_penalty", `{"frequency_penalty":-2.1}`),
		refuse("S-298 S-494", "presence_penalty", `{"presence_penalty":2.1}`),
		refuse("S-298 S-494", "presence_penalty", `{"presence_penalty":-2.1}`),
		refuse("S-298", "presence_penalty", `{"presence_penalty":"1"}`),
		accept("S-299", `{"logit_bias":{"50256":-100,"11":100}}`),
		refuse("S-299", "logit_bias", `{"logit_bias":{"50256":-101}}`),
		refuse("S-299", "logit_bias", `{"logit_bias":{"50256":101}}`),
		refuse("S-299", "logit_bias", `{"logit_bias":7}`),
		refuse("S-299", "logit_bias", `{"logit_bias":[1]}`),
		accept("S-300 S-492", `{"logprobs":0}`),
		accept("S-300 S-492", `{"logprobs":5}`),
		accept("S-300", `{"logprobs":null}`),
		refuse("S-300 S-492", "logprobs", `{"logprobs":6}`),
		refuse("S-300 S-492", "logprobs", `{"logprobs":-1}`),
		refuse("S-300", "logprobs", `{"logprobs":true}`),
		accept("S-301", `{"max_tokens":0}`),
		accept("S-301", `{"max_tokens":16}`),
		accept("S-301", `{"max_tokens":null}`),
		refuse("S-301", "max_tokens", `{"max_tokens":-1}`),
		refuse("S-301", "max_tokens", `{"max_tokens":1.5}`),
		accept("S-302 S-488", `{"n":1}`),
		accept("S-302 S-488", `{"n":128}`),
		accept("S-302", `{"n":null}`),
		refuse("S-302 S-488", "n", `{"n":0}`),
		refuse("S-302 S-488", "n", `{"n":129}`),
		accept("S-303", `{"seed":7}`),
		accept("S-303", `{"seed":-7}`),
		accept("S-303", `{"seed":null}`),
		refuse("S-303", "seed", `{"seed":0.5}`),
		accept("S-304 S-490", `{"stop":["a","b","c","d"]}`),
		accept("S-304", `{"stop":"a"}`),
		refuse("S-304 S-490", "stop", `{"stop":["a","b","c","d","e"]}`),
		refuse("S-304", "stop", `{"stop":{"a":1}}`),
		accept("S-305", `{"stream":null}`),
		accept("S-305", `{"stream":false}`),
		refuse("S-305", "stream", `{"stream":"no"}`),
		accept("S-306", `{"stream":true,"stream_options":{"include_usage":true}}`),
		refuse("S-306", "stream_options", `{"stream_options":{"include_usage":true}}`),
		refuse("S-306", "stream_options", `{"stream":null,"stream_options":{"include_usage":true}}`),
		accept("S-306", `{"stream":false,"stream_options":{"include_usage":true}}`),
		accept("S-307", `{"suffix":" end"}`),
		accept("S-307", `{"suffix":null}`),
		refuse("S-307", "suffix", `{"suffix":7}`),
		accept("S-308 S-495", `{"temperature":0}`),
		accept("S-308 S-495", `{"temperature":2}`),
		accept("S-308", `{"temperature":null}`),
		refuse("S-308 S-495", "temperature", `{"temperature":-0.1}`),
		refuse("S-308 S-495", "temperature", `{"temperature":2.1}`),
		refuse("S-308", "temperature", `{"temperature":"1"}`),
		accept("S-309 S-496", `{"top_p":0}`),
		accept("S-309 S-496", `{"top_p":1}`),
		accept("S-309", `{"top_p":null}`),
		refuse("S-309 S-496", "top_p", `{"top_p":-0.1}`),
		refuse("S-309 S-496", "top_p", `{"top_p":1.1}`),
		refuse("S-309", "top_p", `{"top_p":"1"}`),
		accept("S-310", `{"user":"u-1"}`),
		accept("S-310", `{"user":"`+strings.Repeat("u", 600)+`"}`),
		refuse("S-310", "user", `{"user":["u-1"]}`),
		refuse("S-310", "user", `{"user":7}`),
	})
}

func TestEmbeddingParameters(t *testing.T) {
	const reference = `"model":"text-embedding-ada-002",`
	try(t, "/v1/embeddings", `{"model":"e-1","input":"one"}`, []trial{
		without("S-313", "input"),
		accept("S-313", `{"input":"one"}`),
		accept("S-313", `{"input":["one","two"]}`),
		accept("S-313", `{"input":[1,2,3]}`),
		accept("S-313", `{"input":[[1,2],[3]]}`),
		refuse("S-313", "input", `{"input":null}`),
		refuse("S-313", "input", `{"input":7}`),
		refuse("S-313", "input[1]", `{"input":["one",2]}`),
		refuse("S-313", "input[1]", `{"input":[1,"two"]}`),
		refuse("S-313", "input[1]", `{"input":[[1],["two"]]}`),
		refuse("S-313", "input", `{"input":[]}`),
		refuse("S-313", "input", `{"input":{"text":"one"}}`),
		refuse("S-314 S-497", "input", `{"input":""}`),
		refuse("S-314 S-497", "input", `{"input":[""]}`),
		refuse("S-314 S-497", "input", `{"input":["one",""]}`),
		refuse("S-314 S-497", "input", `{`+reference+`"input":""}`),
		refuse("S-314 S-497", "input", `{`+reference+`"input":["one",""]}`),
		accept("S-314", `{"input":" "}`),
		accept("S-315 S-497", `{"input":`+many(2048, `"x"`)+`}`),
		refuse("S-315 S-497", "input", `{"input":`+many(2049, `"x"`)+`}`),
		accept("S-315 S-497", `{"input":`+many(2048, `[1]`)+`}`),
		refuse("S-315 S-497", "input", `{"input":`+many(2049, `[1]`)+`}`),
		accept("S-315 S-497", `{"input":`+many(2049, `1`)+`}`),
		accept("S-316 S-497", `{`+reference+`"input":[`+many(8192, `1`)+`]}`),
		refuse("S-316 S-497", "input", `{`+reference+`"input":[`+many(8193, `1`)+`]}`),
		refuse("S-316", "input[1]", `{`+reference+`"input":[[1],`+many(8193, `1`)+`]}`),
		refuse("S-316", "input", `{"model":"vendor/text-embedding-ada-002","input":[`+many(8193, `1`)+`]}`),
		accept("S-316", `{"input":[`+many(8193, `1`)+`]}`),
		refuse("S-316 S-497", "input", `{`+reference+`"input":`+many(8193, `1`)+`}`),
		accept("S-316", `{`+reference+`"input":"`+strings.Repeat("word ", 9000)+`"}`),
		refuse("S-316", "input", `{`+reference+`"input":"`+strings.Repeat("word ", 500_000)+`"}`),
		without("S-317", "model"),
		refuse("S-317", "model", `{"model":7}`),
		refuse("S-317", "model", `{"model":null}`),
		accept("S-318", `{"encoding_format":"float"}`),
		accept("S-318", `{"encoding_format":"base64"}`),
		accept("S-318", `{"encoding_format":"int8"}`),
		refuse("S-318", "encoding_format", `{"encoding_format":7}`),
		accept("S-319", `{"dimensions":1}`),
		accept("S-319", `{"dimensions":3072}`),
		refuse("S-319", "dimensions", `{"dimensions":0}`),
		refuse("S-319", "dimensions", `{"dimensions":1.5}`),
		refuse("S-319", "dimensions", `{"dimensions":"256"}`),
		accept("S-320", `{"user":"u-1"}`),
		refuse("S-320", "user", `{"user":7}`),
	})
}

func TestImageParameters(t *testing.T) {
	const older, newer = `"model":"dall-e-2"`, `"model":"dall-e-3"`
	// Two bytes each, so that a count of bytes would refuse half of them.
	letters := func(n int) string { return `"` + strings.Repeat("é", n) + `"` }
	escaped := func(one string, n int) string { return `"` + strings.Repeat(one, n) + `"` }
	try(t, "/v1/images/generations", `{"prompt":"a cat"}`, []trial{
		without("S-322", "prompt"),
		refuse("S-322", "prompt", `{"prompt":7}`),
		refuse("S-322", "prompt", `{"prompt":null}`),
		{of: "S-322", name: "a body of a later model without prompt is refused", set: `{"model":"gpt-image-1"}`, drop: "prompt", param: "prompt"},
		{of: "S-322", name: "a body of the newer model without prompt is refused", set: `{` + newer + `}`, drop: "prompt", param: "prompt"},
		accept("S-323 S-498", `{`+older+`,"prompt":`+letters(1000)+`}`),
		refuse("S-323 S-498", "prompt", `{`+older+`,"prompt":`+letters(1001)+`}`),
		accept("S-323 S-498", `{`+newer+`,"prompt":`+letters(4000)+`}`),
		refuse("S-323 S-498", "prompt", `{`+newer+`,"prompt":`+letters(4001)+`}`),
		accept("S-323", `{`+older+`,"prompt":`+escaped(`\u00e9`, 1000)+`}`),
		refuse("S-323", "prompt", `{`+older+`,"prompt":`+escaped(`\u00e9`, 1001)+`}`),
		accept("S-323", `{`+older+`,"prompt":`+escaped(`\ud83d\ude00`, 1000)+`}`),
		refuse("S-323", "prompt", `{`+older+`,"prompt":`+escaped(`\ud83d\ude00`, 1001)+`}`),
		accept("S-324", `{"prompt":`+letters(1000)+`}`),
		refuse("S-324", "prompt", `{"prompt":`+letters(1001)+`}`),
		accept("S-324", `{"model":null,"n":10}`),
		refuse("S-324", "prompt", `{"n":2,"response_format":"url","size":"256x256","user":"u","prompt":`+letters(1001)+`}`),
		refuse("S-324", "style", `{"style":"vivid"}`),
		refuse("S-324", "prompt", `{"model":null,"prompt":`+letters(1001)+`}`),
		refuse("S-324", "model", `{"model":7}`),
		accept("S-325 S-499", `{`+older+`,"n":1}`),
		accept("S-325 S-499", `{`+older+`,"n":10}`),
		refuse("S-325 S-499", "n", `{`+older+`,"n":0}`),
		refuse("S-325 S-499", "n", `{`+older+`,"n":11}`),
		refuse("S-325 S-499", "n", `{"n":11}`),
		accept("S-325 S-499", `{`+newer+`,"n":1}`),
		refuse("S-325 S-499", "n", `{`+newer+`,"n":2}`),
		refuse("S-325 S-499", "n", `{`+newer+`,"n":0}`),
		accept("S-326", `{`+newer+`,"quality":"standard"}`),
		accept("S-326", `{`+newer+`,"quality":"hd"}`),
		accept("S-326", `{`+older+`,"quality":"standard"}`),
		refuse("S-326", "quality", `{`+newer+`,"quality":"best"}`),
		refuse("S-326", "quality", `{`+older+`,"quality":"hd"}`),
		refuse("S-326", "quality", `{"quality":7}`),
		accept("S-327", `{`+newer+`,"response_format":"url"}`),
		accept("S-327", `{`+older+`,"response_format":"b64_json"}`),
		accept("S-327", `{`+newer+`,"response_format":"b64_json"}`),
		accept("S-327", `{`+older+`,"response_format":"url"}`),
		refuse("S-327", "response_format", `{`+newer+`,"response_format":"png"}`),
		refuse("S-327", "response_format", `{"model":"gpt-image-1","response_format":"png"}`),
		refuse("S-327", "response_format", `{`+older+`,"response_format":"png"}`),
		refuse("S-327", "response_format", `{`+newer+`,"response_format":7}`),
		refuse("S-329", "size", `{"size":"512x513"}`),
		refuse("S-329", "size", `{`+newer+`,"size":"512x513"}`),
		refuse("S-329", "size", `{"size":1024}`),
		accept("S-329 S-330", `{`+older+`,"size":"256x256"}`),
		accept("S-329 S-330", `{`+older+`,"size":"512x512"}`),
		accept("S-329 S-330", `{`+older+`,"size":"1024x1024"}`),
		refuse("S-330", "size", `{`+older+`,"size":"1792x1024"}`),
		refuse("S-330", "size", `{`+older+`,"size":"1024x1792"}`),
		accept("S-331", `{`+newer+`,"size":"1024x1024"}`),
		accept("S-329 S-331", `{`+newer+`,"size":"1792x1024"}`),
		accept("S-329 S-331", `{`+newer+`,"size":"1024x1792"}`),
		refuse("S-331", "size", `{`+newer+`,"size":"256x256"}`),
		refuse("S-331", "size", `{`+newer+`,"size":"512x512"}`),
		accept("S-332", `{`+newer+`,"style":"vivid"}`),
		accept("S-332", `{`+newer+`,"style":"natural"}`),
		refuse("S-332", "style", `{`+newer+`,"style":"cubist"}`),
		refuse("S-332", "style", `{`+older+`,"style":"vivid"}`),
		refuse("S-332", "style", `{"style":"vivid"}`),
		// The rules are those of two models; later ones have their own.
		accept("S-323 S-325 S-326 S-329", `{"model":"gpt-image-1","size":"1536x1024","quality":"high","background":"transparent","n":10,"prompt":`+letters(5000)+`}`),
		refuse("S-325", "n", `{"model":"gpt-image-1","n":11}`),
		accept("S-333", `{"user":"u-1"}`),
		refuse("S-333", "user", `{"user":7}`),
	})
}
