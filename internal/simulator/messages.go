package simulator

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// messagesProtocol is the Messages protocol.
// https://docs.anthropic.com/en/api/messages
var messagesProtocol = protocol{
	name: "messages", index: messagesIndex, kind: framingEvents, stream: typeStream,
	fail: failMessages, unknown: unknownExtra, kinds: messagesKinds,
}

// messagesKinds are the types of errors.
// https://docs.anthropic.com/en/api/errors
var messagesKinds = map[int]string{
	http.StatusBadRequest: invalidRequest, http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:     "rate_limit_error",
	http.StatusInternalServerError: "api_error", http.StatusGatewayTimeout: "timeout_error", 529: "overloaded_error",
}

func unknownExtra(path, name string) providerError {
	if path+name == "thread" {
		return providerError{kind: invalidRequest, param: name, code: threadRefused, message: "thread: conversations are not kept here"}
	}
	return invalid(path+name, path+name+": Extra inputs are not permitted")
}

// threadRefused is the code after which official clients send complete
// conversations.
const threadRefused = "thread_unsupported_request"

func failMessages(x *exchange, dst []byte, status int, e providerError) []byte {
	dst = appendAll(dst, `{"type":"error","error":{"type":"`, x.protocol.errorKind(status), `","message":`, quoted(e.message))
	switch e.code {
	case threadRefused:
		dst = appendAll(dst, `,"details":{"error_code":"`, threadRefused, `","unsupported":["thread"]}`)
	case notDownloadable:
		dst = appendAll(dst, `,"details":{"error_code":"`, notDownloadable, `"}`)
	}
	return appendAll(dst, `},"request_id":"req_`, itoa(int(x.number)), `"}`)
}

