package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"modelgate/internal/server"
)

const alertsHelp = `Lists the destinations of alerts in a settings file and checks that the gateway may
use them and that they answer. With --send it sends them a test alert. The exit code is 1 if a destination
cannot be used.`

func alerts(p *program) *cobra.Command {
	return p.noun("alerts", "Tests the destinations of alerts.", testAlerts)
}

func testAlerts(p *program) *cobra.Command {
	f := p.flags("test",
		alertsHelp,
		"modelgate alerts test --config modelgate.yaml --send")
	config := f.text("config", "MODELGATE_CONFIG", "modelgate.yaml", "settings `file`")
	trusted := f.text("trusted-hosts", "MODELGATE_TRUSTED_HOSTS", "", "comma-separated `list` of hosts that webhooks may use even if private")
	m := newMasterFlags(f)
	send := f.Bool("send", false, "send a test alert")
	return f.run(func(ctx context.Context) error {
		c := server.AlertCheck{Config: *config, TrustedHosts: splitHosts(*trusted), Send: *send}
		var err error
		if c.MasterKey, c.Previous, err = m.read(ctx, p); err != nil {
			return err
		}
		list, err := c.Run(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("no destinations are configured; set alerts.webhooks or alerts.email")
		}
		failed := 0
		for _, d := range list {
			result := "ok"
			if *send {
				result = "sent"
			}
			if d.Err != nil {
				failed++
				result = d.Err.Error()
			}
			fmt.Fprintf(p.out, "%s: %s\n", d.Name, result)
		}
		if failed > 0 {
			return fmt.Errorf("%d of %s cannot be used", failed, counted(len(list), "destination"))
		}
		return nil
	})
}

// splitHosts returns the hosts of a comma-separated list.
func splitHosts(text string) (hosts []string) {
	for h := range strings.SplitSeq(text, ",") {
		if h = strings.TrimSpace(h); h != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}
