package clients

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"

	"modelgate/internal/records/reqlog"
)

// messagesTargets are a provider of each dialect. What a model can do is known
// by its name.
var messagesTargets = []struct {
	dialect, model string
	thinks         bool // and gives signed thinking back
}{
	{"chat", "@chat/sim-1", false},
	{"messages", "@ant/claude-sonnet-4-5", true},
	{"gemini", "@gem/gemini-2.5-flash", true},
	{"converse", "@aws/amazon.nova-pro-v1:0", false},
	{"claude at aws", "@aws/anthropic.claude-sonnet-4-5-20250929-v1:0", true},
	{"cohere", "@coh/sim-1", false},
}

func anthropicClient(more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(stage.url, "/v1")),
		option.WithAPIKey(gatewayKey),
		option.WithMaxRetries(0),
	}, more...)...)
}

// inquiry returns the parameters of a request that no other one is like.
func inquiry(model, about string) (anthropic.MessageNewParams, string) {
	text := about + " " + reqlog.NewID(time.Now()).String()
	return anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 4000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))},
	}, text
}

// ask asks for a complete response, or puts a stream together.
func ask(t *testing.T, streamed bool, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	t.Helper()
	client := anthropicClient()
	if !streamed {
		return client.Messages.New(t.Context(), params)
	}
	stream := client.Messages.NewStreaming(t.Context(), params)
	defer stream.Close()
	message := new(anthropic.Message)
	for stream.Next() {
		if err := message.Accumulate(stream.Current()); err != nil {
			return message, err
		}
	}
	return message, stream.Err()
}

func textOf(m *anthropic.Message) string {
	var text strings.Builder
	for _, block := range m.Content {
		text.WriteString(block.Text)
	}
	return text.String()
}

func TestGoMessagesClientReadsTheSameStreamed(t *testing.T) {
	t.Parallel()
	for _, tt := range messagesTargets {
		t.Run(tt.dialect, func(t *testing.T) {
			t.Parallel()
			params, text := inquiry(tt.model, "hello 世界")
			whole, err := ask(t, false, params)
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(whole); !strings.HasPrefix(got, "echo: "+text) || whole.StopReason != anthropic.StopReasonEndTurn {
				t.Errorf("the response is %q, stop reason %s; want an echo of %q and end_turn", got, whole.StopReason, text)
			}
			streamed, err := ask(t, true, params)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(textOf(whole), textOf(streamed)); diff != "" {
				t.Errorf("the streamed text differs (-whole +streamed):\n%s", diff)
			}
			if whole.Usage.OutputTokens < 64 || whole.Usage.OutputTokens != streamed.Usage.OutputTokens || whole.Usage.InputTokens != streamed.Usage.InputTokens {
				t.Errorf("usage = %s whole and %s streamed", whole.Usage.RawJSON(), streamed.Usage.RawJSON())
			}
		})
	}
}

func TestGoMessagesClientGoesTwoTurnsWithToolsAndThinking(t *testing.T) {
	t.Parallel()
	for _, tt := range messagesTargets {
		for _, streamed := range []bool{false, true} {
			t.Run(tt.dialect+map[bool]string{false: " plain", true: " streamed"}[streamed], func(t *testing.T) {
				t.Parallel()
				params, text := inquiry(tt.model, `Ærø "quoted"`)
				params.Thinking = anthropic.ThinkingConfigParamOfEnabled(2000)
				params.Tools = []anthropic.ToolUnionParam{offer("weather", "city"), offer("clock", "zone")}
				first, err := ask(t, streamed, params)
				if err != nil {
					t.Fatal(err)
				}
				var results []anthropic.ContentBlockParamUnion
				var thought strings.Builder
				for _, block := range first.Content {
					switch block.Type {
					case "tool_use":
						if !strings.Contains(string(block.Input), strings.ReplaceAll(text, `"`, `\"`)) {
							t.Errorf("the call of %s has the arguments %s", block.Name, block.Input)
						}
						results = append(results, anthropic.NewToolResultBlock(block.ID, "of "+block.Name, false))
					case "thinking":
						thought.WriteString(block.Thinking + block.Signature)
					}
				}
				if len(results) != 2 || first.StopReason != anthropic.StopReasonToolUse || tt.thinks && thought.String() == "" {
					t.Fatalf("the first turn is %s", first.RawJSON())
				}
				params.Messages = append(params.Messages, first.ToParam(), anthropic.NewUserMessage(results...))
				params.Model += "+report"
				second, err := ask(t, streamed, params)
				if err != nil {
					t.Fatal(err)
				}
				var report struct {
					Results  []struct{ Text string }
					Thinking []struct{ Text, Signature string }
				}
				if err := json.Unmarshal([]byte(textOf(second)), &report); err != nil {
					t.Fatal(err)
				}
				if len(report.Results) != 2 || report.Results[0].Text != "of weather" || report.Results[1].Text != "of clock" {
					t.Errorf("the results at the provider are %v", report.Results)
				}
				if tt.thinks && tt.dialect != "gemini" && (len(report.Thinking) != 1 || report.Thinking[0].Text+report.Thinking[0].Signature != thought.String()) {
					t.Errorf("the thinking at the provider is %v, want %q", report.Thinking, thought.String())
				}
			})
		}
	}
}