// breakMessages ends the response with an overloaded error, the most common one.
func breakMessages(t *stream) []byte {
	b := t.named("error")
	return append(b, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`...)
}

// A host is a host of the Messages protocol. It decides which members are
// allowed in addition to the common ones.
type host struct {
	version string   // value of anthropic_version in the body; not allowed if empty
	extra   []string // additional members
	local   bool     // URLs are rejected
	plain   bool     // structured outputs and strict tools are rejected
}

var (
	anthropicHost = host{extra: []string{"model", "stream"}}
	vertexHost    = host{version: "vertex-2023-10-16", extra: []string{"stream", "anthropic_version", "anthropic_beta"}, local: true,
		plain: true}
	bedrockHost = host{version: "bedrock-2023-05-31", extra: []string{"anthropic_version", "anthropic_beta"}, local: true}
)

// serveMessages answers POST /messages.
func serveMessages(x *exchange) {
	body, ok := x.open(nil)
	if ok && x.versioned() {
		x.converseMessages(body, anthropicHost, nil)
	}
}

// versioned sends an error for a request without the header that the API
// requires, or with a version that is not a date: newer client libraries may send newer
// versions. https://docs.anthropic.com/en/api/versioning
func (x *exchange) versioned() bool {
	version := x.r.Header.Get("Anthropic-Version")
	if version == "" {
		x.refuse(statusOf, invalid("anthropic-version", "anthropic-version: header is required"))
		return false
	}
	if _, err := time.Parse(time.DateOnly, version); err != nil {
		x.refuse(statusOf, invalid("anthropic-version", "anthropic-version: "+string(quoted(version))+" is not a valid version"))
		return false
	}
	return true
}

// serveVertexMessages answers :rawPredict and :streamRawPredict.
func serveVertexMessages(x *exchange) {
	model := modelBetween(x.r.URL.Path, "models/", ":")
	if body, ok := x.open(&model); ok {
		x.converseMessages(body, vertexHost, &model)
	}
}

func (x *exchange) converseMessages(body map[string]any, h host, model *string) {
	q := &turn{}
	c := newChecker(&messagesProtocol)
	readMessagesBody(c, q, body, h)
	if model != nil {
		q.model = *model
	}
	x.sendMessagesResponse(q, c, body)
}

func (x *exchange) sendMessagesResponse(q *turn, c *checker, body map[string]any) {
	if !x.accept(q, c, body) {
		return
	}
	a := x.responseTo(q)
	x.respond(q.stream, a, func(dst []byte) []byte { return x.appendMessages(dst, a) },
		func(t *stream) { x.streamMessages(t, a) })
}

// serveMessagesCount answers POST /messages/count_tokens.
func serveMessagesCount(x *exchange) {
	body, ok := x.open(nil)
	if ok && x.versioned() {
		x.countMessages(body, anthropicHost, "input_tokens")
	}
}

// serveVertexCount answers count-tokens:rawPredict, whose body names the
// model.
func serveVertexCount(x *exchange) {
	if body, ok := x.open(nil); ok {
		x.countMessages(body, host{extra: []string{"model", "anthropic_version", "anthropic_beta"}}, "input_tokens")
	}
}

func (x *exchange) countMessages(body map[string]any, h host, name string) {
	q := &turn{}
	c := newChecker(&messagesProtocol)
	if _, ok := body["max_tokens"]; ok && name == "input_tokens" {
		c.wrong = unknownExtra("", "max_tokens")
	}
	counted := map[string]any{"max_tokens": float64(1 << 20)}
	maps.Copy(counted, body)
	readMessagesBody(c, q, counted, h)
	q.limit = 0 // which is not the client's
	if !x.accept(q, c, body) {
		return
	}
	x.out = appendAll(x.out[:0], `{"`, name, `":`, itoa(x.prompt), `}`)
	x.prompt, x.cached = 0, 0 // counting costs nothing
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

var messagesMembers = []string{
	"messages", "max_tokens", "container", "mcp_servers", "metadata", "service_tier", "stop_sequences", "system",
	"temperature", "thinking", "tool_choice", "tools", "top_k", "top_p", "cache_control", "output_config", "output_format",
	"context_management", "speed", "inference_geo", "fallbacks", "fallback_credit_token", "diagnostics", "user_profile_id",
}

func readMessagesBody(c *checker, q *turn, m map[string]any, h host) {
	c.checkMembers(m, "", slices.Concat(messagesMembers, h.extra)...)
	if h.version == "" && slices.Contains(h.extra, "model") {
		q.model = c.filled(m, "model", "")
	}
	if h.version != "" && c.needText(m, "anthropic_version", "") != h.version {
		c.fail("anthropic_version", "must be %q", h.version)
	}
	q.stream, q.local = c.flag(m, "stream", ""), h.local
	if m["max_tokens"] == nil {
		c.fail("max_tokens", "Field required")
	}
	readMessagesTuning(c, q, m)
	readMessagesTools(c, q, m)
	readMessagesSystem(c, q, m["system"], "system")
	readMessagesTurns(c, q, m)
	readMessagesThinking(c, q, m)
	if n := q.seen.CachePoints; n > maxCacheMarks {
		c.fail("cache_control", "A maximum of %d blocks with cache_control may be provided. Found %d.", maxCacheMarks, n)
	}
	if h.plain && q.format != "" {
		c.wrong = unknownExtra("output_config.", "format")
	}
}

func readMessagesTuning(c *checker, q *turn, m map[string]any) {
	c.readSampling(q, m, messagesIndex)
	for i, stop := range q.stops {
		if strings.TrimSpace(stop) == "" {
			c.fail(nth("stop_sequences", i), "each stop sequence must contain non-whitespace")
		}
	}
	c.word(m, "service_tier", "", "auto", "standard_only")
	if meta := c.child(m, "metadata", ""); meta != nil {
		c.checkMembers(meta, "metadata", "user_id")
		c.short(meta, "user_id", "metadata", 256) // https://docs.claude.com/en/api/messages
	}
	markedMessages(c, q, m, "")
	config := c.child(m, "output_config", "")
	c.checkMembers(config, "output_config", "effort", "format", "task_budget")
	q.seen.Effort = c.word(config, "effort", "output_config", "low", "medium", "high", "xhigh", "max")
	for _, f := range []struct {
		from       map[string]any
		name, path string
	}{{config, "format", "output_config"}, {m, "output_format", ""}} {
		if format := c.child(f.from, f.name, f.path); format != nil {
			where := at(f.path, f.name)
			c.checkMembers(format, where, "type", "schema")
			c.word(format, "type", where, "json_schema")
			q.format, q.schema = "schema", c.object(format["schema"], at(where, "schema"))
			closedSchema(c, q.schema, at(where, "schema"))
		}
	}
}

// closedSchema records a mistake for schemas that structured outputs reject:
// objects without additionalProperties false, and keywords that bound values.
// https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs
func closedSchema(c *checker, v any, path string) {
	switch s := v.(type) {
	case []any:
		for i := range s {
			closedSchema(c, s[i], nth(path, i))
		}
	case map[string]any:
		if kind, _ := s["type"].(string); kind == "object" && s["additionalProperties"] != false {
			c.fail(path, "For 'object' type, 'additionalProperties' must be explicitly set to false")
		}
		if _, named := s["type"].(string); named {
			for _, word := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
				"maxItems", "uniqueItems"} {
				if _, ok := s[word]; ok {
					c.fail(path, "property '%s' is not supported", word)
				}
			}
		}
		for _, name := range sortedNames(s) {
			if name != "enum" && name != "const" && name != "default" && name != "examples" {
				closedSchema(c, s[name], at(path, name))
			}
		}
	}
}

// maxCacheMarks is the number of blocks with a cache mark that a request may have.
// https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
const maxCacheMarks = 4

// markedMessages counts and checks a cache mark.
func markedMessages(c *checker, q *turn, m map[string]any, path string) {
	if mark := c.child(m, "cache_control", path); mark != nil {
		path = at(path, "cache_control")
		c.checkMembers(mark, path, "type", "ttl")
		c.word(mark, "type", path, "ephemeral")
		c.word(mark, "ttl", path, "5m", "1h")
		q.seen.CachePoints++
	}
}

var messagesToolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`) })

// messagesToolType matches the types of tools that the provider runs or defines, which
// have a date.
var messagesToolType = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`_20[0-9]{6}$|^mcp_toolset$|^tool_search_tool_`) })

