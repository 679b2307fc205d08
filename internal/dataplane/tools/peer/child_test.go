package peer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
)

const (
	helloLine = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"child","version":"1"}}}` + "\n"
	modeName  = "TOOL_CHILD"
)

// TestChild is not a test: it is the tool server that other tests run as a child process.
func TestChild(*testing.T) {
	mode := os.Getenv(modeName)
	if mode == "" {
		return
	}
	defer os.Exit(0)
	if f := os.Getenv("STARTS"); f != "" {
		out, _ := os.OpenFile(f, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		fmt.Fprintln(out, os.Getpid())
		out.Close()
	}
	switch mode {
	case "sdk":
		started, left := make(chan struct{}, 9), make(chan struct{}, 9)
		server := sdkServer(started, left)
		mcp.AddTool(server, &mcp.Tool{Name: "environment"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			folder, _ := os.Getwd()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(os.Environ(), "\n") + "\nfolder=" + folder}}}, nil, nil
		})
		type progress struct {
			Token int `json:"token"`
		}
		mcp.AddTool(server, &mcp.Tool{Name: "progress"}, func(ctx context.Context, r *mcp.CallToolRequest, a progress) (*mcp.CallToolResult, any, error) {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: a.Token, Progress: 1})
			return &mcp.CallToolResult{}, nil, nil
		})
		mcp.AddTool(server, &mcp.Tool{Name: "left"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			<-left
			return &mcp.CallToolResult{}, nil, nil
		})
		server.Run(context.Background(), &mcp.StdioTransport{})
	case "crash":
		fmt.Fprintln(os.Stderr, "crashing with a secret")
	default:
		scripted(mode)
	}
}

// scripted answers initialize, and then does what the mode says with each call.
func scripted(mode string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		line := in.Text()
		id := between(line, `"id":`, `,`)
		switch {
		case strings.Contains(line, `"initialize"`):
			fmt.Println("starting up")
			fmt.Printf(helloLine, id)
		case id == "":
			fmt.Fprintln(os.Stderr, line)
		case mode == "ask":
			fmt.Println(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`)
			in.Scan()
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, in.Text())
		case mode == "exit":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
			return
		case mode == "huge":
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"` + strings.Repeat("x", 1<<20) + `"}}`)
		case mode == "chatty":
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"of ` + id + `"}}`)
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			if !strings.Contains(line, `"slow"`) {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
			}
		case mode == "family":
			child := exec.Command("sleep", "3600")
			child.Start()
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"pid":%d}}`+"\n", id, child.Process.Pid)
		}
	}
}

func between(s, from, to string) string {
	_, rest, _ := strings.Cut(s, from)
	found, _, _ := strings.Cut(rest, to)
	return found
}

// mustStdio returns a server that runs as a child process in a mode, and its options.
func mustStdio(t testing.TB, mode string) (*toolserver.Server, peer.Options) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	starts := filepath.Join(t.TempDir(), "starts")
	s := &toolserver.Server{ID: "server-1", Slug: "child", Transport: toolserver.Stdio, Command: "child"}
	return s, peer.Options{Commands: map[string]peer.Command{"child": {Path: program, Args: []string{"-test.run=^TestChild$"},
		Env: map[string]secret.String{modeName: secret.New(mode), "STARTS": secret.New(starts)}}}}
}

// starts returns the ids of the processes that were started.
func starts(o peer.Options) (ids []int) {
	text, _ := os.ReadFile(o.Commands["child"].Env["STARTS"].Reveal())
	for line := range strings.Lines(string(text)) {
		id, _ := strconv.Atoi(strings.TrimSpace(line))
		ids = append(ids, id)
	}
	return ids
}

func isAlive(pid int) bool {
	state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(state), ") Z ") && syscall.Kill(pid, 0) == nil
}

// lockedBuffer is a buffer for logs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