func offer(name, argument string) anthropic.ToolUnionParam {
	return anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
		Properties: map[string]any{argument: map[string]string{"type": "string"}},
		Required:   []string{argument},
	}, name)
}

func TestGoMessagesClientRaisesErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range messagesTargets {
		for _, fault := range []struct {
			name, word string
			status     int
		}{
			{"status=429", "rate_limit_error", 429},
			{"status=529", "overloaded_error", 529},
			{"context-length", "invalid_request_error", 400},
		} {
			t.Run(tt.dialect+" "+fault.name, func(t *testing.T) {
				t.Parallel()
				params, _ := inquiry(tt.model+"+"+fault.name, "fails")
				for _, streamed := range []bool{false, true} {
					_, err := ask(t, streamed, params)
					e, ok := errors.AsType[*anthropic.Error](err)
					if !ok {
						t.Fatalf("err = %v, want one of the client's", err)
					}
					if e.StatusCode != fault.status || !strings.Contains(e.RawJSON(), fault.word) {
						t.Errorf("status %d: %s; want %d and %s", e.StatusCode, e.RawJSON(), fault.status, fault.word)
					}
				}
			})
		}
	}
}

func TestGoMessagesClientSeesABrokenStream(t *testing.T) {
	t.Parallel()
	for _, tt := range messagesTargets {
		for _, fault := range []string{"error-event=6", "cut=6", "cut=6,clean"} {
			t.Run(tt.dialect+" "+fault, func(t *testing.T) {
				t.Parallel()
				params, _ := inquiry(tt.model+"+"+fault, "broken")
				message, err := ask(t, true, params)
				if err == nil || textOf(message) == "" {
					t.Errorf("err = %v after %q, want an error after some text", err, textOf(message))
				}
			})
		}
	}
}

func TestGoMessagesClientCountsTokensAndListsModels(t *testing.T) {
	t.Parallel()
	client := anthropicClient()
	params, _ := inquiry("@ant/sim-1", "count")
	count, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: params.Model, Messages: params.Messages})
	if err != nil {
		t.Fatal(err)
	}
	message, err := client.Messages.New(t.Context(), params)
	if err != nil || count.InputTokens != message.Usage.InputTokens {
		t.Errorf("counted %d tokens, billed %d (%v)", count.InputTokens, message.Usage.InputTokens, err)
	}

	models := client.Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{Limit: anthropic.Int(2)})
	seen := map[string]bool{}
	for models.Next() {
		m := models.Current()
		if seen[m.ID] || m.DisplayName == "" {
			t.Errorf("the model %q is listed twice or has no name to display", m.ID)
		}
		seen[m.ID] = true
	}
	if err := models.Err(); err != nil || !seen["@ant/sim-5"] || !seen["@sim/sim-1"] {
		t.Errorf("listed %v (%v), want @ant/sim-5 and @sim/sim-1 among them", seen, err)
	}
}
