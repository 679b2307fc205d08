package simulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// geminiProtocol is the protocol of generateContent. A stream is one JSON array
// unless server-sent events are requested.
// https://ai.google.dev/api/generate-content
var (
	geminiProtocol = protocol{
		name: "gemini", index: geminiIndex, kind: framingEvents, stream: typeStream,
		fail: failGemini, unknown: unknownGemini, kinds: geminiKinds,
	}
	geminiArrayProtocol = protocol{
		name: "gemini", index: geminiIndex, kind: framingArray, stream: typeJSON,
		fail: failGemini, unknown: unknownGemini, kinds: geminiKinds, end: []byte("]"),
	}
)

// geminiKinds are the names of statuses.
// https://cloud.google.com/apis/design/errors#handling_errors
var geminiKinds = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ALREADY_EXISTS", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED",
	http.StatusInternalServerError: "INTERNAL", http.StatusServiceUnavailable: "UNAVAILABLE", 529: "UNAVAILABLE",
	http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}

func unknownGemini(path, name string) providerError {
	at := ""
	if path != "" {
		at = " at '" + strings.TrimSuffix(path, ".") + "'"
	}
	return invalid(path+name, `Invalid JSON payload received. Unknown name "`+name+`"`+at+`: Cannot find field.`)
}

// failGemini writes an error; Vertex wraps errors of streams in an array.
func failGemini(x *exchange, dst []byte, status int, e providerError) []byte {
	array := x.vertex() && strings.HasSuffix(x.r.URL.Path, ":streamGenerateContent")
	if array {
		dst = append(dst, '[')
	}
	dst = appendAll(dst, `{"error":{"code":`, itoa(status), `,"message":`, quoted(e.message), `,"status":"`, x.protocol.errorKind(status), `"`)
	if status == http.StatusTooManyRequests && x.plan.retryAfter != "" {
		dst = appendAll(dst, `,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":`, quoted(x.plan.retryAfter+"s"), `}]`)
	}
	dst = append(dst, `}}`...)
	if array {
		dst = append(dst, ']')
	}
	return dst
}

func breakGemini(t *stream) []byte {
	return append(t.named(""), `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`...)
}

// vertex reports whether the path belongs to Vertex AI, which has other members
// than the Gemini API.
func (x *exchange) vertex() bool { return strings.Contains(x.r.URL.Path, "/publishers/") }

func geminiModel(x *exchange) *string {
	model := modelBetween(x.r.URL.Path, "models/", ":")
	return &model
}

// serveGemini answers :generateContent and :streamGenerateContent.
func serveGemini(x *exchange) {
	model := geminiModel(x)
	x.asked = strings.HasSuffix(x.r.URL.Path, ":streamGenerateContent")
	streamed := x.asked
	if streamed && x.r.URL.Query().Get("alt") != "sse" {
		x.protocol = &geminiArrayProtocol
	}
	body, ok := x.open(model)
	if !ok {
		return
	}
	g := newGemini(x, *model, streamed)
	g.read(body)
	if !x.accept(g.q, g.c, body) {
		return
	}
	a := x.responseTo(g.q)
	if !g.q.summary && x.plan.thinking == 0 {
		a.hideThinking()
	}
	x.respond(streamed, a, func(dst []byte) []byte { return x.appendGemini(dst, a) },
		func(t *stream) { x.streamGemini(t, a) })
}

// hideThinking removes the thinking from the response, but not from its usage.
func (a *response) hideThinking() {
	a.parts = slices.DeleteFunc(a.parts, func(p part) bool { return p.kind == partThinking })
}

// geminiReader reads a request.
type geminiReader struct {
	c      *checker
	q      *turn
	vertex bool
	signed bool // calls must have their signatures
	waits  int  // number of calls without results
}

func newGemini(x *exchange, model string, streamed bool) *geminiReader {
	q := &turn{model: model, stream: streamed}
	return &geminiReader{c: newChecker(&geminiProtocol), q: q, vertex: x.vertex(),
		signed: strings.HasPrefix(model, "gemini-3") || x.plan.thinking > 0}
}

// camel converts member names to lower camel case: the API accepts snake_case
// as well.
// https://protobuf.dev/programming-guides/json/
func camel(m map[string]any) map[string]any {
	for name, value := range m {
		words := strings.Split(name, "_")
		if len(words) == 1 || words[0] == "" {
			continue
		}
		for i, word := range words[1:] {
			if word != "" {
				words[i+1] = strings.ToUpper(word[:1]) + word[1:]
			}
		}
		delete(m, name)
		m[strings.Join(words, "")] = value
	}
	return m
}

