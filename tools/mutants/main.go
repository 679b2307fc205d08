// Command mutants measures how much of a package its tests check.
//
// It changes one operator of the package at a time, runs the tests that reach it
// and reports the changes that no test noticed. All changes are compiled into one
// program for each package of tests and switched on by a variable, so a mutant
// costs no build.
//
// It guarantees that a mutant counts as killed only if a test that passes without
// it fails, or does not end, with it. It does not reach tests that run the built
// program, and it does not change constants, strings or the operators of other
// packages. For faults of a specification's statements see tools/faults.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

const usage = `Usage: make mutants ARGS="-package internal/format/sse"
       make mutants ARGS="-package internal/pipeline/routing -tests internal/dataplane -per-file 4"

Changes one operator of a package at a time and reports the changes that its
tests did not notice.

Changes: < to <= and to >= (and so on), == to !=, + to -, * to /, ++ to --, -x to x.
Survivors that cannot or need not be noticed are listed in the file of -explained with
their reason; they count as survivors, but not as new ones.

Exit status: 0 when at least -least percent were killed and every survivor is
explained, 1 when not, 2 for an error.

`

// options are the flags of the command.
type options struct {
	root      string
	pkg       string         // folder of the package to change
	tests     []string       // folders of packages whose tests run, the package itself first
	file      *regexp.Regexp // of the files to change; nil for all
	sample    int            // how many mutants to try; 0 means all
	perFile   int            // how many of them in one file; 0 means all
	seed      uint64         // of the sample
	least     int            // percent
	workers   int
	limit     time.Duration // of a program of tests, at least
	skip      string        // pattern of tests that do not run; empty for none
	explained string        // path of the list; empty for none
	progress  *log.Logger   // gets each outcome at once
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes the command with its arguments and returns its exit status.
func run(args []string, out, errs io.Writer) int {
	o := options{progress: log.New(errs, "", 0)}
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	flags.StringVar(&o.root, "root", ".", "root of the repository")
	flags.StringVar(&o.pkg, "package", "", "`folder` of the package to change")
	more := flags.String("tests", "", "`folders` of further packages whose tests may notice a change, separated by spaces")
	file := flags.String("file", "", "`pattern` of the names of files to change; empty changes all")
	flags.IntVar(&o.sample, "sample", 0, "number of changes to try, chosen at random but the same each time; 0 tries all")
	flags.IntVar(&o.perFile, "per-file", 0, "number of changes of one file to try, chosen in the same way; 0 tries all")
	flags.Uint64Var(&o.seed, "seed", 1, "`number` of the sample; another one chooses other changes")
	flags.IntVar(&o.least, "least", 85, "`percent` of the changes that must be killed")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "number of changes to try at a time")
	flags.StringVar(&o.skip, "skip", "", "`pattern` of tests that do not run, such as those that count allocations")
	flags.DurationVar(&o.limit, "timeout", time.Minute,
		"shortest time that tests are given; those that take 20 times as long as without a change do not end")
	flags.StringVar(&o.explained, "explained", "tools/mutants/survivors.yaml", "`file` of survivors with their reasons, relative to the root")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 || o.pkg == "" || o.workers < 1 || o.sample < 0 || o.perFile < 0 {
		flags.Usage()
		return 2
	}
	var err error
	if o.file, err = regexp.Compile(*file); err != nil {
		fmt.Fprintln(errs, "mutants: -file:", err)
		return 2
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}
	o.root, o.pkg = root, filepath.ToSlash(filepath.Clean(o.pkg))
	o.tests = append([]string{o.pkg}, strings.Fields(*more)...)
	ok, err := o.measure(out)
	if err != nil {
		fmt.Fprintln(errs, "mutants:", err)
		return 2
	}
	if !ok {
		return 1
	}
	return 0
}
