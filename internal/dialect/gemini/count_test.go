package gemini_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/testing/dialecttest"
)

func TestTokensAreAskedForInTheFormOfTheHost(t *testing.T) {
	const request = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"s"}]},"safetySettings":[{"category":"c","threshold":"t"}],"generationConfig":{"temperature":0.5}}`
	for _, tt := range []struct {
		name, body string
		to         dialect.RequestTarget
		want       string
	}{
		{"gemini api", request, dialecttest.TargetOf("google", "models/gemini-2.5-flash"),
			`x{"generateContentRequest":{"model":"models/gemini-2.5-flash","systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"temperature":0.5}}}`},
		{"vertex", `{"generateContentRequest":` + request + `}`, dialecttest.TargetOf("vertex-ai", "gemini-2.5-flash"),
			`x{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"temperature":0.5}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := gemini.Dialect{}.DecodeCountRequest([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			body, fates, err := gemini.Dialect{}.EncodeCountRequest([]byte("x"), r, tt.to)
			if err != nil || string(body) != tt.want || fates != nil {
				t.Errorf("EncodeCountRequest =\n%s, %v, %v, want\n%s", body, fates, err, tt.want)
			}
		})
	}
	if got := string(gemini.Dialect{}.EncodeCountResponse([]byte("x"), 7)); got != `x{"totalTokens":7}` {
		t.Errorf("EncodeCountResponse = %s", got)
	}
	for response, want := range map[string]int64{`{"totalTokens":12,"promptTokensDetails":[]}`: 12, `{}`: -1, `{`: -1} {
		n, err := gemini.Dialect{}.DecodeCountResponse([]byte(response))
		if (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("DecodeCountResponse(%s) = %d, %v, want %d", response, n, err, want)
		}
	}
}

func TestAQuestionForTokensMustHoldARequest(t *testing.T) {
	for body, wrong := range map[string]bool{
		`{"contents":[{"parts":[{"text":"a"}]}]}`: false, `{"generateContentRequest":{}}`: false, `{"generate_content_request":{}}`: false,
		`{}`: true, `{"contents":[]}`: true,
	} {
		var doc jsonedit.Doc
		if err := doc.Scan([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := (gemini.Dialect{}).Check(api.GenerateCount, &doc); (err != nil) != wrong {
			t.Errorf("Check(%s) = %v, want an error: %t", body, err, wrong)
		}
	}
}
