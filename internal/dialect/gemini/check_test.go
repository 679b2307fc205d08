package gemini_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/jsonedit"
)

func TestCheck(t *testing.T) {
	for body, param := range map[string]string{
		`{"contents":[{"parts":[{"text":"a"}]}]}`:                                   "",
		`{"contents":{"parts":{"text":"a"}},"system_instruction":"s","tools":null}`: "",
		`{"contents":[{}],"generationConfig":{"topK":"5","temperature":null}}`:      "",
		`{"contents":[{}],"anything":1}`:                                            "",
		`{}`:                                                                        "contents",
		`{"contents":null}`:                                                         "contents",
		`{"contents":"a"}`:                                                          "contents",
		`{"contents":[]}`:                                                           "contents",
		`{"contents":[{},1]}`:                                                       "contents[1]",
		`{"contents":[{}],"tools":"x"}`:                                             "tools",
		`{"contents":[{}],"system_instruction":1}`:                                  "system_instruction",
		`{"contents":[{}],"generation_config":{"top_p":true}}`:                      "generation_config.top_p",
		`{"contents":[{}],"generationConfig":{"responseLogprobs":"yes"}}`:           "generationConfig.responseLogprobs",
	} {
		var doc jsonedit.Doc
		if err := doc.Scan([]byte(body)); err != nil {
			t.Fatal(err)
		}
		err := gemini.Dialect{}.Check(api.Generate, &doc)
		got := ""
		if err != nil {
			got = err.Param
		}
		if got != param {
			t.Errorf("Check(%s) = %v, want a refusal of %q", body, err, param)
		}
		if err := (gemini.Dialect{}).Check(api.Chat, &doc); err != nil {
			t.Errorf("Check of another operation = %v, want none", err)
		}
	}
}
