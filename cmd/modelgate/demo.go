package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"modelgate/internal/base/oserr"
	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider"
	"modelgate/internal/server"
	"modelgate/internal/simulator"
	"modelgate/internal/snapshot"
)

// demoSlug is the managed provider of the demo.
const demoSlug = "simulator"

// demo runs a gateway with a simulator in the same process as its provider.
func demo(p *program) *cobra.Command {
	f := p.flags("demo",
		"Runs the gateway with the simulator as the managed provider @simulator and prints commands to paste.",
		"modelgate demo")
	sf := newServeFlags(f, filepath.Join("data", "demo"))
	return f.run(func(ctx context.Context) error {
		o, err := sf.options(ctx, p)
		if err != nil {
			return err
		}
		if o.BootstrapKey.Empty() {
			if o.BootstrapKey, err = demoKey(o.Data); err != nil {
				return err
			}
		}
		l, err := server.Bind("simulator", "127.0.0.1:0")
		if err != nil {
			return err
		}
		key := secret.New("sim-" + rand.Text()) // does not look like a gateway key, because the simulator shows what it received
		sim := &http.Server{Handler: simulator.New(simulator.Options{Key: key.Reveal(), Pace: 20 * time.Millisecond})}
		go sim.Serve(l)
		defer sim.Close()
		o.TrustLoopback = true
		o.ManagedProviders = append(o.ManagedProviders, snapshot.ManagedProvider{
			Slug:     demoSlug,
			Provider: "openai-compatible",
			Settings: provider.Settings{Key: key, CustomHost: "http://" + l.Addr().String() + "/v1"},
		})
		return p.run(ctx, o, func(s *server.Server) {
			p.printStartup(s, "") // the demo has its own key
			p.printExamples(s, o.BootstrapKey)
		})
	})
}

// demoKey returns the demo's gateway key, which stays the same after a restart so that
// pasted commands keep working.
func demoKey(data string) (secret.String, error) {
	file := filepath.Join(data, "demo.key")
	b, err := os.ReadFile(file)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return secret.New(strings.TrimSpace(string(b))), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return secret.String{}, fmt.Errorf("reading the demo's key: %w", oserr.File(err))
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return secret.String{}, fmt.Errorf("data folder (--data or MODELGATE_DATA): %w", oserr.File(err))
	}
	key := access.NewKey()
	if err := os.WriteFile(file, []byte(key.Reveal()+"\n"), 0o600); err != nil {
		return secret.String{}, fmt.Errorf("writing to the data folder: %w", err)
	}
	return key, nil
}

// printExamples prints commands to paste.
func (p *program) printExamples(s *server.Server, key secret.String) {
	fmt.Fprintf(p.out, `
Your gateway key: %[1]s

A chat completion:

  curl http://%[2]s/v1/chat/completions \
    -H "x-gateway-api-key: %[1]s" -H "x-gateway-provider: @simulator" \
    -H "content-type: application/json" \
    -d '{"model": "sim-1", "messages": [{"role": "user", "content": "Hello!"}]}'

The same, streamed:

  curl -N http://%[2]s/v1/chat/completions \
    -H "x-gateway-api-key: %[1]s" -H "x-gateway-provider: @simulator" \
    -H "content-type: application/json" \
    -d '{"model": "sim-1", "stream": true, "messages": [{"role": "user", "content": "Hello!"}]}'

A fallback: the first target fails, the second answers. The response header
x-gateway-last-used-option-index says which it was:

  curl -i http://%[2]s/v1/chat/completions \
    -H "x-gateway-api-key: %[1]s" -H "content-type: application/json" \
    -H 'x-gateway-config: {"strategy": {"mode": "fallback"}, "targets": [{"provider": "@simulator", "override_params": {"model": "sim-1+status=500"}}, {"provider": "@simulator"}]}' \
    -d '{"model": "sim-1", "messages": [{"role": "user", "content": "Hello!"}]}'

Any other path of the provider, passed through:

  curl "http://%[2]s/v1/any/path?b=2&a=1" \
    -H "x-gateway-api-key: %[1]s" -H "x-gateway-provider: @simulator"

What was recorded of them:

  curl http://%[2]s/v1/logs -H "x-gateway-api-key: %[1]s"

Ctrl-C ends it.
`, key.Reveal(), s.Addr())
}

// untilSignal serves until a signal ends it.
func (p *program) untilSignal(ctx context.Context, srv *http.Server, l net.Listener) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	end := context.AfterFunc(ctx, func() { srv.Close() })
	defer end()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
