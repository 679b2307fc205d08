package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
	"modelgate/internal/base/secret"
	"modelgate/internal/provider/table"
	"modelgate/internal/server"
	"modelgate/internal/settings"
	"modelgate/internal/simulator"
)

// check checks a settings file, or a config object if the name ends in .json.
func check(p *program) *cobra.Command {
	f := p.flags("check FILE",
		"Checks a settings file (modelgate.yaml), a file for `modelgate apply` or a config object (a file ending in .json) without starting anything.\nFor a config NAME.json, the cases in NAME.cases.json are run too: [{\"name\": …, \"request\": {…}, \"expect\": {\"target\": \"config.targets[1]\"}}].",
		`modelgate check modelgate.yaml
modelgate check --diff modelgate.yaml changed.yaml
modelgate check config.json`)
	m := newMasterFlags(f)
	trusted := f.text("trusted-hosts", "MODELGATE_TRUSTED_HOSTS", "", "comma-separated `list` of trusted hosts, as for serve")
	running := f.String("diff", "", "current settings `file`; prints the changes from it to FILE")
	return f.run(func(ctx context.Context) error {
		file := f.Arg(0)
		if strings.HasSuffix(file, ".json") {
			return checkConfig(ctx, p, file)
		}
		master, previous, err := m.read(ctx, p)
		if err != nil {
			return err
		}
		notes, err := server.CheckSettings(file, splitHosts(*trusted), master, previous)
		if err != nil {
			return err
		}
		if *running != "" {
			return p.diff(*running, file, master, previous)
		}
		fmt.Fprintf(p.out, "%s is valid\n", file)
		for _, note := range notes {
			fmt.Fprintln(p.out, "note: "+note)
		}
		return nil
	})
}

// diff prints the changes from one settings file to another.
func (p *program) diff(running, file string, master, previous secret.String) error {
	box, err := server.MasterBox(master, previous)
	if err != nil {
		return err
	}
	var sets [2]*settings.Settings
	for i, name := range []string{running, file} {
		if sets[i], err = settings.Load(name, settings.SecretResolver{Env: os.LookupEnv, Box: box}); err != nil {
			return err
		}
	}
	lines := settings.Diff(sets[0], sets[1])
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
	if len(lines) == 0 {
		fmt.Fprintln(p.out, "no differences")
	}
	return nil
}

// seal reads a credential from standard input, which keeps it out of the shell's
// history.
func seal(p *program) *cobra.Command {
	f := p.flags("seal",
		"Reads a credential from standard input and prints it sealed with the master key, for api_key in modelgate.yaml.",
		`printf %s "$OPENAI_API_KEY" | modelgate seal --master-key-file master.key`)
	m := newMasterFlags(f)
	return f.run(func(ctx context.Context) error {
		master, _, err := m.read(ctx, p)
		if err != nil {
			return err
		}
		if master.Empty() {
			return errors.New("no master key; set MODELGATE_MASTER_KEY, --master-key-file or --master-key-command")
		}
		box, err := secret.NewBox(master)
		if err != nil {
			return err
		}
		line, err := bufio.NewReader(p.in).ReadString('\n')
		if line = strings.TrimSpace(line); line == "" {
			return fmt.Errorf("no credential on standard input: %w", err)
		}
		fmt.Fprintln(p.out, box.Seal(secret.New(line)))
		return nil
	})
}

func providers(p *program) *cobra.Command {
	f := p.flags("providers",
		"Lists the providers of the table.",
		`modelgate providers
modelgate providers --json`)
	asJSON := f.Bool("json", false, "print JSON")
	return f.run(func(context.Context) error {
		if *asJSON {
			return table.DescribeJSON(p.out)
		}
		return table.Describe(p.out)
	})
}

// simulate runs the simulator.
func simulate(p *program) *cobra.Command {
	f := p.flags("simulate",
		simulateHelp(),
		"modelgate simulate --listen 127.0.0.1:8790 --pace 5ms")
	listen := f.String("listen", "127.0.0.1:8790", "`host:port`")
	key := f.String("key", "", "`credential` that requests must send; empty accepts any")
	pace := f.Duration("pace", 20*time.Millisecond, "`time` between the events of a stream")
	return f.run(func(ctx context.Context) error {
		l, err := server.Bind("simulator", *listen)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "the simulator serves http://%s/v1\n", l.Addr())
		srv := &http.Server{Handler: simulator.New(simulator.Options{Key: *key, Pace: *pace}), ReadHeaderTimeout: 10 * time.Second}
		return p.untilSignal(ctx, srv, l)
	})
}

// simulateHelp lists the faults of this build.
func simulateHelp() string {
	var b strings.Builder
	b.WriteString("Runs a provider that does not exist: it speaks the chat protocol, and messages, responses,\ngemini, converse, cohere and ollama on the paths of their providers, and misbehaves on request.\n\n" +
		"Request a fault in the model's name, such as sim-1+status=429+retry-after=2, or in the header X-Simulator-Fault:\n\n")
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, fault := range simulator.Faults() {
		fmt.Fprintf(t, "  %s\t%s\n", fault.Form, fault.Text)
	}
	t.Flush()
	return b.String()
}

// readyInterval is the time between two questions of healthcheck --wait.
const readyInterval = 100 * time.Millisecond

func healthcheck(p *program) *cobra.Command {
	f := p.flags("healthcheck",
		"Checks whether a running gateway is ready; exit code 0 if it is.",
		"modelgate healthcheck --listen 127.0.0.1:8787\nmodelgate healthcheck --wait 30s")
	listen := f.text("listen", "MODELGATE_LISTEN", "127.0.0.1:8787", "`host:port` of the API")
	wait := f.Duration("wait", 0, "how long to wait until it is ready")
	return f.run(func(ctx context.Context) error {
		if *wait < 0 {
			return usage("--wait must not be negative")
		}
		to, err := connect(gateway.Options{Address: "http://" + *listen, Anonymous: true, Timeout: 5 * time.Second,
			Agent: "modelgate/" + version})
		if err != nil {
			return err
		}
		text, err := to.Do(ctx, gateway.Request{Method: http.MethodGet, Path: "/ready"})
		for end := time.Now().Add(*wait); err != nil && time.Now().Before(end) && ctx.Err() == nil; {
			<-time.After(readyInterval)
			text, err = to.Do(ctx, gateway.Request{Method: http.MethodGet, Path: "/ready"})
		}
		if status, ok := errors.AsType[*gateway.StatusError](err); ok {
			text, err = status.Body, fmt.Errorf("the gateway is not ready: status %d", status.Code)
		}
		fmt.Fprint(p.out, string(text[:min(len(text), 200)]))
		return err
	})
}
