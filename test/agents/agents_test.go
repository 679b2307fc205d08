// Package agents runs coding agents against the built gateway, without a person.
//
// Each agent works in three turns on a provider that does not exist: it thinks,
// runs a command, thinks, runs another, and reports. The provider is a simulator
// of each dialect in this process, as strict as the real one about what comes
// back: calls, results and signed thinking. Agents come from the registries
// (package.json, requirements.txt), run in a home folder of their own and report
// to nobody.
package agents

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/programtest"
	"modelgate/internal/testing/recorder"
)

const (
	gatewayKey  = "mg-agents-bootstrap-0123456789abcdef"
	providerKey = "sk-agents-provider-0123456789"
)

// settings has a provider of each dialect in front of the same simulator.
const settings = `
version: 1
providers:
  - {slug: oai, provider: openai, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1"}
  - {slug: chat, provider: deepseek, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1"}
  - {slug: ant, provider: anthropic, api_key: "${PROVIDER_KEY}", custom_host: "SIM/v1"}
  - {slug: gem, provider: google, api_key: "${PROVIDER_KEY}", custom_host: "SIM"}
  - {slug: aws, provider: bedrock, api_key: "${PROVIDER_KEY}", custom_host: "SIM"}
`

// models are models of each dialect that think.
var models = map[string]string{
	"chat":      "@chat/deepseek-reasoner+thinking=16",
	"responses": "@oai/gpt-5.2+thinking=16",
	"messages":  "@ant/claude-sonnet-4-5+thinking=16",
	"gemini":    "@gem/gemini-2.5-pro+thinking=16",
	"converse":  "@aws/anthropic.claude-sonnet-4-5-20250929-v1:0+thinking=16",
}

// stage is what runs: the gateway and the simulator behind it.
var stage struct {
	url string // of the gateway, without /v1
	sim *recorder.Recorder
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	scratch, err := os.MkdirTemp("", "agents")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	program, err := programtest.Build(scratch, os.Stderr)
	if err != nil {
		return 1, err
	}
	stage.sim = recorder.New(recorder.Options{Options: simulator.Options{Key: providerKey, Script: respond}, Record: 4096})
	sim := httptest.NewServer(overloaded(stage.sim))
	defer sim.Close()

	file := filepath.Join(scratch, "modelgate.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(settings, "SIM", sim.URL)), 0o600); err != nil {
		return 1, err
	}
	stop, err := serve(program, "--data", filepath.Join(scratch, "data"), "--config", file)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return m.Run(), nil
}

// serve starts the gateway and returns the function that ends it.
func serve(program string, args ...string) (stop func() error, err error) {
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "off"}, args...)...)
	cmd.Env = programtest.Env("MODELGATE_BOOTSTRAP_KEY="+gatewayKey, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "PROVIDER_KEY="+providerKey)
	var problems strings.Builder // read after the end only
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	for stage.url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			cmd.Wait()
			return nil, fmt.Errorf("the gateway ended at its start: %s", problems.String())
		}
		if at := strings.Index(line, "http://"); at >= 0 {
			stage.url = strings.TrimSuffix(strings.TrimSpace(line[at:]), "/v1")
		}
	}
	exited := make(chan error, 1)
	go func() {
		io.Copy(io.Discard, lines)
		exited <- cmd.Wait()
	}()
	return func() error {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			if err != nil {
				return fmt.Errorf("the gateway ended with %w: %s", err, problems.String())
			}
			return nil
		case <-time.After(time.Minute):
			cmd.Process.Kill()
			<-exited
			return errors.New("the gateway did not end within a minute of SIGTERM")
		}
	}, nil
}

// session is the work of one agent on one provider, found by its mark in the
// conversation.
type session struct {
	mu       sync.Mutex
	turns    int      // guarded by mu, as are the fields below
	wrong    []string // what the provider should not have seen
	signed   int      // thinking that came back in the last turn
	dialects []string // of the turns, in order
	// leaves is part of the path of a provider that has no capacity for the second turn.
	leaves string
	// tool means that the model calls a tool of a server instead of commands. offered are the
	// tools that it had before.
	tool    bool
	offered []string
}

var (
	sessionsMu sync.Mutex
	sessions   = map[string]*session{} // guarded by sessionsMu, by mark
)

// begin registers a session and returns its mark.
func begin(t *testing.T) (string, *session) {
	sessionsMu.Lock()
	defer sessionsMu.Unlock()
	mark := fmt.Sprintf("task-%d-%d", os.Getpid(), len(sessions)+1)
	s := new(session)
	sessions[mark] = s
	return mark, s
}

