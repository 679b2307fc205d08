package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"modelgate/tools/bench"
)

// benchTarget is the argument with which bench starts its own processes. It is
// internal, so the help does not list it.
const benchTarget = "target"

func runBench(ctx context.Context, p *program, args []string) error {
	if len(args) > 0 && args[0] == benchTarget {
		return bench.Target(ctx, args[1:], p.in, p.out)
	}
	f := p.flags("bench", "",
		"Measures, side by side in one run: a simulated provider directly, the same behind a plain\nhttputil.ReverseProxy, behind a handler that only forwards, and behind the gateway with key\ncheck and recording on; and the gateway without records, with bodies, and with features in use: guardrails, the\ncache, limits. The full run takes about six minutes.")
	file := f.String("json", "", "`file` for every figure as JSON")
	quick := f.Bool("quick", false, "short run, about 30 seconds")
	profile := f.String("profile", "", "`folder` for CPU and allocation profiles of the gateway at 64 connections")
	against := f.String("against", "", "`binary` of another build, to compare this one with")
	if err := f.parse(args, 0); err != nil {
		return err
	}
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
