package chat_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/chat"
)

// The bodies are in the forms of
// https://platform.openai.com/docs/api-reference/audio/json-object,
// https://platform.openai.com/docs/api-reference/audio/verbose-json-object and
// https://platform.openai.com/docs/api-reference/images/object.
func TestTapCountsImagesAndSeconds(t *testing.T) {
	for _, tt := range []struct {
		name           string
		op             api.Operation
		body           string
		images, millis int64
	}{
		{"usage by duration", api.AudioTranscriptions, `{"text":"hi","usage":{"type":"duration","seconds":9}}`, 0, 9000},
		{"verbose", api.AudioTranscriptions, `{"task":"transcribe","language":"english","duration":8.470000267028809,"text":"hi"}`, 0, 8470},
		{"verbose as text", api.AudioTranslations, `{"duration":"3.25","text":"hi"}`, 0, 3250},
		{"not a duration", api.AudioTranscriptions, `{"duration":"long","usage":{"seconds":-4},"text":"hi"}`, 0, 0},
		{"images", api.Images, `{"created":1,"data":[{"url":"https://example.com/a"},{"b64_json":"AA=="}]}`, 2, 0},
		{"data of another operation", api.Embeddings, `{"data":[{"embedding":[1]}]}`, 0, 0},
		{"data that is not a list", api.ImageEdits, `{"data":{"a":1}}`, 0, 0},
	} {
		tap := chat.Dialect{}.NewTap(tt.op)
		tap.Body([]byte(tt.body))
		if info := tap.Info(); info.Images != tt.images || info.AudioMillis != tt.millis {
			t.Errorf("%s: %d images and %d ms, want %d and %d", tt.name, info.Images, info.AudioMillis, tt.images, tt.millis)
		}
	}
}
