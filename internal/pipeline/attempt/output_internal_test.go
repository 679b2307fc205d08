package attempt

import (
	"testing"

	"modelgate/api"
)

func TestOnlyOperationsWithoutTextHaveNoOutput(t *testing.T) {
	for op, want := range map[api.Operation]bool{
		api.Embeddings: true, api.GenerateEmbed: true, api.GenerateEmbedBatch: true, api.Moderations: true, api.Rerank: true,
		api.Chat: false, api.Completions: false, api.Messages: false, api.Responses: false, api.Images: false, api.AudioSpeech: false, api.Proxy: false,
	} {
		if got := writesNothing(op); got != want {
			t.Errorf("responses to %s have no output: %t, want %t", op, got, want)
		}
	}
}
