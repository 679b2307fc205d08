package clients

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"modelgate/internal/records/reqlog"
)

// viaGateway returns a client that knows the managed provider @sim and does not
// retry, so that a case sees each response.
func viaGateway(more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(stage.url),
		option.WithAPIKey(gatewayKey),
		option.WithHeader("x-gateway-provider", "@sim"),
		option.WithMaxRetries(0),
	}, more...)...)
}

// straight returns a client of the provider itself, to compare with.
func straight() openai.Client {
	return openai.NewClient(option.WithBaseURL(stage.simURL), option.WithAPIKey(providerKey), option.WithMaxRetries(0))
}

// question returns the parameters of a request that no other one is like.
func question(model, about string) (openai.ChatCompletionNewParams, string) {
	text := about + " " + reqlog.NewID(time.Now()).String()
	return openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}, text
}

// mustArrive returns the requests at the provider that hold the text.
func mustArrive(t *testing.T, text string) []seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := marked(ctx, stage.sim, text)
	if len(list) == 0 {
		t.Fatalf("no request with %q has come to the provider", text)
	}
	return list
}

// mustLog returns what the gateway recorded of a response, which may come a
// moment after its last byte.
func mustLog(t *testing.T, res *http.Response) map[string]any {
	t.Helper()
	client := viaGateway()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var entry map[string]any
		err := client.Get(ctx, "logs/"+res.Header.Get("x-gateway-request-id"), nil, &entry)
		if err == nil {
			return entry
		}
		if apiError, ok := asError(err); !ok || apiError.StatusCode != http.StatusNotFound {
			t.Fatalf("reading the log entry: %v", err)
		}
	}
}

func TestGoClientGetsAResponse(t *testing.T) {
	t.Parallel()
	params, text := question("sim-1", "hello 世界")
	var res *http.Response
	client, direct := viaGateway(), straight()
	got, err := client.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&res))
	if err != nil {
		t.Fatal(err)
	}
	want, err := direct.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.RawJSON(), got.RawJSON()); diff != "" {
		t.Errorf("the response is not the provider's (-want +got):\n%s", diff)
	}
	if response := got.Choices[0].Message.Content; !strings.HasPrefix(response, "echo: "+text) {
		t.Errorf("the response is %q, want an echo of %q", response, text)
	}
	requests := mustArrive(t, text)
	if diff := cmp.Diff(requests[1].Body, requests[0].Body); diff != "" {
		t.Errorf("the request is not the client's (-want +got):\n%s", diff)
	}
	if got, want := requests[0].Headers["authorization"], "Bearer "+providerKey; got != want {
		t.Errorf("authorization at the provider = %q, want %q", got, want)
	}
	if entry := mustLog(t, res); entry["status"] != 200.0 || entry["provider_slug"] != "sim" {
		t.Errorf("recorded status %v, slug %v; want 200, sim", entry["status"], entry["provider_slug"])
	}
}

func TestGoClientReadsAStream(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	params, _ := question("sim-1", "flow 🌊")
	plain, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, model string }{
		{"as it should be", "sim-1"},
		{"with comments, CRLF and a byte order mark", "sim-1+comments+crlf+bom"},
		{"without its end", "sim-1+no-done"},
		{"without its last blank line", "sim-1+no-done+no-blank"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			params := params
			params.Model = tt.model
			params.StreamOptions.IncludeUsage = openai.Bool(true)
			stream := client.Chat.Completions.NewStreaming(t.Context(), params)
			acc := openai.ChatCompletionAccumulator{}
			for stream.Next() {
				if !acc.AddChunk(stream.Current()) {
					t.Fatalf("the accumulator takes no more: %s", stream.Current().RawJSON())
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if len(acc.Choices) != 1 {
				t.Fatalf("%d choices, want 1", len(acc.Choices))
			}
			got, want := acc.Choices[0], plain.Choices[0]
			if got.Message.Content != want.Message.Content || got.FinishReason != want.FinishReason {
				t.Errorf("streamed %q (%s), want %q (%s)", got.Message.Content, got.FinishReason, want.Message.Content, want.FinishReason)
			}
			if acc.Usage.CompletionTokens != plain.Usage.CompletionTokens {
				t.Errorf("usage of %d completion tokens, want %d", acc.Usage.CompletionTokens, plain.Usage.CompletionTokens)
			}
		})
	}
}

