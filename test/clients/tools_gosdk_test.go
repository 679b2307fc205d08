package clients

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"modelgate/internal/testing/waittest"
)

// newSDKServer starts a server of the official SDK: one of the modern era, or one of the
// legacy era with sessions.
func newSDKServer(t *testing.T, modern bool) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Instructions: "Greet people."})
	type greeting struct {
		Name string `json:"name"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets somebody."}, func(ctx context.Context, r *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "half"})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello, " + in.Name}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "choose", Description: "Asks for a color."}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which color?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"color": map[string]any{"type": "string"}}}})
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(res.Action, " ", res.Content["color"])}}}, nil, nil
	})
	s.AddResource(&mcp.Resource{Name: "note", URI: "note://one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "note://one", Text: "a note"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "poem"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Write a poem."}}}}, nil
	})
	up := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(up.Close)
	return up.URL
}

// withKey sends the gateway key with each request.
type withKey struct{}

// RoundTrip implements [http.RoundTripper].
func (withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+gatewayKey)
	return http.DefaultTransport.RoundTrip(r)
}

// TestOfficialGoClientUsesServersOfBothEras uses the client of the official SDK with two
// servers behind one address.
func TestOfficialGoClientUsesServersOfBothEras(t *testing.T) {
	g := newToolGateway(t, mustNode(t))
	g.add("new", fmt.Sprintf(`"transport":"http","url":%q`, newSDKServer(t, true)))
	g.add("old", fmt.Sprintf(`"transport":"http","url":%q`, newSDKServer(t, false)))
	ctx := t.Context()
	progress := make(chan string, 8)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "red"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(g.url, "/v1") + "/mcp", HTTPClient: &http.Client{Transport: withKey{}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Logf("the client speaks %s", s.InitializeResult().ProtocolVersion)
	if got := s.InitializeResult().Instructions; strings.Count(got, "Greet people.") != 2 {
		t.Errorf("instructions %q", got)
	}
	tools, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"new__choose", "new__greet", "old__choose", "old__greet"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	for _, name := range []string{"new__greet", "old__greet"} {
		params := &mcp.CallToolParams{Name: name, Arguments: map[string]any{"name": "Ada"}}
		params.SetProgressToken(name)
		res, err := s.CallTool(ctx, params)
		if err != nil || len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != "Hello, Ada" {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if m := waittest.Receive(t, progress, "progress of "+name); m != "half" {
			t.Errorf("%s: progress %q", name, m)
		}
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "old__choose", Arguments: map[string]any{}})
	if err != nil || len(res.Content) != 1 || res.Content[0].(*mcp.TextContent).Text != "accept red" {
		t.Errorf("a question of the older server: %+v, %v", res, err)
	}
	resources, err := s.ListResources(ctx, nil)
	if err != nil || len(resources.Resources) != 2 {
		t.Fatalf("%+v, %v", resources, err)
	}
	for _, r := range resources.Resources {
		read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "a note" {
			t.Errorf("%s: %+v, %v", r.URI, read, err)
		}
	}
	prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "old__poem"})
	if err != nil || len(prompt.Messages) != 1 {
		t.Errorf("%+v, %v", prompt, err)
	}
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "old__nothing"}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		t.Errorf("an unknown tool: %v", err)
	}
}
