package simulator

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func noResponse(id string) providerError {
	return providerError{kind: invalidRequest, message: "Response with id '" + id + "' not found."}
}

// responseIncludes are the further data that can be asked for.
// https://platform.openai.com/docs/api-reference/responses/get
var responseIncludes = []string{
	"file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
	"computer_call_output.output.image_url", "code_interpreter_call.outputs", "reasoning.encrypted_content", "message.output_text.logprobs",
}

// checkIncludes sends an error for an unknown include, and reports whether there
// was none.
func (x *exchange) checkIncludes(query url.Values) bool {
	for _, name := range append(query["include"], query["include[]"]...) {
		if !slices.Contains(responseIncludes, name) {
			x.refuse(statusOf, invalid("include", "Invalid value: '"+name+"'. Supported values are: '"+
				strings.Join(responseIncludes, "', '")+"'."))
			return false
		}
	}
	return true
}

// serveStoredResponse answers the routes of a stored response.
func serveStoredResponse(x *exchange) {
	if !x.readBody() || !x.begin(nil) {
		return
	}
	parts := x.segments("/responses/")
	id, operation := parts[0], x.r.Method+" "+strings.Join(parts[1:], "/")
	r, ok := findRecord[*storedResponse](&x.sim.stored, responseFamily, id)
	serve := map[string]func(*exchange, *storedResponse){
		"GET ": readResponse, "DELETE ": deleteResponse, "POST cancel": cancelResponse, "GET input_items": listInputItems,
	}[operation]
	if !ok || serve == nil {
		x.refuse(http.StatusNotFound, noResponse(id))
		return
	}
	serve(x, r)
}

func readResponse(x *exchange, r *storedResponse) {
	query, ok := x.query("include", "include[]", "include_obfuscation", "starting_after", "stream")
	if !ok || !x.checkIncludes(query) {
		return
	}
	after, from := query.Get("starting_after"), 0
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 0 || query.Get("stream") != "true" {
			x.refuse(statusOf, invalid("starting_after", "Invalid 'starting_after': expected an integer, together with 'stream'."))
			return
		}
		from = n + 1
	}
	switch query.Get("stream") {
	case "", "false":
	case "true":
		if !r.stream {
			x.refuse(statusOf, invalid("stream",
				"This response cannot be streamed because it was not created with background=true and stream=true."))
			return
		}
		x.replay(r, from)
		return
	default:
		x.refuse(statusOf, invalid("stream", "Invalid 'stream': expected a boolean."))
		return
	}
	r.mu.Lock()
	r.read(x.began)
	body := r.body()
	r.mu.Unlock()
	x.sendBody(http.StatusOK, typeJSON, body)
}

func deleteResponse(x *exchange, r *storedResponse) {
	if !x.sim.stored.remove(responseFamily, r.id) {
		x.refuse(http.StatusNotFound, noResponse(r.id))
		return
	}
	x.sendJSON(http.StatusOK, object{"id": r.id, "object": "response", "deleted": true})
}

// cancelResponse cancels a response in the background. A second time has no
// effect.
func cancelResponse(x *exchange, r *storedResponse) {
	if r.bodies == nil {
		x.refuse(statusOf, providerError{kind: invalidRequest, message: "Cannot cancel a synchronous response."})
		return
	}
	r.mu.Lock()
	if r.cancel(x.began) && r.pace.mode != jobSlowCancels {
		r.enter(jobCanceled, x.began)
	}
	body := r.body()
	r.mu.Unlock()
	x.sendBody(http.StatusOK, typeJSON, body)
}

// itemPages are the pages of lists of items.
// https://platform.openai.com/docs/api-reference/responses/input-items
var itemPages = pager{usual: 20, most: 100}

func listInputItems(x *exchange, r *storedResponse) {
	query, ok := x.query("after", "limit", "order", "include", "include[]")
	if !ok || !x.checkIncludes(query) {
		return
	}
	list := slices.Clone(r.input)
	slices.Reverse(list)
	collection[any]{itemPages, list, itemKey, func(v any) any { return v }}.send(x, query)
}

// serveInputTokens answers POST /responses/input_tokens.
// https://platform.openai.com/docs/api-reference/responses/input-tokens
func serveInputTokens(x *exchange) {
	q, _, ok := x.openInput("conversation", "input", "instructions", "model", "parallel_tool_calls", "personality",
		"previous_response_id", "reasoning", "text", "tool_choice", "tools", "truncation")
	if ok {
		x.sendJSON(http.StatusOK, object{"object": "response.input_tokens", "input_tokens": q.prompt})
	}
}

// serveCompact answers POST /responses/compact: the messages of the user, and
// one item for all others.
// https://platform.openai.com/docs/api-reference/responses/compact
func serveCompact(x *exchange) {
	q, body, ok := x.openInput("model", "input", "instructions", "previous_response_id", "prompt_cache_key", "prompt_cache_options",
		"prompt_cache_retention", "service_tier", "image")
	if !ok {
		return
	}
	name := x.idText() + "n" + strconv.FormatInt(x.number, 10)
	output := slices.DeleteFunc(append(q.state.earlier, itemsOf(body["input"], name)...), func(v any) bool {
		return v.(map[string]any)["role"] != "user"
	})
	text := strings.Join(q.seen.Texts, "\n")
	output = append(output, object{"type": "compaction", "id": "cmp_sim" + name, "encrypted_content": sealed("openai", text)})
	x.bill(q.prompt)
	x.served = shortThinking
	used := tokenUsage{input: x.prompt, cached: x.cached, output: shortThinking}
	x.sendCreated(http.StatusOK, object{"id": responsePrefix + name, "object": "response.compaction", "created_at": x.began.Unix(),
		"output": output, "usage": used.describe()})
}

// openInput reads a body with an input of the responses protocol. It returns
// false if the request is over.
func (x *exchange) openInput(names ...string) (q *turn, body map[string]any, ok bool) {
	if body, ok = x.open(nil); !ok {
		return nil, nil, false
	}
	q = &turn{}
	c := newChecker(&responsesProtocol)
	c.checkMembers(body, "", names...)
	var gone providerError
	q.state, gone = x.readState(c, body)
	readResponses(c, q, body)
	switch {
	case c.wrong.kind != "":
		x.refuse(statusOf, c.wrong)
		return nil, nil, false
	case gone.kind != "":
		x.refuse(http.StatusNotFound, gone)
		return nil, nil, false
	}
	return q, body, true
}
