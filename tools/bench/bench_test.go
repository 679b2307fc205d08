package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"modelgate/tools/bench"
)

// asTarget makes the test binary a target, as the program's own subcommand does.
const asTarget = "bench-target"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asTarget {
		if err := bench.Target(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestMiniatureRunMeasuresEverythingWithoutAnError says nothing about speed:
// the machine may be busy.
func TestMiniatureRunMeasuresEverythingWithoutAnError(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	profiles := t.TempDir()
	report, err := bench.Run(t.Context(), bench.Options{
		Command: []string{self, asTarget},
		Profile: profiles,
		Scale: bench.Scale{
			Rounds: 2, Load: 50 * time.Millisecond, Connections: []int{64},
			Rates: []int{100}, RateTime: 200 * time.Millisecond,
			Streams: []int{8}, Frames: 10, Pace: 5 * time.Millisecond,
			Bodies: 16, BodySize: 64 << 10, Quiet: time.Millisecond,
			Starts: 1, Profile: 100 * time.Millisecond, Pairs: 5,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Errors) == 0 || len(report.Streams) == 0 {
		t.Errorf("%d rows of errors and %d of streams, want some of each", len(report.Errors), len(report.Streams))
	}
	for _, e := range report.Errors {
		if e.Count != 0 {
			t.Errorf("%s gave %d wrong responses, the first: %s", e.Target, e.Count, e.First)
		}
	}
	for _, s := range report.Streams {
		if s.FramesLost != 0 {
			t.Errorf("%s lost %d frames", s.Target, s.FramesLost)
		}
	}
	for _, name := range []string{"cpu.pprof", "allocs.pprof"} {
		if info, err := os.Stat(profiles + "/" + name); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, want a file with content", name, err)
		}
	}
	checkShape(t, report)
	checkText(t, report)
}

// checkShape looks at the JSON as its readers see it.
func checkShape(t *testing.T, report *bench.Report) {
	t.Helper()
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for key, rows := range map[string]int{
		"throughput": 4, // targets
		"records":    3,
		"latency":    4,
		"streams":    4,
		"translated": 12, // of one dialect and five pairs, whole and streamed
		"overload":   3,  // plain behind the ReverseProxy and the gateway, and with checks
		"memory":     3,  // without direct
		"starts":     3,
		"features":   7,
		"errors":     9, // with the two of records and three of features
	} {
		if list, _ := v[key].([]any); len(list) != rows {
			t.Errorf("%s has %d rows, want %d", key, len(list), rows)
		}
	}
	for _, key := range []string{"command", "go", "system", "cpu"} {
		if text, _ := v[key].(string); text == "" {
			t.Errorf("%s is empty", key)
		}
	}
	for _, key := range []string{"cores", "binary_bytes", "request_bytes", "answer_bytes", "took_seconds"} {
		if n, _ := v[key].(float64); n <= 0 {
			t.Errorf("%s = %v, want more than 0", key, v[key])
		}
	}
	for name, n := range map[string]int{"throughput": len(report.Throughput), "records": len(report.Records), "translated": len(report.Translated), "memory": len(report.Memory)} {
		if n == 0 {
			t.Errorf("the report has no rows of %s", name)
		}
	}
	for _, row := range report.Throughput {
		if row.PerSecond <= 0 || row.CPUMicros <= 0 || row.Allocs <= 0 {
			t.Errorf("throughput row %+v has an empty figure", row)
		}
	}
	for _, row := range report.Records {
		if row.PerSecond <= 0 || row.CPUMicros <= 0 || row.OfUnrecorded <= 0 || row.Target == bench.Unrecorded && row.OfUnrecorded != 1 {
			t.Errorf("row of records %+v has an empty figure, or is not 1 of itself", row)
		}
	}
	for _, row := range report.Features {
		if row.PerSecond <= 0 || row.CPUMicros <= 0 || row.OfPlain <= 0 || row.Feature == bench.Plain && row.OfPlain != 1 {
			t.Errorf("row of features %+v has an empty figure, or is not 1 of itself", row)
		}
		if calls := row.RedisCalls; row.Feature == bench.SharedLimits && (calls < 1 || calls > 2) || row.Feature != bench.SharedLimits && calls != 0 {
			t.Errorf("row of features %+v: want one call of Redis to reserve, and at most one to settle", row)
		}
	}
	for _, row := range report.Translated {
		if row.PerSecond <= 0 || row.CPUMicros <= 0 || row.Allocs <= 0 || row.OfSame <= 0 {
			t.Errorf("translated row %+v has an empty figure", row)
		}
	}
	for _, row := range report.Memory {
		if row.IdleMiB > row.PeakMiB {
			t.Errorf("memory row %+v: less at the peak than at rest", row)
		}
	}
}

func checkText(t *testing.T, report *bench.Report) {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{"throughput at 64 connections, of ReverseProxy", "CPU of a request, of ReverseProxy",
		"throughput with records, of without",
		"CPU of chat → messages, of one dialect", "CPU of chat → messages streamed, of one dialect",
		"connections", "of without", "calls of Redis", "rate/s", "at twice the load", "streams", "client → provider", "bodies", "start to first response, ms"} {
		i := strings.Index(b.String()[at:], want)
		if i < 0 {
			t.Fatalf("the text does not say %q after %q:\n%s", want, b.String()[:at], b.String())
		}
		at += i
	}
}

func TestRunEndsWhenItsContextDoes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := bench.Run(ctx, bench.Options{Command: []string{self, asTarget}, Scale: bench.Full()}); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("Run = %v, want an error after its context ended", err)
	}
}

func TestRunTellsThatATargetDoesNotComeUp(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = bench.Run(t.Context(), bench.Options{Command: []string{self, asTarget, "nothing"}, Scale: bench.Quick()})
	if err == nil || !strings.Contains(err.Error(), "did not come up") {
		t.Errorf("Run = %v, want an error that says which target did not come up", err)
	}
}
