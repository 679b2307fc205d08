package conformance

import (
	"net/http"
	"strings"
	"testing"
)

// TestKeptResponsesHaveEveryField reads responses that the gateway keeps, since their provider
// speaks another protocol, with the gateway key alone.
func TestKeptResponsesHaveEveryField(t *testing.T) {
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: other, provider: anthropic, custom_host: \""+newProvider(t, speaks(true)).url+"\", api_key: \"${STORED_KEY}\"}\n",
		"MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	create := func(more string) string {
		return g.do(t, "POST", "/v1/responses", `{"model":"claude-sonnet-4-5","input":"hi"`+more+`}`, managed("@other")...).wantOK(t).object(t)["id"].(string)
	}
	read := func(id string) map[string]any {
		return g.do(t, "GET", "/v1/responses/"+id, "", own()...).wantOK(t).object(t)
	}
	kept := func(more string) map[string]any { return read(create(more)) }
	id := create("")
	prove(t, "S-192 S-013 S-378 S-377 S-487", "it is found by its id with the gateway key alone", func(t *testing.T) {
		if got := g.do(t, "GET", "/v1/responses/"+id, "", own()...).wantOK(t).object(t); got["id"] != id || !strings.HasPrefix(id, "resp_") {
			t.Errorf("id = %v, want %s", got["id"], id)
		}
	})
	plain := read(id)
	proveTimes(t, "S-194", "a response", plain, "created_at")
	proveShapes(t, "a response", plain, has("S-193", `"response"`, "object"), has("S-195 S-240", `"completed"`, "status"),
		has("S-196", `"claude-x"`, "model"), has("S-197", `null`, "instructions"), has("S-202", `"auto"`, "tool_choice"),
		has("S-203", `true`, "parallel_tool_calls"), has("S-204", `"reasoning"`, "output", 0, "type"),
		has("S-205", `"message"`, "output", 1, "type"), has("S-205", `"assistant"`, "output", 1, "role"),
		has("S-205", `"completed"`, "output", 1, "status"), has("S-205", `"output_text"`, "output", 1, "content", 0, "type"),
		has("S-205", `"Hello"`, "output", 1, "content", 0, "text"), has("S-205", `[]`, "output", 1, "content", 0, "annotations"),
		has("S-204", `"function_call"`, "output", 2, "type"), has("S-207", `null`, "error"), has("S-208", `null`, "incomplete_details"),
		has("S-209", `null`, "previous_response_id"), has("S-211", `null`, "max_output_tokens"), has("S-212", `{"format":{"type":"text"}}`, "text"),
		has("S-213", `"disabled"`, "truncation"), has("S-214", `null`, "user"),
		has("S-215", `7`, "usage", "input_tokens"), has("S-215", `0`, "usage", "input_tokens_details", "cached_tokens"), has("S-215", `2`, "usage", "output_tokens"),
		has("S-215", `0`, "usage", "output_tokens_details", "reasoning_tokens"), has("S-215", `9`, "usage", "total_tokens"))
	proveShapes(t, "what was sent", kept(`,"instructions":"be brief","metadata":{"a":"b"},"tools":[{"type":"function","name":"look","parameters":{}}],"tool_choice":"required",`+
		`"parallel_tool_calls":false,"max_output_tokens":5000,"truncation":"auto","user":"u","temperature":0.5`),
		has("S-197", `"be brief"`, "instructions"), has("S-198", `{"a":"b"}`, "metadata"), has("S-201", `"look"`, "tools", 0, "name"),
		has("S-202", `"required"`, "tool_choice"), has("S-203", `false`, "parallel_tool_calls"), has("S-211", `5000`, "max_output_tokens"),
		has("S-213", `"auto"`, "truncation"), has("S-214", `"u"`, "user"), has("S-199", `0.5`, "temperature"))
	proveShapes(t, "a number that is sent alone", kept(`,"top_p":0.5`), has("S-200", `0.5`, "top_p"))
	proveShapes(t, "reasoning", kept(`,"reasoning":{"effort":"low"},"max_output_tokens":5000`), has("S-210", `"low"`, "reasoning", "effort"))
	proveShapes(t, "a second turn", kept(`,"previous_response_id":"`+id+`"`), has("S-209", `"`+id+`"`, "previous_response_id"), has("S-197", `null`, "instructions"))
	prove(t, "S-378", "an unknown response", func(t *testing.T) {
		g.do(t, "GET", "/v1/responses/resp_none", "", own()...).refused(t, http.StatusNotFound)
	})
	for _, part := range []string{"file_search_call.results", "message.input_image.image_url", "computer_call_output.output.image_url"} {
		prove(t, "S-375", "include "+part, func(t *testing.T) {
			g.do(t, "GET", "/v1/responses/"+id+"?include[]="+part, "", own()...).wantOK(t)
		})
	}
	prove(t, "S-375", "include anything else", func(t *testing.T) {
		g.do(t, "GET", "/v1/responses/"+id+"?include=colour", "", own()...).refusedFor(t, "include")
	})
}

// TestKeptResponsesSayHowTheyEnded reads responses that were cut short or failed.
func TestKeptResponsesSayHowTheyEnded(t *testing.T) {
	begun, _, _ := strings.Cut(messagesStream, "event: content_block_stop")
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request, in received) {
		if strings.Contains(string(in.body), `"stream":true`) {
			streams(begun+"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broken\"}}\n\n")(w, r, in)
			return
		}
		says(http.StatusOK, "application/json", strings.Replace(messagesResponse(false), "end_turn", "max_tokens", 1))(w, r, in)
	})
	g := launchFor(t, "version: 1\nproviders:\n  - {slug: other, provider: anthropic, custom_host: \""+p.url+"\", api_key: \"${STORED_KEY}\"}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	const body = `{"model":"claude-sonnet-4-5","input":"hi"}`
	read := func(id any) map[string]any {
		return g.do(t, "GET", "/v1/responses/"+id.(string), "", own()...).wantOK(t).object(t)
	}
	cut := g.do(t, "POST", "/v1/responses", body, managed("@other")...).wantOK(t).object(t)
	proveShapes(t, "cut short by its limit", read(cut["id"]), has("S-195 S-240", `"incomplete"`, "status"), has("S-208 S-474", `"max_output_tokens"`, "incomplete_details", "reason"))
	events := string(g.do(t, "POST", "/v1/responses", strings.Replace(body, "{", `{"stream":true,`, 1), managed("@other")...).body)
	_, after, _ := strings.Cut(events, `"id":"`)
	id, _, _ := strings.Cut(after, `"`)
	proveShapes(t, "failed on its way", read(id), has("S-195 S-240", `"failed"`, "status"), has("S-207 S-473", `"server_error"`, "error", "code"))
	prove(t, "S-207 S-473", "failed on its way: with a message", func(t *testing.T) {
		if message, _ := at(read(id), "error", "message").(string); !strings.Contains(message, "broken") {
			t.Errorf("message %q", message)
		}
	})
}