// overloaded returns 503 for the second turn of a session that leaves the provider, and
// otherwise responds as h does.
func overloaded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if leaves(r.URL.Path, string(body)) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(&refusals{ResponseWriter: w, body: string(body)}, r)
	})
}

// refusals adds refusals to what is wrong in the session of a request.
type refusals struct {
	http.ResponseWriter
	body   string // of the request
	status int
}

func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *refusals) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *refusals) Write(b []byte) (int, error) {
	if w.status == http.StatusBadRequest {
		eachOf(w.body, func(_ string, s *session) {
			if s.leaves != "" { // opencode sends a budget of -1 for titles, as the model is unknown to it
				s.wrong = append(s.wrong, fmt.Sprintf("refused: %.300s", b))
			}
		})
	}
	return w.ResponseWriter.Write(b)
}

// eachOf calls f with the sessions that a body is of, locked.
func eachOf(body string, f func(mark string, s *session)) {
	sessionsMu.Lock()
	defer sessionsMu.Unlock()
	for mark, s := range sessions {
		if strings.Contains(body, mark) {
			s.mu.Lock()
			f(mark, s)
			s.mu.Unlock()
		}
	}
}

func leaves(path, body string) (left bool) {
	eachOf(body, func(mark string, s *session) {
		left = left || s.leaves != "" && s.turns == 1 && strings.Contains(path, s.leaves) && strings.Contains(body, "done-1-"+mark)
	})
	return left
}

// respond is the script of the simulator.
func respond(r *simulator.Report) *simulator.ScriptedResponse {
	sessionsMu.Lock()
	defer sessionsMu.Unlock()
	for mark, s := range sessions {
		if strings.Contains(strings.Join(r.Texts, "\n")+" ", mark+" ") {
			return s.respond(mark, r)
		}
	}
	return nil
}

// shells are the tools of the agents that run a command, and the member with it.
var shells = map[string]string{
	"Bash": "command", "bash": "command", "run_shell_command": "command",
	"shell_command": "command", "exec_command": "cmd", "shell": "command",
}

func (s *session) respond(mark string, r *simulator.Report) *simulator.ScriptedResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tool {
		return s.callTool(mark, r)
	}
	shell := ""
	for _, name := range r.Tools {
		if shells[name] != "" {
			shell = name
		}
	}
	if strings.Contains(r.System+strings.Join(r.Texts, ""), "entire file") {
		return s.edit(mark, r)
	}
	if shell == "" { // a title of the conversation, or the like
		return &simulator.ScriptedResponse{Text: "A task"}
	}
	turn := len(r.Results)
	s.turns = max(s.turns, turn+1)
	s.dialects = append(s.dialects, r.Dialect)
	s.signed = len(r.Thinking)
	for _, call := range r.Calls { // Gemini signs calls
		if call.Signature != "" {
			s.signed++
		}
	}
	for i, result := range r.Results {
		if want := fmt.Sprintf("done-%d-%s", i+1, mark); !strings.Contains(result.Text, want) {
			s.wrong = append(s.wrong, fmt.Sprintf("the result of turn %d lacks %q: %.300q", i+1, want, result.Text))
		}
	}
	if turn >= 2 {
		return &simulator.ScriptedResponse{Text: "Finished " + mark + " after two commands."}
	}
	// The result is not part of the command, so that it comes from running it.
	command := fmt.Sprintf("printf '%%s-%%s-%%s' done %d %s", turn+1, mark)
	var value any = command
	if shell == "shell" {
		value = []string{"bash", "-c", command}
	}
	return &simulator.ScriptedResponse{Text: "I run a command.", Calls: []simulator.ScriptedCall{{Name: shell, Arguments: map[string]any{shells[shell]: value, "description": "prints a text"}}}}
}

// edit answers aider, which has no tools: it is to write a file, and sends what
// its test says about that.
func (s *session) edit(mark string, r *simulator.Report) *simulator.ScriptedResponse {
	last := r.Texts[len(r.Texts)-1]
	text, turn := "one", 1
	switch {
	case strings.Contains(last, "write three"):
		text, turn = "three", 3
	case strings.Contains(last, "write two"):
		text, turn = "two", 2
	}
	s.turns = max(s.turns, turn)
	return &simulator.ScriptedResponse{Text: "Finished " + mark + " with this file.\n\nsteps.txt\n```\n" + text + "\n```\n"}
}

// command is how an agent is started.
type command struct {
	path string
	args []string
	env  []string
	dir  string
}

// patience is how long an agent may take for its three turns.
const patience = 4 * time.Minute

// launch runs an agent to its end and returns what it wrote.
func launch(t *testing.T, c command) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // agents start helpers
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", filepath.Base(c.path), err, out)
	}
	return string(out)
}
