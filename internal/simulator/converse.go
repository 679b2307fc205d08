package simulator

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// converseProtocol is the Converse protocol of Bedrock; invokeProtocol is the
// protocol of InvokeModel, which wraps Claude's Messages protocol.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
var (
	converseProtocol = protocol{
		name: "converse", index: converseIndex, kind: framingBinary, stream: typeBinary,
		fail: failBedrock, unknown: unknownBedrock, kinds: bedrockKinds,
	}
	invokeProtocol = protocol{
		name: "messages", index: messagesIndex, kind: framingChunks, stream: typeBinary,
		fail: failBedrock, unknown: unknownExtra, kinds: bedrockKinds,
	}
)

// bedrockKinds are the names of exceptions.
var bedrockKinds = map[int]string{
	http.StatusBadRequest: "ValidationException", http.StatusUnauthorized: "AccessDeniedException",
	http.StatusForbidden: "AccessDeniedException",
	http.StatusNotFound:  "ResourceNotFoundException", http.StatusRequestTimeout: "ModelTimeoutException",
	http.StatusFailedDependency: "ModelErrorException", http.StatusTooManyRequests: "ThrottlingException",
	http.StatusInternalServerError: "InternalServerException", http.StatusServiceUnavailable: "ServiceUnavailableException",
	529: "ServiceUnavailableException",
}

func unknownBedrock(path, name string) providerError {
	return invalid(path+name, "The model returned the following errors: Malformed input request: #: extraneous key ["+path+name+
		"] is not permitted, please reformat your input and try again.")
}

