package dialects

import (
	"strings"

	"modelgate/api"
)

// A historySample is content of one type in the history of a conversation. Its
// words are marked by WORDS: they reach the target, or the response says that
// they do not.
type historySample struct {
	typ  string // as the vendor's SDK names it
	path string // of the content in the body
	body string // of a request
	said string // another name under which the content is announced
}

// marked are the words that a sample holds.
const marked = "WORDS"

// signs show that a sample has reached a target: its words, their start in
// base64, or a mark for the cache.
var signs = []string{marked, "V09SRFN", `"V09SRFM="`, `"cache_control"`}

func history(path, said, frame string, types ...string) (list []historySample) {
	for i := 0; i < len(types); i += 2 {
		list = append(list, historySample{typ: types[i], path: path, said: said, body: strings.ReplaceAll(frame, "$", types[i+1])})
	}
	return list
}

const (
	itemsFrame      = `{"input":[{"role":"user","content":"Hello"},$,{"role":"user","content":"And now?"}],"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]}`
	inputPartsFrame = `{"input":[{"role":"user","content":"Hello"},{"role":"user","content":[$,{"type":"input_text","text":"Hello"}]}]}`
	spokenFrame     = `{"input":[{"role":"user","content":"Hello"},{"type":"message","role":"assistant","content":[$]},{"role":"user","content":"And now?"}]}`

	chatUserFrame      = `{"messages":[{"role":"user","content":[$,{"type":"text","text":"Hello"}]}]}`
	chatAssistantFrame = `{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":[$]},{"role":"user","content":"And now?"}]}`
	chatMessageFrame   = `{"messages":[{"role":"user","content":"Hello"},{"role":"assistant",$},{"role":"user","content":"And now?"}]}`

	userBlocksFrame      = `{"max_tokens":4096,"messages":[{"role":"user","content":[$,{"type":"text","text":"Hello"}]}]}`
	assistantBlocksFrame = `{"max_tokens":4096,"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":[$]},{"role":"user","content":"And now?"}]}`
	systemBlocksFrame    = `{"max_tokens":4096,"messages":[{"role":"user","content":"Hello"},{"role":"system","content":[$]},{"role":"user","content":"And now?"}]}`
	resultBlocksFrame    = `{"max_tokens":4096,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[$]}]}]}`

	userPiecesFrame  = `{"contents":[{"role":"user","parts":[$,{"text":"Hello"}]}]}`
	modelPiecesFrame = `{"contents":[{"role":"user","parts":[{"text":"Hello"}]},{"role":"model","parts":[$]},{"role":"user","parts":[{"text":"And now?"}]}]}`

	converseUserFrame      = `{"messages":[{"role":"user","content":[$,{"text":"Hello"}]}]}`
	converseAssistantFrame = `{"messages":[{"role":"user","content":[{"text":"Hello"}]},{"role":"assistant","content":[$]},{"role":"user","content":[{"text":"And now?"}]}]}`
	converseResultFrame    = `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"messages":[{"role":"user","content":[{"text":"Hello"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[$]}}]}]}`
	converseSystemFrame    = `{"system":[$],"messages":[{"role":"user","content":[{"text":"Hello"}]}]}`
)

// The data of media are marked too: V09SRFM is WORDS in base64 if the number of
// bytes before it is a multiple of three.

