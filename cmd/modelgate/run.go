package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
)

const runHelp = `Runs a coding agent for one task through a gateway, and prints at its end what it used.

AGENT is claude, codex, gemini or opencode. What follows -- are arguments of the agent. Its
environment names the gateway and has the key; your own settings of the agent stay as they
are. Signals and the exit code are passed on.`

// launch is what an agent is started with.
type launch struct {
	base, key, model, trace string
	folder                  string // of temporary files
}

// agent is a program that modelgate run can start.
type agent struct {
	install    string
	needsModel bool
	unset      []string // variables that would point it elsewhere
	// prepare returns the variables and the first arguments. The arguments never have the key.
	prepare func(l launch) (env, args []string, err error)
}

const traceHeader = "x-gateway-trace-id"

// agents are configured as docs/coding-agents.md says.
var agents = map[string]agent{
	"claude": {
		install: "npm install -g @anthropic-ai/claude-code",
		unset:   []string{"ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS"},
		prepare: func(l launch) (env, args []string, err error) {
			headers := traceHeader + ": " + l.trace
			if own := os.Getenv("ANTHROPIC_CUSTOM_HEADERS"); own != "" {
				headers = own + "\n" + headers
			}
			env = []string{"ANTHROPIC_BASE_URL=" + l.base, "ANTHROPIC_AUTH_TOKEN=" + l.key, "ANTHROPIC_CUSTOM_HEADERS=" + headers}
			if l.model != "" {
				env = append(env, "ANTHROPIC_MODEL="+l.model,
					"ANTHROPIC_DEFAULT_HAIKU_MODEL="+cmp.Or(os.Getenv("ANTHROPIC_DEFAULT_HAIKU_MODEL"), l.model))
			}
			return env, nil, nil
		},
	},
	"codex": {
		install: "npm install -g @openai/codex",
		prepare: func(l launch) (env, args []string, err error) {
			table := fmt.Sprintf("model_providers.modelgate={name=%s, base_url=%s, env_key=%s, wire_api=%s, http_headers={%s=%s}}",
				quoteJSON("modelgate"), quoteJSON(l.base+"/v1"), quoteJSON("MODELGATE_KEY"), quoteJSON("responses"),
				quoteJSON(traceHeader), quoteJSON(l.trace))
			args = []string{"-c", table, "-c", "model_provider=" + quoteJSON("modelgate")}
			if l.model != "" {
				args = append(args, "-c", "model="+quoteJSON(l.model))
			}
			return []string{"MODELGATE_KEY=" + l.key}, args, nil
		},
	},
	"gemini": {
		install: "npm install -g @google/gemini-cli",
		unset:   []string{"GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"},
		prepare: func(l launch) (env, args []string, err error) {
			file := filepath.Join(l.folder, "settings.json")
			err = os.WriteFile(file, []byte(`{"security": {"auth": {"selectedType": "gemini-api-key"}}}`), 0o600)
			if l.model != "" {
				args = []string{"--model", l.model}
			}
			return []string{"GOOGLE_GEMINI_BASE_URL=" + l.base, "GEMINI_API_KEY=" + l.key, "GEMINI_CLI_SYSTEM_SETTINGS_PATH=" + file,
				"GEMINI_CLI_CUSTOM_HEADERS=" + traceHeader + ": " + l.trace}, args, err
		},
	},
	"opencode": {
		install: "npm install -g opencode-ai", needsModel: true,
		prepare: func(l launch) (env, args []string, err error) {
			client := map[string]any{
				"npm": "@ai-sdk/openai-compatible", "name": "modelgate",
				"models": map[string]any{l.model: map[string]any{"tool_call": true}},
				"options": map[string]any{"baseURL": l.base + "/v1", "apiKey": "{env:MODELGATE_KEY}",
					"headers": map[string]string{traceHeader: l.trace}},
			}
			text, err := json.Marshal(map[string]any{"model": "modelgate/" + l.model, "provider": map[string]any{"modelgate": client}})
			if err != nil {
				return nil, nil, err
			}
			file := filepath.Join(l.folder, "opencode.json")
			return []string{"MODELGATE_KEY=" + l.key, "OPENCODE_CONFIG=" + file}, nil, os.WriteFile(file, text, 0o600)
		},
	},
}

// quoteJSON returns a string of JSON, which is one of TOML too.
func quoteJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(text)
}

// exitStatus is the exit code of an agent, which is passed on without a message.
type exitStatus int

// Error implements error.
func (e exitStatus) Error() string { return fmt.Sprintf("the agent ended with exit code %d", int(e)) }