func (g *geminiReader) child(m map[string]any, name, path string, members ...string) map[string]any {
	child := camel(g.c.child(m, name, path))
	g.c.checkMembers(child, at(path, name), members...)
	return child
}

func (g *geminiReader) read(m map[string]any) {
	c, q := g.c, g.q
	camel(m)
	members := []string{"contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent", "model"}
	if g.vertex {
		members = append(members, "labels")
	} else {
		members = append(members, "serviceTier", "store")
	}
	c.checkMembers(m, "", members...)
	g.tuning(m)
	g.tools(m)
	if system := g.child(m, "systemInstruction", "", "role", "parts"); system != nil {
		for i, v := range c.needList(system, "parts", "systemInstruction") {
			path := nth("systemInstruction.parts", i)
			q.addSystem(c.needText(camel(c.object(v, path)), "text", path))
		}
	}
	for i, v := range c.needList(m, "contents", "") {
		path := "contents[" + itoa(i) + "]"
		g.content(camel(c.object(v, path)), path, i)
	}
	if g.waits > 0 {
		c.fail("contents", "Please ensure that function response turn comes immediately after a function call turn.")
	}
	for i, v := range c.list(m, "safetySettings", "") {
		path := nth("safetySettings", i)
		setting := camel(c.object(v, path))
		c.checkMembers(setting, path, "category", "threshold", "method")
		c.filled(setting, "category", path)
		c.filled(setting, "threshold", path)
	}
}

func (g *geminiReader) tuning(m map[string]any) {
	config := g.child(m, "generationConfig", "", "temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "candidateCount", "seed",
		"presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs", "responseMimeType", "responseSchema",
		"responseJsonSchema", "responseModalities", "imageConfig", "mediaResolution", "speechConfig", "thinkingConfig",
		"audioTimestamp", "enableEnhancedCivicAnswers", "routingConfig")
	g.c.readSampling(g.q, config, geminiIndex)
	g.thinking(config)
	g.format(config)
}

func (g *geminiReader) thinking(config map[string]any) {
	const path = "generationConfig.thinkingConfig"
	c, q := g.c, g.q
	think := g.child(config, "thinkingConfig", "generationConfig", "includeThoughts", "thinkingBudget", "thinkingLevel")
	if think == nil {
		return
	}
	q.seen.Effort = strings.ToLower(c.text(think, "thinkingLevel", path))
	q.seen.Budget = c.integer(think, "thinkingBudget", path, -1)
	q.summary = c.flag(think, "includeThoughts", path)
	q.thinks = think["thinkingBudget"] != float64(0)
	if think["thinkingBudget"] != nil && think["thinkingLevel"] != nil {
		c.fail(path, "You can only set only one of thinking budget and thinking level.")
	}
}

func (g *geminiReader) format(config map[string]any) {
	const path = "generationConfig"
	c, q := g.c, g.q
	mime := c.text(config, "responseMimeType", path)
	if mime == "application/json" {
		q.format = "json"
	} else if mime != "" && mime != "text/plain" && mime != "text/x.enum" {
		c.fail(path+".responseMimeType",
			"allowed mimetypes are `text/plain`, `application/json`, `application/xml`, `application/yaml` and `text/x.enum`")
	}
	if schema := c.child(config, "responseSchema", path); schema != nil {
		g.schema(schema, path+".responseSchema")
		q.format, q.schema = "schema", lowered(schema)
	}
	if schema := config["responseJsonSchema"]; schema != nil {
		if config["responseSchema"] != nil {
			c.fail(path, "only one of response_schema and response_json_schema can be set")
		}
		q.format, q.schema = "schema", schema
	}
	if q.format == "schema" && (mime == "" || mime == "text/plain") {
		c.fail(path+".responseMimeType", "must be 'application/json' when a response schema is set")
	}
}

var geminiSchemaMembers = []string{
	"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
	"minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering", "default",
	"items", "minimum", "maximum",
}

