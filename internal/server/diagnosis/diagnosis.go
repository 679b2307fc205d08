// Package diagnosis checks what a gateway would use, without starting one.
//
// It reads the settings, the databases and the data folder, and connects to what they name.
// It guarantees that nothing is changed, that nothing is dialled that neither the settings
// nor the database name, that a credential is sent only to a database, to Redis and to the
// mail server, and that one check which hangs delays no other. The text of a finding contains
// no credential. It does not repair anything; its findings say how to.
package diagnosis

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/server"
)

// Level is how serious a finding is.
type Level string

// Levels, from the least serious.
const (
	OK      Level = "ok"
	Note    Level = "note"    // is worth knowing, and needs no change
	Warning Level = "warning" // works, and will cause trouble
	Failed  Level = "failure" // does not work
)

// Finding is one line of a diagnosis.
type Finding struct {
	Check string `json:"check"` // such as "database"
	Level Level  `json:"level"`
	Text  string `json:"text"` // what was found; for warnings and failures, the cause
	Fix   string `json:"fix,omitempty"`
	Took  int64  `json:"milliseconds"` // of the check; zero if it took less than one
}

// Options say what is checked.
type Options struct {
	// Server are the options that a gateway would be started with.
	Server server.Options
	// StartError is why flags or variables cannot be used, nil if they can.
	StartError error
	// KeyFiles are files with the master key or the admin token.
	KeyFiles []string
	// Offline makes no connections.
	Offline bool
	// Timeout limits each check. Zero means 5 s.
	Timeout time.Duration
	// Environment returns the value of a variable. Nil has none.
	Environment func(string) string
}

// parallel is the limit of checks that run at the same time.
const parallel = 64

// Run returns the findings, in an order that is the same for the same settings and database.
func Run(ctx context.Context, o Options) []Finding {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Environment == nil {
		o.Environment = func(string) string { return "" }
	}
	in, findings := load(o)
	findings = append(findings, in.runAll(ctx, in.checks())...)
	select {
	case in.state = <-in.loaded:
		defer in.state.db.Close()
		findings = append(findings, in.runAll(ctx, in.stateChecks())...)
	default: // there is no database, or it was not read in time; its check says so
	}
	return append(findings, in.clock.finding(o.Offline))
}

// CountFailures returns the number of failures.
func CountFailures(findings []Finding) (n int) {
	for _, f := range findings {
		if f.Level == Failed {
			n++
		}
	}
	return n
}

// check is one or more findings about the same thing.
type check struct {
	name  string
	dials bool // makes connections
	run   func(context.Context) []Finding
}

// runAll runs checks at the same time, each within the time limit, and returns their findings
// in the order of the checks.
func (in *input) runAll(ctx context.Context, list []check) (all []Finding) {
	results := make([]chan []Finding, len(list))
	free := make(chan struct{}, parallel)
	for i, c := range list {
		results[i] = make(chan []Finding, 1)
		go func() {
			free <- struct{}{}
			defer func() { <-free }()
			results[i] <- in.runOne(ctx, c)
		}()
	}
	for _, r := range results {
		all = append(all, <-r...)
	}
	return all
}

// runOne runs a check. One that does not end when its context does, such as a read from a
// disk that hangs, is left behind.
func (in *input) runOne(ctx context.Context, c check) []Finding {
	if c.dials && in.Offline {
		return []Finding{{Check: c.name, Level: Note, Text: "not checked, because --offline makes no connections"}}
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, in.Timeout)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- c.run(limited) }()
	late := time.NewTimer(in.Timeout + in.Timeout/5)
	defer late.Stop()
	var list []Finding
	select {
	case list = <-done:
	case <-late.C:
		list = []Finding{{Level: Failed, Text: fmt.Sprintf("the check did not end within %s", in.Timeout),
			Fix: "check the disk or the server that it reads from"}}
	}
	for i := range list {
		list[i].Check, list[i].Took = c.name, time.Since(began).Milliseconds()
	}
	return list
}

// one returns a list of one finding.
func one(level Level, fix, format string, args ...any) []Finding {
	return []Finding{{Level: level, Text: fmt.Sprintf(format, args...), Fix: fix}}
}

// String returns a finding as a line.
func (f Finding) String() string {
	line := fmt.Sprintf("%-8s %-20s %s", f.Level, f.Check, f.Text)
	if f.Fix != "" {
		line += "; " + f.Fix
	}
	return line
}