// runAgent runs a coding agent through a gateway.
func runAgent(p *program) *cobra.Command {
	f := p.flags("run AGENT [ARGS ...]",
		runHelp,
		`modelgate run claude --url https://gate.example -- -p "Fix the test"
modelgate run codex --model @openai/gpt-5 -- --full-auto`)
	gate := f.gateway()
	model := f.String("model", "", "`model` that the agent asks for, such as @anthropic/claude-sonnet-4-5; by default the agent's own")
	return f.run(func(ctx context.Context) error {
		name := f.Arg(0)
		a, ok := agents[name]
		switch {
		case !ok:
			return usage("AGENT must be claude, codex, gemini or opencode, not %q", name)
		case a.needsModel && *model == "":
			return usage("--model is required for %s", name)
		}
		ask, err := gate()
		if err != nil {
			return err
		}
		if ask.Key().Empty() {
			return errors.New("there is no key for the gateway: set --key or MODELGATE_BOOTSTRAP_KEY, or sign in with modelgate login")
		}
		path, err := exec.LookPath(name)
		if err != nil {
			return fmt.Errorf("%s is not installed, or not in the PATH; install it with: %s", name, a.install)
		}
		folder, err := os.MkdirTemp("", "modelgate-run-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		l := launch{ask.Address(), ask.Key().Reveal(), *model, "run-" + strings.ToLower(rand.Text()), folder}
		env, first, err := a.prepare(l)
		if err != nil {
			return err
		}
		hidden := append([]string{"MODELGATE_BOOTSTRAP_KEY", "MODELGATE_MASTER_KEY"}, a.unset...)
		c := exec.Command(path, append(first, f.Args()[1:]...)...)
		c.Stdin, c.Stdout, c.Stderr = p.in, p.out, p.err
		for _, word := range p.environ {
			if variable, _, _ := strings.Cut(word, "="); !slices.Contains(hidden, variable) {
				c.Env = append(c.Env, word)
			}
		}
		c.Env = append(c.Env, env...) // the last of a name counts
		err = runChild(c)
		p.reportRun(ctx, ask, l.trace)
		return err
	})
}

// runChild runs a program to its end and passes signals on to it. An interrupt of the terminal
// reaches the program by itself.
func runChild(c *exec.Cmd) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt || !isTerminal(c.Stdin) {
					c.Process.Signal(s)
				}
			case <-ended:
				return
			}
		}
	}()
	err := c.Wait()
	close(ended)
	<-passed
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if code := exit.ExitCode(); code >= 0 {
		return exitStatus(code)
	}
	return exitStatus(signalCode(exit))
}

// signalCode returns the exit code of a program that a signal ended, as shells do.
func signalCode(e *exec.ExitError) int {
	if s, ok := e.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return 1
}

// runTotals are sums of the requests of a run.
type runTotals struct {
	requests, unpriced                        int
	input, cached, written, output, reasoning int64
	cost, saved                               float64 // in US cents
}

// runEntry is what is read of a log entry.
type runEntry struct {
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Cached     int64 `json:"cached_tokens"`
		Written5m  int64 `json:"cache_write_5m_tokens"`
		Written1h  int64 `json:"cache_write_1h_tokens"`
		Reasoning  int64 `json:"reasoning_tokens"`
	} `json:"usage"`
	Cost  *float64 `json:"cost"`
	Saved *struct {
		Response *float64 `json:"response_cache"`
		Prompt   *float64 `json:"prompt_cache"`
	} `json:"saved_cost"`
}

// reportRun prints what the requests of a run used, on standard error.
func (p *program) reportRun(ctx context.Context, ask *gateway.Client, trace string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	t, err := settledTotals(ctx, ask, trace)
	line := func(format string, values ...any) { fmt.Fprintln(p.err, stripControl(fmt.Sprintf(format, values...))) }
	switch {
	case err != nil:
		line("modelgate run: the usage cannot be read: %v", err)
		return
	case t.requests == 0:
		line("modelgate run: no requests were recorded with the trace %s", trace)
		return
	}
	line("modelgate run: %s, trace %s", counted(t.requests, "request"), trace)
	line("  tokens: %d input (%d from caches, %d written to caches), %d output (%d reasoning)", t.input, t.cached, t.written, t.output, t.reasoning)
	cost := fmt.Sprintf("  cost: %.4f US dollars", t.cost/100)
	if t.unpriced > 0 {
		cost += fmt.Sprintf(", without %s of unknown cost", counted(t.unpriced, "request"))
	}
	line("%s", cost)
	line("  saved by caches: %.4f US dollars", t.saved/100)
}

// settledTotals returns the totals when two readings in a row are equal: entries are recorded
// shortly after their responses.
func settledTotals(ctx context.Context, ask *gateway.Client, trace string) (t runTotals, err error) {
	const pause, tries = 400 * time.Millisecond, 8
	last := runTotals{requests: -1}
	for range tries {
		if t, err = readTotals(ctx, ask, trace); err != nil || t == last && t.requests > 0 {
			return t, err
		}
		last = t
		select {
		case <-ctx.Done():
			return t, ctx.Err()
		case <-time.After(pause):
		}
	}
	return t, nil
}

// maxRunPages is the most pages of the log that are read for a run.
const maxRunPages = 100

func readTotals(ctx context.Context, ask *gateway.Client, trace string) (t runTotals, err error) {
	q := url.Values{"trace_id": {trace}, "limit": {"1000"}}
	for range maxRunPages {
		text, err := ask.Do(ctx, gateway.Request{Method: http.MethodGet, Path: "/v1/logs?" + q.Encode()})
		if err != nil {
			return t, err
		}
		var page struct {
			Data []runEntry `json:"data"`
			More bool       `json:"has_more"`
			Next string     `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return t, err
		}
		for _, e := range page.Data {
			t.add(e)
		}
		if !page.More || page.Next == "" {
			break
		}
		q.Set("cursor", page.Next)
	}
	return t, nil
}

func (t *runTotals) add(e runEntry) {
	t.requests++
	if u := e.Usage; u != nil {
		t.input, t.output, t.cached = t.input+u.Prompt, t.output+u.Completion, t.cached+u.Cached
		t.written, t.reasoning = t.written+u.Written5m+u.Written1h, t.reasoning+u.Reasoning
	}
	if e.Cost == nil {
		t.unpriced++
	} else {
		t.cost += *e.Cost
	}
	if s := e.Saved; s != nil {
		for _, v := range []*float64{s.Response, s.Prompt} {
			if v != nil {
				t.saved += *v
			}
		}
	}
}
