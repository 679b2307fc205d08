package simulator_test

func messageAt(path string) func(object) string {
	return func(m object) string { return textAt(m, path) }
}

func geminiPath(prefix string) func(string, bool) string {
	return func(model string, streamed bool) string {
		if streamed {
			return prefix + model + ":streamGenerateContent?alt=sse"
		}
		return prefix + model + ":generateContent"
	}
}

func twoPaths(prefix, plain, streaming string) func(string, bool) string {
	return func(model string, streamed bool) string {
		if streamed {
			return prefix + model + streaming
		}
		return prefix + model + plain
	}
}

var (
	claudeStops = [5]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
	bedrockEnds = [5]string{"end_turn", "max_tokens", "stop_sequence", "tool_use", "content_filtered"}
	geminiStops = [5]string{"STOP", "MAX_TOKENS", "STOP", "STOP", "SAFETY"}
	vertexPath  = "/v1/projects/p/locations/global/publishers/"
)

// protocolCases are all the protocols and the places where they are spoken.
var protocolCases = []*protocolCase{
	{name: "chat", path: fixedPath("/v1/chat/completions"), body: chatBody, inBody: true, streamInBody: true, frames: eventData,
		readBody: readChat, readFrame: readChat, fault: messageAt("error.message"), stops: [5]string{"stop", "length", "stop", "tool_calls", "stop"}},
	{name: "messages", path: fixedPath("/v1/messages"), body: messagesBody, inBody: true, streamInBody: true, frames: eventData, header: []string{"Anthropic-Version", "2023-06-01"},
		readBody: readMessages, readFrame: readMessagesFrame, fault: messageAt("error.message"), stops: claudeStops, signs: true},
	{name: "messages on vertex", path: twoPaths(vertexPath+"anthropic/models/", ":rawPredict", ":streamRawPredict"), body: withVersion("vertex-2023-10-16"), streamInBody: true, frames: eventData,
		readBody: readMessages, readFrame: readMessagesFrame, fault: messageAt("error.message"), stops: claudeStops, signs: true},
	{name: "messages on bedrock", path: twoPaths("/model/", "/invoke", "/invoke-with-response-stream"), body: withVersion("bedrock-2023-05-31"), frames: chunkData,
		readBody: readMessages, readFrame: readMessagesFrame, fault: messageAt("message"), stops: claudeStops, signs: true},
	{name: "responses", path: fixedPath("/v1/responses"), body: responsesBody, inBody: true, streamInBody: true, frames: eventData,
		readBody: readResponses, readFrame: readResponsesFrame, fault: messageAt("error.message"), stops: [5]string{"completed", "incomplete", "", "completed", "completed"}, signs: true},
	{name: "gemini", path: geminiPath("/v1beta/models/"), body: geminiBody, frames: eventData,
		readBody: readGemini, readFrame: readGemini, fault: messageAt("error.message"), stops: geminiStops, signs: true},
	{name: "gemini on vertex", path: geminiPath(vertexPath + "google/models/"), body: geminiBody, frames: eventData,
		readBody: readGemini, readFrame: readGemini, fault: messageAt("error.message"), stops: geminiStops, signs: true},
	{name: "converse", path: twoPaths("/model/", "/converse", "/converse-stream"), body: converseBody, frames: binaryData,
		readBody: readConverse, readFrame: readConverseFrame, fault: messageAt("message"), stops: bedrockEnds, signs: true},
	{name: "cohere", path: fixedPath("/v2/chat"), body: cohereBody, inBody: true, streamInBody: true, frames: eventData,
		readBody: readCohere, readFrame: readCohereFrame, fault: messageAt("message"), stops: [5]string{"COMPLETE", "MAX_TOKENS", "STOP_SEQUENCE", "TOOL_CALL", "COMPLETE"}},
	{name: "ollama", path: fixedPath("/api/chat"), body: ollamaBody, inBody: true, streamInBody: true, frames: lineData,
		readBody: readOllama, readFrame: readOllama, fault: messageAt("error"), stops: [5]string{"stop", "length", "stop", "stop", "stop"}},
}