func readMessagesTools(c *checker, q *turn, m map[string]any) {
	for i, v := range c.list(m, "tools", "") {
		path := nth("tools", i)
		tool := c.object(v, path)
		markedMessages(c, q, tool, path)
		if kind := c.text(tool, "type", path); kind != "" && kind != "custom" {
			if !messagesToolType().MatchString(kind) {
				c.fail(path, "Input tag '%s' found using 'type' does not match any of the expected tags", kind)
			}
			c.text(tool, "name", path) // of a server tool
			continue
		}
		c.checkMembers(tool, path, "type", "name", "description", "input_schema", "cache_control", "strict", "defer_loading", "allowed_callers",
			"input_examples", "eager_input_streaming")
		name := c.filled(tool, "name", path)
		c.matches(name, at(path, "name"), messagesToolName())
		c.deferred(tool, name, path)
		c.text(tool, "description", path)
		schema := c.object(tool["input_schema"], at(path, "input_schema"))
		if kind, _ := schema["type"].(string); kind != "object" {
			c.fail(at(path, "input_schema.type"), "Input should be 'object'")
		}
		if schema["oneOf"] != nil || schema["allOf"] != nil || schema["anyOf"] != nil {
			c.fail(at(path, "input_schema"), "input_schema does not support oneOf, allOf, or anyOf at the top level")
		}
		if slices.Contains(q.seen.Tools, name) {
			c.fail("tools", "Tool names must be unique.")
		}
		q.addTool(name, schema)
	}
	readMessagesChoice(c, q, m)
}

func readMessagesChoice(c *checker, q *turn, m map[string]any) {
	choice := c.child(m, "tool_choice", "")
	if choice == nil {
		return
	}
	c.checkMembers(choice, "tool_choice", "type", "name", "disable_parallel_tool_use")
	q.mode = c.word(choice, "type", "tool_choice", "auto", "any", "tool", "none")
	q.serial = c.flag(choice, "disable_parallel_tool_use", "tool_choice")
	if c.list(m, "tools", "") == nil {
		c.fail("tool_choice", "tool_choice may only be specified while providing tools")
	}
	if q.mode == "tool" {
		q.only = c.filled(choice, "name", "tool_choice")
		if !slices.Contains(q.seen.Tools, q.only) {
			c.fail("tool_choice", "Tool '%s' not found in provided tools", q.only)
		}
	} else if choice["name"] != nil {
		c.wrong = unknownExtra("tool_choice."+q.mode+".", "name")
	}
	if q.mode == "none" && choice["disable_parallel_tool_use"] != nil {
		c.wrong = unknownExtra("tool_choice.none.", "disable_parallel_tool_use")
	}
}

func readMessagesSystem(c *checker, q *turn, v any, path string) {
	if text, ok := v.(string); ok {
		q.addSystem(text)
		return
	}
	for i, v := range c.list(map[string]any{path: v}, path, "") {
		where := nth(path, i)
		block := c.object(v, where)
		c.checkMembers(block, where, "type", "text", "cache_control", "citations")
		c.word(block, "type", where, "text")
		if text := c.filled(block, "text", where); text != "" {
			q.addSystem(text)
		}
		markedMessages(c, q, block, where)
	}
}

// readMessagesThinking checks what thinking excludes.
// https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
func readMessagesThinking(c *checker, q *turn, m map[string]any) {
	think := c.child(m, "thinking", "")
	c.checkMembers(think, "thinking", "type", "budget_tokens", "display")
	kind := c.word(think, "type", "thinking", "enabled", "disabled", "adaptive")
	c.word(think, "display", "thinking", "summarized", "omitted")
	if kind == "disabled" || think == nil {
		clearsThinking(c, m, "")
		return
	}
	q.thinks, q.summary = true, true
	if kind == "enabled" {
		if think["budget_tokens"] == nil {
			c.fail("thinking.enabled.budget_tokens", "Field required")
		}
		q.seen.Budget = c.integer(think, "budget_tokens", "thinking", 1024)
		if q.seen.Budget >= q.limit {
			c.fail("max_tokens", "`max_tokens` must be greater than `thinking.budget_tokens`")
		}
	} else if think["budget_tokens"] != nil {
		c.fail("thinking.adaptive.budget_tokens", "Extra inputs are not permitted")
	}
	switch {
	case q.seen.Temperature != nil && *q.seen.Temperature != 1:
		c.fail("temperature", "`temperature` may only be set to 1 when thinking is enabled")
	case q.seen.TopK != nil:
		c.fail("top_k", "`top_k` must be unset when thinking is enabled")
	case q.seen.TopP != nil && *q.seen.TopP < 0.95:
		c.fail("top_p", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled")
	case q.mode == "any" || q.mode == "tool":
		c.fail("tool_choice", "Thinking may not be enabled when tool_choice forces tool use.")
	case q.prefill:
		c.fail("messages", "the last message must not be the assistant's when thinking is enabled")
	case kind == "enabled" && q.afterTool && !turnThinks(m):
		c.fail("messages", unthinkingTurn)
	}
}
