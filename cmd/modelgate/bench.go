package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"modelgate/tools/bench"
)

// benchTarget is the subcommand with which bench starts its own processes. It is
// internal, so the help does not list it.
const benchTarget = "target"

func runBench(p *program) *cobra.Command {
	f := p.flags("bench",
		"Measures, side by side in one run: a simulated provider directly, the same behind a plain\nhttputil.ReverseProxy, behind a handler that only forwards, and behind the gateway with key\ncheck and recording on; and the gateway without records, with bodies, and with features in use: guardrails, the\ncache, limits. The full run takes about six minutes.",
		`modelgate bench --quick
modelgate bench --json bench.json`)
	file := f.String("json", "", "`file` for every figure as JSON")
	quick := f.Bool("quick", false, "short run, about 30 seconds")
	profile := f.String("profile", "", "`folder` for CPU and allocation profiles of the gateway at 64 connections")
	against := f.String("against", "", "`binary` of another build, to compare this one with")
	f.command.AddCommand(benchJob(p))
	return f.run(func(ctx context.Context) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o := bench.Options{
			Command:  []string{self, "bench", benchTarget},
			Against:  *against,
			Scale:    bench.Full(),
			Version:  version,
			Pin:      true,
			Profile:  *profile,
			Progress: p.err,
		}
		if *quick {
			o.Scale = bench.Quick()
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		report, err := bench.Run(ctx, o)
		if err != nil {
			return err
		}
		if err := report.WriteText(p.out); err != nil {
			return err
		}
		return writeReport(*file, report)
	})
}

// benchJob returns the hidden subcommand that runs a process of bench.
func benchJob(p *program) *cobra.Command {
	return &cobra.Command{
		Use: benchTarget, Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error { return bench.Target(c.Context(), args, p.in, p.out) },
	}
}

func writeReport(file string, report *bench.Report) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