// A stream that ends as if it were whole passes a part off as the response.
func TestGoClientSeesThatAStreamBroke(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	for _, fault := range []string{"cut=5", "cut=5,clean", "error-event=5"} {
		t.Run(fault, func(t *testing.T) {
			params, _ := question("sim-1+"+fault, "broken")
			stream := client.Chat.Completions.NewStreaming(t.Context(), params)
			chunks := 0
			for stream.Next() {
				chunks++
			}
			if chunks == 0 || stream.Err() == nil {
				t.Errorf("%d chunks, then %v; want some, then an error", chunks, stream.Err())
			}
		})
	}
}

func TestGoClientLeavesAStream(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	params, text := question("sim-1+pace=20ms+tokens=2000", "leave")
	var res *http.Response
	stream := client.Chat.Completions.NewStreaming(t.Context(), params, option.WithResponseInto(&res))
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	if !mustArrive(t, text)[0].Canceled {
		t.Error("the provider went on after the client left")
	}
	if entry := mustLog(t, res); entry["status"] != 499.0 {
		t.Errorf("recorded status %v, want 499", entry["status"])
	}
}

var weatherTool = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name: "weather",
	Parameters: openai.FunctionParameters{
		"type":       "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"}, "days": map[string]any{"type": "integer", "minimum": 3}},
		"required":   []string{"city", "days"},
	},
})

var clockTool = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name:       "clock",
	Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"utc": map[string]any{"type": "boolean"}}},
})

func TestGoClientCallsTools(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	params, text := question("sim-1", "Ærø \"x\"")
	params.Tools = []openai.ChatCompletionToolUnionParam{weatherTool, clockTool}
	plain, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	calls := plain.Choices[0].Message.ToolCalls
	if len(calls) != 2 || calls[0].Function.Name != "weather" || calls[1].Function.Name != "clock" {
		t.Fatalf("calls = %s, want weather and clock", plain.RawJSON())
	}
	var arguments struct {
		City string
		Days int
	}
	if err := json.Unmarshal([]byte(calls[0].Function.Arguments), &arguments); err != nil || arguments.City != text || arguments.Days != 3 {
		t.Errorf("arguments = %s (%v), want city %q and 3 days", calls[0].Function.Arguments, err, text)
	}

	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	for i, call := range acc.Choices[0].Message.ToolCalls {
		if call.ID != calls[i].ID || call.Function.Name != calls[i].Function.Name || call.Function.Arguments != calls[i].Function.Arguments {
			t.Errorf("streamed call %d is %s %s(%s), want %s", i, call.ID, call.Function.Name, call.Function.Arguments, calls[i].RawJSON())
		}
	}
	if got := len(acc.Choices[0].Message.ToolCalls); got != len(calls) {
		t.Errorf("%d streamed calls, want %d", got, len(calls))
	}

	params.Messages = append(params.Messages, plain.Choices[0].Message.ToParam(),
		openai.ToolMessage("4 degrees", calls[0].ID), openai.ToolMessage("noon", calls[1].ID))
	response, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Choices[0].Message.Content; !strings.HasPrefix(got, "echo: "+text) {
		t.Errorf("the response after the tools is %q, want an echo of %q", got, text)
	}
}

func TestGoClientGetsJSONOfASchema(t *testing.T) {
	t.Parallel()
	client := viaGateway()
	params, text := question("sim-1", "schema")
	params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
		Name: "answer", Strict: openai.Bool(true),
		Schema: map[string]any{"type": "object", "properties": map[string]any{"said": map[string]any{"type": "string"}}},
	}}
	response, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Said string }
	if err := json.Unmarshal([]byte(response.Choices[0].Message.Content), &got); err != nil || got.Said != text {
		t.Errorf("answer = %s (%v), want said %q", response.Choices[0].Message.Content, err, text)
	}
}
