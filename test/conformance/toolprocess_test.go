package conformance

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	signals "os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// toolServerAt names the address at which [TestToolServerProcess] serves in a process of its
// own, "stdio" for its standard input. toolServerLegacy is set if it speaks the legacy era only.
const (
	toolServerAt     = "MODELGATE_TEST_TOOL_SERVER"
	toolServerLegacy = "MODELGATE_TEST_TOOL_SERVER_LEGACY"
)

// TestToolServerProcess is a tool server in a process, which tests can kill and pause. It ends
// with its standard input.
func TestToolServerProcess(t *testing.T) {
	switch at := os.Getenv(toolServerAt); at {
	case "":
	case "stdio":
		serveChild(t)
	default:
		s := toolservertest.New(t)
		s.NoModern = os.Getenv(toolServerLegacy) != ""
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		go http.Serve(l, s)
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
}

// serveChild serves the tool pids over standard input and output, with a helper that outlasts
// it unless somebody ends both.
func serveChild(t *testing.T) {
	helper := exec.Command("sleep", "600")
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "child", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "pids"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		text := strconv.Itoa(os.Getpid()) + " " + strconv.Itoa(helper.Process.Pid)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	signals.Ignore(syscall.SIGTERM)
	s.Run(t.Context(), &mcp.StdioTransport{})
	select {} // it does not end with its standard input
}

// toolProcess is a tool server in a process.
type toolProcess struct {
	at    string // host and port
	env   []string
	run   *exec.Cmd
	alive io.Closer // its standard input
}

// newToolProcess starts a tool server, which ends with the test.
func newToolProcess(t *testing.T, env ...string) *toolProcess {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &toolProcess{at: free.Addr().String()}
	free.Close()
	s.env = programtest.Env(append(env, toolServerAt+"="+s.at, programtest.Binary+"="+program, programtest.AllowStale+"=on", "TMPDIR="+t.TempDir())...)
	t.Cleanup(s.kill)
	s.start(t)
	return s
}

// start starts the server, again at the same address.
func (s *toolProcess) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.run = exec.Command(self, "-test.run=^TestToolServerProcess$")
	s.run.Env = s.env
	if s.alive, err = s.run.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.run.Start(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the tool server listens", func() bool {
		c, err := net.Dial("tcp", s.at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// kill ends the server as kill -9 does.
func (s *toolProcess) kill() {
	if s.run == nil {
		return
	}
	s.run.Process.Kill()
	s.run.Wait()
	s.run = nil
}

// pause stops the process, or lets it go on.
func (s *toolProcess) pause(on bool) {
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	s.run.Process.Signal(signal)
}