// schema checks a Schema, which is a subset of JSON Schema.
// https://ai.google.dev/api/caching#Schema
func (g *geminiReader) schema(v any, path string) {
	c := g.c
	m := camel(c.object(v, path))
	members := geminiSchemaMembers
	if g.vertex {
		members = append(slices.Clip(members), "additionalProperties", "ref", "defs", "$ref", "$defs", "prefixItems")
	}
	c.checkMembers(m, path, members...)
	if m["type"] != nil {
		kind := c.text(m, "type", path)
		if !slices.Contains([]string{"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}, strings.ToUpper(kind)) {
			c.fail(at(path, "type"), "Invalid value (TYPE_ENUM), %q", kind)
		}
	}
	properties := c.child(m, "properties", path)
	for _, name := range sortedNames(properties) {
		g.schema(properties[name], path+".properties["+name+"]")
	}
	for _, name := range c.texts(m, "required", path) {
		if _, ok := properties[name]; !ok {
			c.fail(at(path, "required"), "property is not defined: %s", name)
		}
	}
	c.texts(m, "enum", path)
	if m["items"] != nil {
		g.schema(m["items"], path+".items")
	}
	for i, v := range c.list(m, "anyOf", path) {
		g.schema(v, at(path, "anyOf")+"["+itoa(i)+"]")
	}
}

// geminiName and similar expressions are compiled on first use: a gateway does
// not need them, and repetition counts take memory.
var geminiName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`) })

func (g *geminiReader) tools(m map[string]any) {
	c := g.c
	for i, v := range c.list(m, "tools", "") {
		path := "tools[" + itoa(i) + "]"
		tool := camel(c.object(v, path))
		c.checkMembers(tool, path, "functionDeclarations", "googleSearch", "googleSearchRetrieval", "googleMaps", "computerUse",
			"enterpriseWebSearch", "urlContext", "codeExecution", "fileSearch", "retrieval")
		for j, v := range c.list(tool, "functionDeclarations", path) {
			g.function(camel(c.object(v, path)), at(path, "functionDeclarations")+"["+itoa(j)+"]")
		}
	}
	g.choice(m)
}

func (g *geminiReader) function(m map[string]any, path string) {
	c := g.c
	c.checkMembers(m, path, "name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior")
	name := c.filled(m, "name", path)
	c.matches(name, at(path, "name"), geminiName())
	if slices.Contains(g.q.seen.Tools, name) {
		c.fail(path, "Duplicate function declaration found: %s", name)
	}
	schema := m["parametersJsonSchema"]
	if m["parameters"] != nil {
		if schema != nil {
			c.fail(path, "only one of parameters and parameters_json_schema can be set")
		}
		schema = m["parameters"]
		g.schema(schema, at(path, "parameters"))
		if kind, _ := c.object(schema, path)["type"].(string); !strings.EqualFold(kind, "object") {
			c.fail(at(path, "parameters"), "functionDeclaration parameters schema should be of type OBJECT")
		}
	}
	g.q.addTool(name, lowered(schema))
}

// lowered returns a schema with types in the spelling of JSON Schema.
func lowered(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for name, value := range m {
		switch name {
		case "type":
			if kind, ok := value.(string); ok {
				value = strings.ToLower(kind)
			}
		case "items":
			value = lowered(value)
		case "properties":
			inner, _ := value.(map[string]any)
			all := make(map[string]any, len(inner))
			for key, schema := range inner {
				all[key] = lowered(schema)
			}
			value = all
		}
		out[name] = value
	}
	return out
}

func (g *geminiReader) choice(m map[string]any) {
	const path = "toolConfig.functionCallingConfig"
	c, q := g.c, g.q
	config := g.child(m, "toolConfig", "", "functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations")
	calling := g.child(config, "functionCallingConfig", "toolConfig", "mode", "allowedFunctionNames", "streamFunctionCallArguments")
	if calling == nil {
		return
	}
	mode := c.word(calling, "mode", path, "AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED")
	q.mode = map[string]string{"AUTO": "auto", "ANY": "any", "NONE": "none", "VALIDATED": "auto"}[mode]
	allowed := c.texts(calling, "allowedFunctionNames", path)
	if len(allowed) > 0 && mode != "ANY" && mode != "VALIDATED" {
		c.fail(path, "allowed_function_names should only be set when mode is ANY or VALIDATED")
	}
	for _, name := range allowed {
		if !slices.Contains(q.seen.Tools, name) {
			c.fail(path, "allowed_function_names holds %q, which is not declared", name)
		}
	}
	if mode == "ANY" && len(q.tools) == 0 {
		c.fail(path, "Function calling config is set without function_declarations.")
	}
	if mode == "ANY" && len(allowed) == 1 {
		q.mode, q.only = "tool", allowed[0]
	}
}