// historySamples has a sample for each type of each dialect's schema.
var historySamples = map[api.Dialect][]historySample{
	api.DialectResponses: join(
		history("input[1]", "", itemsFrame,
			"message", `{"role":"user","content":"WORDS"}`,
			"input_message", `{"type":"message","role":"user","content":[{"type":"input_text","text":"WORDS"}]}`,
			"output_message", `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"WORDS","annotations":[]}]}`,
			"file_search_call", `{"type":"file_search_call","id":"fs_1","status":"completed","queries":["q"],"results":[{"file_id":"file-1","filename":"a.txt","score":0.5,"text":"WORDS"}]}`,
			"web_search_call", `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"WORDS"}}`,
			"function_call", `{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":\"WORDS\"}"},{"type":"function_call_output","call_id":"c1","output":"done"}`,
			"tool_search_call", `{"type":"tool_search_call","call_id":"c1","execution":"client","arguments":{"query":"WORDS"}},{"type":"tool_search_output","call_id":"c1","execution":"client","tools":[]}`,
			"tool_search_call", `{"type":"tool_search_call","execution":"server","arguments":{"query":"WORDS"}},{"type":"tool_search_output","execution":"server","tools":[]}`,
			"configuration_update", `{"type":"configuration_update","reasoning":{"effort":"low"}}`,
			"compaction", `{"type":"compaction","encrypted_content":"gAAA"}`,
			"image_generation_call", `{"type":"image_generation_call","id":"ig_1","status":"completed","result":"V09SRFNX","output_format":"png"}`,
			"image_generation_call", `{"type":"image_generation_call","id":"ig_1","status":"failed","result":null,"revised_prompt":"WORDS"}`,
			"code_interpreter_call", `{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1","status":"completed","code":"print(1)","outputs":[{"type":"logs","logs":"WORDS"}]}`,
			"local_shell_call", `{"type":"local_shell_call","id":"lsh_1","call_id":"c1","status":"completed","action":{"type":"exec","command":["echo","WORDS"],"env":{}}},{"type":"local_shell_call_output","id":"c1","output":"done"}`,
			"shell_call", `{"type":"shell_call","call_id":"c1","action":{"commands":["echo WORDS"]}},{"type":"shell_call_output","call_id":"c1","output":[{"stdout":"done","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
			"apply_patch_call", `{"type":"apply_patch_call","call_id":"c1","status":"completed","operation":{"type":"create_file","path":"a.txt","diff":"+WORDS"}},{"type":"apply_patch_call_output","call_id":"c1","status":"completed","output":"done"}`,
			"mcp_list_tools", `{"type":"mcp_list_tools","id":"mcpl_1","server_label":"files","tools":[{"name":"read","input_schema":{}}]}`,
			"mcp_approval_request", `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"files","name":"read","arguments":"{\"path\":\"WORDS\"}"}`,
			"mcp_call", `{"type":"mcp_call","id":"mcp_1","server_label":"files","name":"read","arguments":"{\"path\":\"a.txt\"}","output":"WORDS"}`,
			"custom_tool_call", `{"type":"custom_tool_call","call_id":"c1","name":"f","input":"WORDS"},{"type":"custom_tool_call_output","call_id":"c1","output":"done"}`,
			"item_reference", `{"type":"item_reference","id":"msg_1"}`,
			"program", `{"type":"program","id":"prog_1","call_id":"c1","code":"print('WORDS')","fingerprint":"abc"},{"type":"program_output","id":"po_1","call_id":"c1","result":"1","status":"completed"}`,
			"an_item_of_tomorrow", `{"type":"an_item_of_tomorrow","text":"of tomorrow"}`,
		),
		history("input", "", itemsFrame,
			"computer_call", `{"type":"computer_call","id":"cu_1","call_id":"c1","status":"completed","pending_safety_checks":[],"action":{"type":"type","text":"WORDS"}},{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,aWNvbg=="}}`,
		),
		history("input[1]", "tools", itemsFrame,
			"additional_tools", `{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"g","description":"WORDS","parameters":{"type":"object","properties":{}}}]}`,
		),
		history("input[1]", "input.reasoning", itemsFrame,
			"reasoning", `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"WORDS"}],"encrypted_content":"gAAA"}`,
			"reasoning", `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"WORDS"}]}`,
		),
		history("input[2]", "", itemsFrame,
			"computer_call_output", `{"type":"computer_call","id":"cu_1","call_id":"c1","status":"completed","pending_safety_checks":[],"action":{"type":"screenshot"}},{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,V09SRFNX"}}`,
			"function_call_output", `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"WORDS"}`,
			"tool_search_output", `{"type":"tool_search_call","call_id":"c1","execution":"client","arguments":{}},{"type":"tool_search_output","call_id":"c1","execution":"client","tools":[{"type":"function","name":"g","description":"WORDS","parameters":{"type":"object","properties":{}}}]}`,
			"local_shell_call_output", `{"type":"local_shell_call","id":"lsh_1","call_id":"c1","status":"completed","action":{"type":"exec","command":["ls"],"env":{}}},{"type":"local_shell_call_output","id":"c1","output":"WORDS"}`,
			"shell_call_output", `{"type":"shell_call","call_id":"c1","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"c1","output":[{"stdout":"WORDS","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
			"apply_patch_call_output", `{"type":"apply_patch_call","call_id":"c1","status":"completed","operation":{"type":"delete_file","path":"a.txt"}},{"type":"apply_patch_call_output","call_id":"c1","status":"failed","output":"WORDS"}`,
			"mcp_approval_response", `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"files","name":"read","arguments":"{}"},{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}`,
			"custom_tool_call_output", `{"type":"custom_tool_call","call_id":"c1","name":"f","input":"x"},{"type":"custom_tool_call_output","call_id":"c1","output":"WORDS"}`,
			"program_output", `{"type":"program","id":"prog_1","call_id":"c1","code":"print(1)","fingerprint":"abc"},{"type":"program_output","id":"po_1","call_id":"c1","result":"WORDS","status":"completed"}`,
			"compaction_trigger", `{"role":"user","content":"Go on"},{"type":"compaction_trigger"}`,
		),
		history("input[1].content[0]", "", inputPartsFrame,
			"input_text", `{"type":"input_text","text":"WORDS"}`,
			"input_image", `{"type":"input_image","image_url":"data:image/png;base64,V09SRFNX"}`,
			"input_file", `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,V09SRFNX"}`,
			"a_part_of_tomorrow", `{"type":"a_part_of_tomorrow","text":"of tomorrow"}`,
		),
		history("input[1].content[0]", "", spokenFrame,
			"output_text", `{"type":"output_text","text":"WORDS","annotations":[]}`,
			"refusal", `{"type":"refusal","refusal":"WORDS"}`,
		),
	),
	api.DialectChat: join(
		history("messages[0].content[0]", "", chatUserFrame,
			"text", `{"type":"text","text":"WORDS"}`,
			"image_url", `{"type":"image_url","image_url":{"url":"data:image/png;base64,V09SRFNX"}}`,
			"input_audio", `{"type":"input_audio","input_audio":{"data":"V09SRFNX","format":"wav"}}`,
			"file", `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,V09SRFNX"}}`,
			"a_part_of_tomorrow", `{"type":"a_part_of_tomorrow","text":"of tomorrow"}`,
			"guard_content", `{"type":"guard_content","guard_content":{"text":{"text":"WORDS"}}}`,
		),
		history("messages[1].content[0]", "", chatAssistantFrame,
			"text", `{"type":"text","text":"WORDS"}`,
			"refusal", `{"type":"refusal","refusal":"WORDS"}`,
			"image_url", `{"type":"image_url","image_url":{"url":"data:image/png;base64,V09SRFNX"}}`,
		),
		history("messages[1]", "", chatMessageFrame,
			"refusal", `"refusal":"WORDS"`,
			"audio", `"audio":{"id":"audio_1"}`,
			"content", `"content":"WORDS"`,
			"role", `"content":"WORDS"`,
			"function_call", `"content":null,"function_call":{"name":"f","arguments":"{\"a\":\"WORDS\"}"}},{"role":"function","name":"f","content":"done"`,
			"tool_calls", `"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"WORDS\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"`,
			"function", `"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":\"WORDS\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"done"`,
			"custom", `"content":null,"tool_calls":[{"id":"c1","type":"custom","custom":{"name":"f","input":"WORDS"}}]},{"role":"tool","tool_call_id":"c1","content":"done"`,
		),
		history("messages[1].content_blocks[0]", "", chatMessageFrame,
			"server_tool_use", `"content_blocks":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"WORDS"}}]`,
			"web_search_tool_result", `"content_blocks":[{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"WORDS","url":"https://example.com","encrypted_content":"x"}]}]`,
			"a_block_of_tomorrow", `"content_blocks":[{"type":"a_block_of_tomorrow","text":"of tomorrow"}]`,
		),
		history("messages[1]", "messages.name", chatMessageFrame, "name", `"name":"WORDS","content":"Hello"`),
		history("messages[1]", "messages.reasoning_content", chatMessageFrame,
			"reasoning_content", `"content":"Hello","reasoning_content":"WORDS"`,
		),
	),
	api.DialectMessages: join(
		history("messages[0].content[0]", "", userBlocksFrame,
			"text", `{"type":"text","text":"WORDS"}`,
			"image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"V09SRFNX"}}`,
			"document", `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"WORDS"}}`,
			"search_result", `{"type":"search_result","source":"https://example.com","title":"t","content":[{"type":"text","text":"WORDS"}]}`,
			"container_upload", `{"type":"container_upload","file_id":"file_1"}`,
			"a_block_of_tomorrow", `{"type":"a_block_of_tomorrow","text":"of tomorrow"}`,
		),
		history("messages[1].content[0]", "", assistantBlocksFrame,
			"text", `{"type":"text","text":"WORDS"}`,
			"server_tool_use", `{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"WORDS"}}`,
			"web_search_tool_result", `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"WORDS","url":"https://example.com","encrypted_content":"x"}]}`,
			"web_fetch_tool_result", `{"type":"web_fetch_tool_result","tool_use_id":"s1","content":{"type":"web_fetch_result","url":"https://example.com","content":{"type":"document","source":{"type":"text","media_type":"text/plain","data":"WORDS"}}}}`,
			"advisor_tool_result", `{"type":"advisor_tool_result","tool_use_id":"s1","content":{"type":"advisor_result","text":"WORDS"}}`,
			"code_execution_tool_result", `{"type":"code_execution_tool_result","tool_use_id":"s1","content":{"type":"code_execution_result","stdout":"WORDS","stderr":"","return_code":0,"content":[]}}`,
			"bash_code_execution_tool_result", `{"type":"bash_code_execution_tool_result","tool_use_id":"s1","content":{"type":"bash_code_execution_result","stdout":"WORDS","stderr":"","return_code":0,"content":[]}}`,
			"text_editor_code_execution_tool_result", `{"type":"text_editor_code_execution_tool_result","tool_use_id":"s1","content":{"type":"text_editor_code_execution_view_result","content":"WORDS","file_type":"text"}}`,
			"tool_search_tool_result", `{"type":"tool_search_tool_result","tool_use_id":"s1","content":{"type":"tool_search_tool_search_result","tool_references":[{"type":"tool_reference","tool_name":"WORDS"}]}}`,
			"mcp_tool_use", `{"type":"mcp_tool_use","id":"s1","server_name":"files","name":"read","input":{"path":"WORDS"}}`,
			"mcp_tool_result", `{"type":"mcp_tool_result","tool_use_id":"s1","is_error":false,"content":[{"type":"text","text":"WORDS"}]}`,
			"compaction", `{"type":"compaction","content":"WORDS"}`,
			"mcp_tool_listing", `{"type":"mcp_tool_listing","mcp_server_name":"files","tools":[]}`,
			"fallback", `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`,
			"a_block_of_tomorrow", `{"type":"a_block_of_tomorrow","text":"of tomorrow"}`,
		),
		history("messages[1].content[0]", "tools", systemBlocksFrame,
			"tool_addition", `{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"g","description":"WORDS","input_schema":{"type":"object"}}}}`,
		),
		history("messages[1]", "messages.thinking", assistantBlocksFrame,
			"thinking", `{"type":"thinking","thinking":"WORDS","signature":"sig"}`,
			"thinking", `{"type":"thinking","thinking":"WORDS","signature":""}`,
			"redacted_thinking", `{"type":"redacted_thinking","data":"V09SRFNX"}`,
		),
		history("messages[1].content[0]", "", systemBlocksFrame,
			"tool_addition", `{"type":"tool_addition","tool":{"type":"tool_reference","name":"f"}}`,
			"tool_removal", `{"type":"tool_removal","tool":{"type":"tool_reference","name":"f"}}`,
		),
		history("messages[1].content[0]", "", assistantBlocksFrame,
			"tool_use", `{"type":"tool_use","id":"t1","name":"f","input":{"a":"WORDS"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}`,
			"tool_result", `{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"WORDS"}`,
		),
		history("messages[2].content[0].content[0]", "", resultBlocksFrame,
			"text", `{"type":"text","text":"WORDS"}`,
			"image", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"V09SRFNX"}}`,
			"document", `{"type":"document","source":{"type":"text","media_type":"text/plain","data":"WORDS"}}`,
			"search_result", `{"type":"search_result","source":"https://example.com","title":"t","content":[{"type":"text","text":"WORDS"}]}`,
			"tool_reference", `{"type":"tool_reference","tool_name":"WORDS"}`,
			"browser_state", `{"type":"browser_state","tabs":[{"tab_id":1,"title":"WORDS","url":"https://example.com","active":true}]}`,
		),
	),
	api.DialectGemini: join(
		history("contents[0].parts[0]", "", userPiecesFrame,
			"text", `{"text":"WORDS"}`,
			"inlineData", `{"inlineData":{"mimeType":"image/png","data":"V09SRFNX"}}`,
			"fileData", `{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/WORDS.png"}}`,
			"audioTranscription", `{"audioTranscription":{"text":"WORDS"}}`,
			"partOfTomorrow", `{"partOfTomorrow":{"text":"of tomorrow"}}`,
		),
		history("contents[1].parts[0]", "", modelPiecesFrame,
			"text", `{"text":"WORDS"}`,
			"inlineData", `{"inlineData":{"mimeType":"image/png","data":"V09SRFNX"}}`,
			"executableCode", `{"executableCode":{"language":"PYTHON","code":"print('WORDS')"}}`,
			"codeExecutionResult", `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"WORDS"}}`,
			"toolCall", `{"toolCall":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["WORDS"]}}}`,
			"toolResponse", `{"toolResponse":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","response":{"text":"WORDS"}}}`,
			"functionCall", `{"functionCall":{"name":"f","args":{"a":"WORDS"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"done"}}}`,
			"functionResponse", `{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"WORDS"}}}`,
		),
		history("contents[0].parts[0]", "contents.parts.mediaResolution", userPiecesFrame,
			"mediaResolution", `{"inlineData":{"mimeType":"image/png","data":"aWNvbg=="},"mediaResolution":{"level":"MEDIA_RESOLUTION_MEDIUM"}}`,
		),
		history("contents[0].parts[0]", "contents.parts.videoMetadata", userPiecesFrame,
			"videoMetadata", `{"inlineData":{"mimeType":"video/mp4","data":"aWNvbg=="},"videoMetadata":{"startOffset":"2s"}}`,
		),
		history("contents[0].parts[0]", "contents.parts.mediaProcessing", userPiecesFrame,
			"mediaProcessing", `{"inlineData":{"mimeType":"image/png","data":"aWNvbg=="},"mediaProcessing":{"mode":"x"}}`,
		),
		history("contents[0].parts[0]", "contents.parts.partMetadata", userPiecesFrame,
			"partMetadata", `{"text":"Hello","partMetadata":{"a":"b"}}`,
		),
		history("contents[0].parts[0]", "contents.parts.speechMetadata", userPiecesFrame,
			"speechMetadata", `{"text":"Hello","speechMetadata":{"a":"b"}}`,
		),
		history("contents[1].parts[0]", "contents.parts.thought", modelPiecesFrame,
			"thought", `{"text":"WORDS","thought":true}`,
			"thoughtSignature", `{"text":"WORDS","thought":true,"thoughtSignature":"c2ln"}`,
		),
	),
	api.DialectConverse: join(
		history("messages[0].content[0]", "", converseUserFrame,
			"text", `{"text":"WORDS"}`,
			"image", `{"image":{"format":"png","source":{"bytes":"V09SRFNX"}}}`,
			"document", `{"document":{"format":"pdf","name":"a","source":{"bytes":"V09SRFNX"}}},{"text":"Hello"}`,
			"video", `{"video":{"format":"mp4","source":{"bytes":"V09SRFNX"}}}`,
			"audio", `{"audio":{"format":"wav","source":{"bytes":"V09SRFNX"}}}`,
			"guardContent", `{"guardContent":{"text":{"text":"WORDS","qualifiers":["query"]}}}`,
			"guardContent", `{"guardContent":{"image":{"format":"png","source":{"bytes":"V09SRFNX"}}}}`,
			"searchResult", `{"searchResult":{"source":"https://example.com","title":"t","content":[{"text":"WORDS"}],"citations":{"enabled":true}}}`,
			"toolAddition", `{"toolAddition":{"tool":{"name":"f"}}}`,
			"toolRemoval", `{"toolRemoval":{"tool":{"name":"f"}}}`,
			"blockOfTomorrow", `{"blockOfTomorrow":{"text":"of tomorrow"}}`,
		),
		history("messages[0].content[0]", "cachePoint", converseUserFrame,
			"cachePoint", `{"cachePoint":{"type":"default"}},{"text":"Hello"}`,
			"cachePoint", `{"text":"Hello"},{"cachePoint":{"type":"default"}}`,
		),
		history("messages[1].content[0]", "", converseAssistantFrame,
			"text", `{"text":"WORDS"}`,
			"image", `{"image":{"format":"png","source":{"bytes":"V09SRFNX"}}}`,
			"citationsContent", `{"citationsContent":{"content":[{"text":"WORDS"}],"citations":[{"title":"t","location":{"web":{"url":"https://example.com"}}}]}}`,
			"toolUse", `{"toolUse":{"toolUseId":"t1","name":"f","input":{"a":"WORDS"}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"done"}]}}`,
			"toolUse", `{"toolUse":{"toolUseId":"t1","name":"nova_grounding","type":"server_tool_use","input":{"query":"WORDS"}}}`,
			"toolResult", `{"toolResult":{"toolUseId":"t1","type":"nova_grounding_result","content":[{"json":{"text":"WORDS"}}]}}`,
			"toolResult", `{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"WORDS"}]}}`,
		),
		history("messages[1].content[0]", "messages.reasoningContent", converseAssistantFrame,
			"reasoningContent", `{"reasoningContent":{"reasoningText":{"text":"WORDS","signature":"sig"}}}`,
			"reasoningContent", `{"reasoningContent":{"redactedContent":"V09SRFNX"}}`,
		),
		history("messages[2].content[0].toolResult.content[0]", "", converseResultFrame,
			"text", `{"text":"WORDS"}`,
			"json", `{"json":{"a":"WORDS"}}`,
			"image", `{"image":{"format":"png","source":{"bytes":"V09SRFNX"}}}`,
			"document", `{"document":{"format":"txt","name":"a","source":{"text":"WORDS"}}}`,
			"video", `{"video":{"format":"mp4","source":{"bytes":"V09SRFNX"}}}`,
			"searchResult", `{"searchResult":{"source":"https://example.com","title":"t","content":[{"text":"WORDS"}],"citations":{"enabled":true}}}`,
		),
		history("system[0]", "", converseSystemFrame,
			"text", `{"text":"WORDS"}`,
			"guardContent", `{"guardContent":{"text":{"text":"WORDS"}}}`,
		),
		history("system[0]", "cachePoint", converseSystemFrame, "cachePoint", `{"cachePoint":{"type":"default"}},{"text":"Hello"}`),
	),
}

func join(lists ...[]historySample) (all []historySample) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
