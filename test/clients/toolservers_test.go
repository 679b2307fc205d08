package clients

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/waittest"
)

// TestReferenceServerOverEachTransport calls the reference server of the protocol, which is
// made with its TypeScript library.
func TestReferenceServerOverEachTransport(t *testing.T) {
	node := mustNode(t)
	program, err := filepath.Abs(filepath.Join("node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	for mode, transport := range map[string]toolserver.Transport{"stdio": toolserver.Stdio, "streamableHttp": toolserver.HTTP, "sse": toolserver.SSE} {
		t.Run(mode, func(t *testing.T) {
			s := &toolserver.Server{ID: "reference", Slug: "reference", Transport: transport, Command: "reference"}
			p := peer.New(peer.Options{Commands: map[string]peer.Command{"reference": {Path: node, Args: []string{program, mode}}}})
			t.Cleanup(p.Close)
			if transport != toolserver.Stdio {
				s.URL = runReference(t, node, program, mode)
			}
			session, _, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{Capabilities: []byte(`{"elicitation":{}}`)})
			if err != nil {
				t.Fatal(err, errors.Unwrap(err))
			}
			got := call(t, p, s, session, "echo", `{"message":"hello"}`)
			if last := got[len(got)-1]; !strings.Contains(last, `hello`) || !strings.Contains(last, `"id":7`) {
				t.Errorf("echo returned %q", got)
			}
			got = call(t, p, s, session, "trigger-long-running-operation", `{"duration":0.3,"steps":3}`)
			if len(got) != 4 || !strings.Contains(got[0], `"progressToken":"p"`) || !strings.Contains(got[3], "completed") {
				t.Errorf("a long call returned %q", got)
			}
			if transport != toolserver.Stdio { // whose clients share the process
				asks(t, p, s, session)
			}
			if err := p.End(t.Context(), s, peer.Credential{}, session); err != nil {
				t.Error(err)
			}
		})
	}
}

// runReference runs the server until the test ends and returns its address.
func runReference(t *testing.T, node, program, mode string) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, program, mode)
	cmd.Env = programtest.Env("PORT=" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		cmd.Wait()
	})
	waittest.Until(t, "the reference server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	path := map[string]string{"streamableHttp": "/mcp", "sse": "/sse"}[mode]
	return &url.URL{Scheme: "http", Host: address, Path: path}
}

// call calls a tool and returns the messages of the reply.
func call(t *testing.T, p *peer.Peers, s *toolserver.Server, session peer.Session, tool, arguments string) (messages []string) {
	t.Helper()
	reply := begin(t, p, s, session, tool, arguments)
	defer reply.Close()
	for {
		m, err := reply.Next()
		if err != nil {
			if len(messages) == 0 {
				t.Fatal(err)
			}
			return messages
		}
		messages = append(messages, string(m))
	}
}

func begin(t *testing.T, p *peer.Peers, s *toolserver.Server, session peer.Session, tool, arguments string) peer.Reply {
	t.Helper()
	reply, err := p.Send(t.Context(), &peer.Call{Server: s, Session: session, Method: "tools/call", Name: tool,
		Message: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments +
			`,"_meta":{"progressToken":"p"}}}`)})
	if err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
	return reply
}

// asks lets the server ask the user, and answers.
func asks(t *testing.T, p *peer.Peers, s *toolserver.Server, session peer.Session) {
	t.Helper()
	reply := begin(t, p, s, session, "trigger-elicitation-request", `{}`)
	defer reply.Close()
	asked, err := reply.Next()
	if err != nil || !strings.Contains(string(asked), `"method":"elicitation/create"`) {
		t.Fatalf("the server sent %s, %v", asked, err)
	}
	_, id, _ := strings.Cut(string(asked), `"id":`)
	id = strings.TrimRight(id[:strings.IndexAny(id, ",}")], " ")
	answer, err := p.Send(t.Context(), &peer.Call{Server: s, Session: session, Notify: true,
		Message: []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"decline"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	answer.Close()
	if text, err := reply.Next(); err != nil || !strings.Contains(string(text), "declined") {
		t.Errorf("the server sent %s, %v", text, err)
	}
}
