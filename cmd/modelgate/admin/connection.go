package admin

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"modelgate/cmd/modelgate/gateway"
)

// Environment variables of the connection.
const (
	urlVariable    = "MODELGATE_URL"
	listenVariable = "MODELGATE_LISTEN"
	keyVariable    = "MODELGATE_BOOTSTRAP_KEY"
	caVariable     = "MODELGATE_CA"
)

// requestTimeout is the default limit of a request and its response.
const requestTimeout = 30 * time.Second

// defineConnection adds the flags for the gateway to a command, with the default of --timeout.
func (env *Env) defineConnection(c *cobra.Command, timeout time.Duration) {
	c.Flags().String("url", "",
		"base `address` of the gateway, for example https://gate.example (environment "+urlVariable+"); without one, this machine")
	c.Flags().String("key", "", "gateway `key` (environment "+keyVariable+"); without one, the session of modelgate login")
	c.Flags().String("ca", "", "`file` with the certificate of a private authority (environment "+caVariable+")")
	c.Flags().Duration("timeout", timeout, "limit of a request and its response; 0 has none")
}

// call runs work with a client of the gateway that the flags of a command name.
func (env *Env) call(c *cobra.Command, work func(ctx context.Context, to *gateway.Client, o *outputOptions) error) error {
	if env.Check != nil {
		if err := env.Check(); err != nil {
			return err
		}
	}
	text := func(flag, variable string) string {
		value, _ := c.Flags().GetString(flag)
		if c.Flags().Changed(flag) {
			return value
		}
		return env.Getenv(variable)
	}
	timeout, _ := c.Flags().GetDuration("timeout")
	if timeout < 0 {
		return env.Usage("--timeout must not be negative")
	}
	address := cmp.Or(text("url", urlVariable), "http://"+cmp.Or(env.Getenv(listenVariable), "127.0.0.1:8787"))
	to, err := gateway.New(gateway.Options{Address: address, Key: text("key", keyVariable), CA: text("ca", caVariable), Timeout: timeout,
		Agent: env.Agent})
	switch {
	case errors.Is(err, gateway.ErrAddress):
		return env.Usage("%w", err)
	case err != nil:
		return err
	}
	return work(c.Context(), to, readOutput(c))
}