func failBedrock(x *exchange, dst []byte, status int, e providerError) []byte {
	kind := x.protocol.errorKind(status)
	x.w.Header().Set("X-Amzn-Errortype", kind+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	return appendAll(dst, `{"message":`, quoted(e.message), `}`)
}

func breakBedrock(t *stream) []byte {
	return append(t.exceptional("throttlingException"), `{"message":"Too many requests, please wait before trying again."}`...)
}

func bedrockModel(x *exchange) *string {
	path := strings.TrimPrefix(x.r.URL.Path, "/v1")
	model := modelBetween(path, "/model/", "/")
	return &model
}

// serveConverse answers /model/{id}/converse and converse-stream.
func serveConverse(x *exchange) {
	model := bedrockModel(x)
	x.asked = strings.HasSuffix(x.r.URL.Path, "-stream")
	streamed := x.asked
	body, ok := x.open(model)
	if !ok {
		return
	}
	q := &turn{model: *model, stream: streamed}
	c := newChecker(&converseProtocol)
	readConverse(c, q, body)
	if !x.accept(q, c, body) {
		return
	}
	a := x.responseTo(q)
	x.respond(streamed, a, func(dst []byte) []byte { return x.appendConverse(dst, a) },
		func(t *stream) { x.streamConverse(t, a) })
}

// serveInvoke answers /model/{id}/invoke and invoke-with-response-stream.
func serveInvoke(x *exchange) {
	model := bedrockModel(x)
	x.asked = strings.HasSuffix(x.r.URL.Path, "-stream")
	streamed := x.asked
	body, ok := x.open(model)
	if !ok {
		return
	}
	switch {
	case body["inputText"] != nil:
		x.embedTitan(body)
		return
	case body["taskType"] != nil:
		x.embedNova(body)
		return
	case body["query"] != nil:
		x.rankInvoked(body)
		return
	case body["texts"] != nil || body["inputs"] != nil:
		delete(body, "model")
		x.embedCohere(body, false)
		return
	}
	q := &turn{}
	c := newChecker(&invokeProtocol)
	readMessagesBody(c, q, body, bedrockHost)
	q.model, q.stream = *model, streamed
	x.sendMessagesResponse(q, c, body)
}

// serveBedrockCount answers /model/{id}/count-tokens.
func serveBedrockCount(x *exchange) {
	model := bedrockModel(x)
	body, ok := x.open(model)
	if !ok {
		return
	}
	c := newChecker(&converseProtocol)
	c.checkMembers(body, "", "input")
	input := c.object(body["input"], "input")
	kind := c.one(input, "input", "converse", "invokeModel")
	inner := c.object(input[kind], at("input", kind))
	if kind == "invokeModel" {
		raw, err := base64.StdEncoding.DecodeString(c.filled(inner, "body", "input.invokeModel"))
		inner = nil
		if err != nil || json.Unmarshal(raw, &inner) != nil {
			c.fail("input.invokeModel.body", "must be base64 of a JSON object")
		}
	}
	if c.wrong.kind != "" {
		x.refuse(statusOf, c.wrong)
		return
	}
	if kind == "invokeModel" {
		x.countMessages(inner, bedrockHost, "inputTokens")
		return
	}
	q := &turn{}
	readConverse(c, q, inner)
	if !x.accept(q, c, inner) {
		return
	}
	x.out = appendAll(x.out[:0], `{"inputTokens":`, itoa(x.prompt), `}`)
	x.prompt, x.cached = 0, 0
	x.sendBody(http.StatusOK, typeJSON, x.out)
}

func readConverse(c *checker, q *turn, m map[string]any) {
	c.checkMembers(m, "", "messages", "system", "inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields",
		"promptVariables", "additionalModelResponseFieldPaths", "requestMetadata", "performanceConfig", "serviceTier", "outputConfig")
	readInference(c, q, m)
	readConverseTools(c, q, m)
	for i, v := range c.list(m, "system", "") {
		path := nth("system", i)
		block := c.object(v, path)
		switch c.one(block, path, "text", "cachePoint", "guardContent") {
		case "text":
			q.addSystem(c.filled(block, "text", path))
		case "cachePoint":
			readCachePoint(c, q, block, path)
		}
	}
	readConverseTurns(c, q, m)
	if n := q.seen.CachePoints; n > maxCacheMarks {
		c.fail("cachePoint", "The model returned the following errors: A maximum of %d blocks with cache_control may be provided. Found %d.",
			maxCacheMarks, n)
	}
	if guard := c.child(m, "guardrailConfig", ""); guard != nil {
		c.filled(guard, "guardrailIdentifier", "guardrailConfig")
		c.filled(guard, "guardrailVersion", "guardrailConfig")
	}
	if tier := c.child(m, "serviceTier", ""); tier != nil {
		c.word(tier, "type", "serviceTier", "default", "priority", "flex", "reserved")
	}
	readConverseExtra(c, q, m)
	readConverseFormat(c, q, m)
}

func readInference(c *checker, q *turn, m map[string]any) {
	const path = "inferenceConfig"
	config := c.child(m, path, "")
	c.checkMembers(config, path, "maxTokens", "temperature", "topP", "stopSequences")
	c.readSampling(q, config, converseIndex)
	if slices.Contains(q.stops, "") {
		c.fail(path+".stopSequences", "must not be empty")
	}
}

// readConverseExtra reads the additional fields of models: thinking of Claude
// and of Nova.
func readConverseExtra(c *checker, q *turn, m map[string]any) {
	const path = "additionalModelRequestFields"
	extra := c.child(m, path, "")
	q.seen.TopK = c.number(extra, "top_k", path, 0, 1e9)
	if think := c.child(extra, "thinking", path); think == nil || think["type"] == "disabled" {
		clearsThinking(c, extra, path)
	}
	if think := c.child(extra, "thinking", path); think != nil {
		kind := c.word(think, "type", path+".thinking", "enabled", "disabled", "adaptive")
		q.thinks = kind != "disabled"
		if kind == "enabled" {
			if q.afterTool && !turnThinks(m) {
				c.fail("messages", "The model returned the following errors: "+unthinkingTurn)
			}
			q.seen.Budget = c.integer(think, "budget_tokens", path+".thinking", 1024)
			if q.seen.Budget == 0 || q.limit > 0 && q.seen.Budget >= q.limit {
				c.fail("maxTokens", "must be greater than `thinking.budget_tokens`")
			}
		}
		if q.thinks && (q.seen.Temperature != nil && *q.seen.Temperature != 1 || q.seen.TopK != nil || q.mode == "any" || q.mode == "tool") {
			c.fail(path+".thinking", "may not be enabled with temperature, top_k or a forced tool")
		}
	}
	if reasoning := c.child(extra, "reasoningConfig", path); reasoning != nil {
		q.thinks = c.text(reasoning, "type", path) == "enabled"
		q.seen.Effort = c.text(reasoning, "maxReasoningEffort", path)
	}
	readClaudeOutput(c, q, c.child(extra, "output_config", path), path+".output_config")
	if effort := c.text(extra, "reasoning_effort", path); effort != "" {
		q.seen.Effort, q.thinks = effort, effort != "none"
	}
}

// readClaudeOutput reads the effort and the format in Claude's format.
func readClaudeOutput(c *checker, q *turn, output map[string]any, path string) {
	if effort := c.text(output, "effort", path); effort != "" {
		q.seen.Effort = effort
	}
	if format := c.child(output, "format", path); format != nil {
		q.format, q.schema = "schema", c.object(format["schema"], path+".format.schema")
		closedSchema(c, q.schema, path+".format.schema")
	}
}

func readConverseFormat(c *checker, q *turn, m map[string]any) {
	const path = "outputConfig.textFormat"
	config := c.child(m, "outputConfig", "")
	c.checkMembers(config, "outputConfig", "textFormat")
	format := c.child(config, "textFormat", "outputConfig")
	if format == nil {
		return
	}
	c.checkMembers(format, path, "type", "structure")
	c.word(format, "type", path, "json_schema")
	inner := c.object(c.object(format["structure"], path+".structure")["jsonSchema"], path+".structure.jsonSchema")
	c.checkMembers(inner, path+".structure.jsonSchema", "schema", "name", "description")
	text := c.filled(inner, "schema", path+".structure.jsonSchema")
	schema, ok := decoded(text).(map[string]any)
	if !ok {
		c.fail(path, "schema must be a string that holds a JSON object")
	}
	q.format, q.schema = "schema", schema
	closedSchema(c, schema, path)
}

func readCachePoint(c *checker, q *turn, block map[string]any, path string) {
	path = at(path, "cachePoint")
	point := c.object(block["cachePoint"], path)
	c.checkMembers(point, path, "type", "ttl")
	c.word(point, "type", path, "default")
	c.word(point, "ttl", path, "5m", "1h")
	q.seen.CachePoints++
}

var converseToolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`) })

func readConverseTools(c *checker, q *turn, m map[string]any) {
	config := c.child(m, "toolConfig", "")
	if config == nil {
		return
	}
	c.checkMembers(config, "toolConfig", "tools", "toolChoice")
	for i, v := range c.needList(config, "tools", "toolConfig") {
		path := nth("toolConfig.tools", i)
		tool := c.object(v, path)
		switch c.one(tool, path, "toolSpec", "cachePoint", "systemTool") {
		case "cachePoint":
			readCachePoint(c, q, tool, path)
		case "toolSpec":
			path = at(path, "toolSpec")
			spec := c.object(tool["toolSpec"], path)
			c.checkMembers(spec, path, "name", "description", "inputSchema", "strict")
			name := c.filled(spec, "name", path)
			c.matches(name, at(path, "name"), converseToolName())
			if spec["description"] != nil {
				c.filled(spec, "description", path)
			}
			schema := c.object(c.object(spec["inputSchema"], at(path, "inputSchema"))["json"], at(path, "inputSchema.json"))
			if schema["type"] != "object" {
				c.fail(at(path, "inputSchema.json.type"), "must be one of the following: object")
			}
			if slices.Contains(q.seen.Tools, name) {
				c.fail("toolConfig.tools", "The model returned the following errors: tools: Tool names must be unique.")
			}
			q.addTool(name, schema)
		}
	}
	choice := c.child(config, "toolChoice", "toolConfig")
	if choice == nil {
		return
	}
	q.mode = c.one(choice, "toolConfig.toolChoice", "auto", "any", "tool")
	if q.mode == "tool" {
		q.only = c.filled(c.object(choice["tool"], "toolConfig.toolChoice.tool"), "name", "toolConfig.toolChoice.tool")
		if !slices.Contains(q.seen.Tools, q.only) {
			c.fail("toolConfig.toolChoice.tool", "the tool %q is not among the tools", q.only)
		}
	}
}
