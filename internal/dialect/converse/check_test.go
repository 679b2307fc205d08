package converse_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/format/jsonedit"
)

func TestCheckRefusesWhatNoModelTakes(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"a request", `{"messages":[{"role":"user","content":[{"text":"a"}]}],"inferenceConfig":{"maxTokens":1,"temperature":1,"topP":0},"toolConfig":{"tools":[{}],"toolChoice":{"auto":{}}}}`, ""},
		{"a prompt of the provider", `{"promptVariables":{"a":{"text":"b"}}}`, ""},
		{"what is new", `{"messages":[],"somethingNew":5}`, ""},
		{"messages that are not an array", `{"messages":"a"}`, "messages"},
		{"a message that is not an object", `{"messages":["a"]}`, "messages[0]"},
		{"no role", `{"messages":[{"content":[]}]}`, "messages[0].role"},
		{"another role", `{"messages":[{"role":"system","content":[]}]}`, "messages[0].role"},
		{"no content", `{"messages":[{"role":"user"}]}`, "messages[0].content"},
		{"content that is a string", `{"messages":[{"role":"user","content":"a"}]}`, "messages[0].content"},
		{"no tokens", `{"inferenceConfig":{"maxTokens":0}}`, "inferenceConfig.maxTokens"},
		{"too warm", `{"inferenceConfig":{"temperature":1.5}}`, "inferenceConfig.temperature"},
		{"stop that is a string", `{"inferenceConfig":{"stopSequences":"a"}}`, "inferenceConfig.stopSequences"},
		{"a tool that is a string", `{"toolConfig":{"tools":["a"]}}`, "toolConfig.tools[0]"},
		{"a tier that is a string", `{"serviceTier":"flex"}`, "serviceTier"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var doc jsonedit.Doc
			if err := doc.Scan([]byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := (converse.Dialect{}).Check(api.Converse, &doc); err != nil {
				got = err.Param
			}
			if got != tt.want {
				t.Errorf("Check refused %q, want %q", got, tt.want)
			}
		})
	}
}
