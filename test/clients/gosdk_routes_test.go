package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"modelgate/internal/simulator"
)

func asError(err error) (*openai.Error, bool) { return errors.AsType[*openai.Error](err) }

func TestGoClientEmbeds(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	_, text := question("", "embed")
	got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "sim-embed-1", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", text}}, Dimensions: openai.Int(32),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, input := range []string{"a", text} {
		vector := make([]float32, 0, 32)
		for _, f := range got.Data[i].Embedding {
			vector = append(vector, float32(f))
		}
		if diff := cmp.Diff(simulator.Vector(input, 32), vector); diff != "" {
			t.Errorf("embedding of input %d (-want +got):\n%s", i, diff)
		}
	}
	if len(got.Data) != 2 || got.Usage.PromptTokens == 0 {
		t.Errorf("%d embeddings, %d tokens; want 2 and some", len(got.Data), got.Usage.PromptTokens)
	}
}

func TestGoClientSendsAndGetsSound(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	spoken, err := client.Audio.Speech.New(t.Context(), openai.AudioSpeechNewParams{
		Model: "sim-tts", Input: "a few words", Voice: openai.AudioSpeechNewParamsVoiceUnion{OfString: openai.String("alloy")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer spoken.Body.Close()
	sound, err := io.ReadAll(spoken.Body)
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(simulator.Bytes(0, int64(len("a few words"))*256))
	if err != nil || !bytes.Equal(sound, want) || spoken.Header.Get("Content-Type") != "audio/mpeg" {
		t.Errorf("%d bytes of %s, want %d other ones of audio/mpeg (%v)", len(sound), spoken.Header.Get("Content-Type"), len(want), err)
	}
	said, err := client.Audio.Transcriptions.New(t.Context(), openai.AudioTranscriptionNewParams{
		Model: "sim-stt", File: openai.File(bytes.NewReader(sound), "words.mp3", "audio/mpeg"),
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(sound)
	if !strings.Contains(said.Text, "words.mp3") || !strings.Contains(said.Text, hex.EncodeToString(sum[:])) {
		t.Errorf("transcript = %q, want the name and the sum %x", said.Text, sum)
	}
}

func TestGoClientKeepsFiles(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	content := make([]byte, 2<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	file, err := client.Files.New(t.Context(), openai.FileNewParams{
		File: openai.File(bytes.NewReader(content), "batch.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	if err != nil {
		t.Fatal(err)
	}
	if file.Bytes != int64(len(content)) || file.Filename != "batch.jsonl" || file.Purpose != "batch" {
		t.Errorf("file = %s, want %d bytes of batch.jsonl for batch", file.RawJSON(), len(content))
	}
	res, err := client.Files.Content(t.Context(), file.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if back, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(back, content) {
		t.Errorf("%d bytes came back (%v), want the %d that went up", len(back), err, len(content))
	}
	if gone, err := client.Files.Delete(t.Context(), file.ID); err != nil || !gone.Deleted {
		t.Errorf("delete = %v, %v", gone, err)
	}
	_, err = client.Files.Get(t.Context(), file.ID)
	if apiError, ok := asError(err); !ok || apiError.StatusCode != http.StatusNotFound || apiError.Code != "not_found" {
		t.Errorf("reading a deleted file: %v, want 404 not_found", err)
	}
}

func TestGoClientListsModels(t *testing.T) {
	t.Parallel()
	client := openai.NewClient(option.WithBaseURL(stage.url), option.WithAPIKey(gatewayKey))
	var ids []string
	for page := client.Models.ListAutoPaging(t.Context()); page.Next(); {
		ids = append(ids, page.Current().ID)
	}
	for _, want := range []string{"@sim/sim-1", "@alone/sim-1"} {
		if !slices.Contains(ids, want) {
			t.Errorf("the models are %q, want %s among them", ids, want)
		}
	}
}

func TestGoClientGetsErrors(t *testing.T) {
	t.Parallel()
	wrongKey := option.WithHeader("x-gateway-api-key", "mg-wrong")
	for _, tt := range []struct {
		name   string
		model  string
		option option.RequestOption
		want   openai.Error
	}{
		{"of a wrong key", "sim-1", wrongKey, openai.Error{StatusCode: 401, Param: "x-gateway-api-key"}},
		{"of a parameter out of range", "sim-1", option.WithJSONSet("temperature", 9), openai.Error{StatusCode: 400, Param: "temperature"}},
		{"of the provider", "sim-1+context-length", nil, openai.Error{StatusCode: 400, Param: "messages", Code: "context_length_exceeded"}},
		{"of a rate limit", "sim-1+status=429", nil, openai.Error{StatusCode: 429, Code: "rate_limit_exceeded"}},
		{"of a provider that fails", "sim-1+status=500", nil, openai.Error{StatusCode: 500}},
		{"of a provider that is not there", "sim-1+reset", nil, openai.Error{StatusCode: 502}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var more []option.RequestOption
			if tt.option != nil {
				more = append(more, tt.option)
			}
			client := viaGateway(more...)
			params, _ := question(tt.model, "error")
			_, err := client.Chat.Completions.New(t.Context(), params)
			got, ok := asError(err)
			if !ok {
				t.Fatalf("error = %v, want one of the API", err)
			}
			if got.StatusCode != tt.want.StatusCode || got.Param != tt.want.Param || tt.want.Code != "" && got.Code != tt.want.Code {
				t.Errorf("error = %d, param %q, code %q; want %d, %q, %q: %s", got.StatusCode, got.Param, got.Code,
					tt.want.StatusCode, tt.want.Param, tt.want.Code, got.RawJSON())
			}
			if got.Message == "" || got.Type == "" {
				t.Errorf("error without message or type: %s", got.RawJSON())
			}
		})
	}
}

// Left to itself the client waits half a second at most.
func TestGoClientRetriesARateLimit(t *testing.T) {
	t.Parallel()
	_, unique := question("", "")
	client := viaGateway(option.WithMaxRetries(2))
	params, text := question(strings.TrimSpace(unique)+"+status=429+retry-after-ms=900+times=1", "retry")
	began := time.Now()
	response, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Choices[0].Message.Content; !strings.HasPrefix(got, "echo: "+text) {
		t.Errorf("answer = %q, want an echo of %q", got, text)
	}
	if n, took := len(mustArrive(t, text)), time.Since(began); n != 2 || took < 900*time.Millisecond {
		t.Errorf("%d requests in %s, want 2 with the 900 ms between them that the provider asked for", n, took)
	}
}

func TestGoClientBringsItsOwnCredential(t *testing.T) {
	t.Parallel()
	client := viaGateway(option.WithAPIKey(providerKey), option.WithHeader("x-gateway-api-key", gatewayKey),
		option.WithHeader("x-gateway-provider", "openai"), option.WithHeader("x-gateway-custom-host", stage.simURL))
	params, text := question("sim-1", "own")
	var res *http.Response
	if _, err := client.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&res)); err != nil {
		t.Fatal(err)
	}
	if got, want := mustArrive(t, text)[0].Headers["authorization"], "Bearer "+providerKey; got != want {
		t.Errorf("authorization at the provider = %q, want %q", got, want)
	}
	if got := res.Header.Get("x-gateway-provider"); got != "openai" {
		t.Errorf("x-gateway-provider = %q, want openai", got)
	}
}
