package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Outcomes of a mutant.
const (
	killed     = "killed"      // a test failed
	endless    = "endless"     // a test did not end; counts as killed
	survived   = "survived"    // every test that reaches it passed
	notReached = "not reached" // no test evaluates its expression
)

const (
	// memory is how much a test program may allocate, in KB: a changed loop
	// may collect without end.
	memory = 8 << 20
	// atOnce is how many tests run in one program. The quick ones run first.
	atOnce = 25
	// patience is how many times as long as without a mutant tests may take.
	patience = 20
)

// tested is a test, how long it takes and the switches that it reaches.
type tested struct {
	program string // of tests
	folder  string // it runs in
	name    string
	took    time.Duration
	reached map[int]bool
}

// measure tries the mutants and writes the results. It reports whether
// enough were killed and every survivor is explained.
func (o options) measure(out io.Writer) (bool, error) {
	known, err := readExplained(o.root, o.explained)
	if err != nil {
		return false, err
	}
	s, err := load(o.root, o.pkg)
	if err != nil {
		return false, err
	}
	all := s.mutants
	if o.file != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !o.file.MatchString(m.file) })
	}
	if len(all) == 0 {
		return false, fmt.Errorf("%s has no operators to change", o.pkg)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	tests, err := o.prepare(s, dir)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "%s: %d changes, %d tests\n", o.pkg, len(all), len(tests))
	chosen := choose(all, o.seed, o.perFile, o.sample)
	outcomes := make([]string, len(chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for i := range next {
				outcomes[i] = o.try(chosen[i], tests)
				o.progress.Printf("%d of %d: %s %s", i+1, len(chosen), outcomes[i], chosen[i])
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	workers.Wait()
	return o.report(out, chosen, outcomes, known), nil
}

// choose returns a sample of the mutants in their order. The seed decides which of
// them are taken first, each by what it changes, so that another change of the package
// leaves the others in the sample. Zero for perFile or sample takes all.
func choose(all []mutant, seed uint64, perFile, sample int) []mutant {
	chosen := slices.Clone(all)
	places := make(map[int]uint64, len(all)) // by id
	alike := make(map[string]int)
	for _, m := range all {
		what := m.file + " " + m.function + " " + m.change()
		places[m.id] = place(seed, what, alike[what])
		alike[what]++
	}
	slices.SortFunc(chosen, func(a, b mutant) int { return cmp.Or(cmp.Compare(places[a.id], places[b.id]), a.id-b.id) })
	taken := make(map[string]int) // by file
	chosen = slices.DeleteFunc(chosen, func(m mutant) bool {
		taken[m.file]++
		return perFile > 0 && taken[m.file] > perFile
	})
	if sample > 0 && sample < len(chosen) {
		chosen = chosen[:sample]
	}
	slices.SortFunc(chosen, func(a, b mutant) int { return a.id - b.id })
	return chosen
}

// place returns a number that depends on all of its arguments.
func place(seed uint64, what string, number int) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", seed, what, number))
	return binary.BigEndian.Uint64(sum[:])
}

// prepare builds the programs of tests and runs each test once without a
// mutant.
func (o options) prepare(s *source, dir string) ([]tested, error) {
	var skip *regexp.Regexp
	if o.skip != "" {
		var err error
		if skip, err = regexp.Compile(o.skip); err != nil {
			return nil, err
		}
	}
	overlay, err := o.write(s, dir)
	if err != nil {
		return nil, err
	}
	var list []tested
	for i, folder := range o.tests {
		program := filepath.Join(dir, strconv.Itoa(i)+".test")
		if _, err := command(o.root, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+folder); err != nil {
			return nil, err
		}
		at := filepath.Join(o.root, folder)
		names, err := command(at, program, "-test.list", "^Test")
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(string(names)) {
			if skip != nil && skip.MatchString(name) {
				continue
			}
			t := tested{program: program, folder: at, name: name}
			if err := t.trace(filepath.Join(dir, "reached")); err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	return list, nil
}

// write writes the files with switches and the overlay that the go command reads
// them by, and returns the overlay's path.
func (o options) write(s *source, dir string) (string, error) {
	replace := map[string]string{}
	put := func(path, text string) error {
		to := filepath.Join(dir, filepath.Base(path))
		replace[path] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	var name, folder string
	for path, file := range s.files {
		name, folder = file.Name.Name, filepath.Dir(path)
		if err := put(path, s.render(path)); err != nil {
			return "", err
		}
	}
	if err := put(filepath.Join(folder, "mutant_switches.go"), "package "+name+switchesFile); err != nil {
		return "", err
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// trace runs a test without a mutant and notes its time and what it reaches.
func (t *tested) trace(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	began := time.Now()
	out, err := t.run([]string{t.name}, 10*time.Minute, "MODELGATE_TEST_MUTANTS_REACHED="+file)
	if err != nil {
		return fmt.Errorf("%s fails without a mutant: %w\n%s", t.name, err, out)
	}
	t.took, t.reached = time.Since(began), map[int]bool{}
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for word := range strings.FieldsSeq(string(b)) {
		id, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		t.reached[id] = true
	}
	return nil
}

// run runs tests of t's program in their short form until one fails.
func (t tested) run(names []string, limit time.Duration, variable string) ([]byte, error) {
	script := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory)
	cmd := exec.Command("sh", "-c", script, t.program, "-test.short", "-test.failfast", "-test.timeout="+limit.String(), "-test.run=^("+
		strings.Join(names, "|")+")$")
	cmd.Dir = t.folder
	cmd.Env = append(os.Environ(), variable)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.Bytes(), err
}

var timedOut = regexp.MustCompile(`(?m)^panic: test timed out`)

// try runs the tests that reach a mutant and returns its outcome.
func (o options) try(m mutant, tests []tested) string {
	outcome := notReached
	byProgram := map[string][]tested{}
	var programs []string
	for _, t := range tests {
		if t.reached[m.reached] {
			if byProgram[t.program] == nil {
				programs = append(programs, t.program)
			}
			byProgram[t.program] = append(byProgram[t.program], t)
		}
	}
	for _, program := range programs {
		list := byProgram[program]
		slices.SortFunc(list, func(a, b tested) int { return int(a.took - b.took) })
		for part := range slices.Chunk(list, atOnce) {
			limit := time.Duration(0)
			var names []string
			for _, t := range part {
				limit += patience * t.took
				names = append(names, t.name)
			}
			out, err := part[0].run(names, max(limit, o.limit), "MODELGATE_TEST_MUTANT="+strconv.Itoa(m.id))
			if err == nil {
				outcome = survived
				continue
			}
			if timedOut.Match(out) {
				return endless
			}
			return killed
		}
	}
	return outcome
}

// report writes the survivors and the sums, and reports whether they will do.
func (o options) report(out io.Writer, mutants []mutant, outcomes []string, known []explanation) bool {
	count := map[string]int{}
	unexplained := 0
	for i, m := range mutants {
		count[outcomes[i]]++
		if outcomes[i] != survived && outcomes[i] != notReached {
			continue
		}
		reason := find(known, o.pkg, m)
		if reason == "" {
			unexplained++
			reason = "NOT EXPLAINED"
		}
		fmt.Fprintf(out, "%-11s %s: %s\n", outcomes[i], m, reason)
	}
	share := 100 * float64(count[killed]+count[endless]) / float64(len(mutants))
	fmt.Fprintf(out, "%s: %.1f %% of %d killed: %d by a failure, %d without an end; %d survived, %d not reached, %d of these not explained\n",
		o.pkg, share, len(mutants), count[killed], count[endless], count[survived], count[notReached], unexplained)
	return share >= float64(o.least) && unexplained == 0
}
