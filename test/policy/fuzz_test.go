package policy_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// fuzzTest is a fuzz test with its code, which ends at the margin.
var fuzzTest = regexp.MustCompile(`(?ms)^func (Fuzz\w+)\(\w+ \*testing\.F\) \{$.*?^\}$`)

// TestEveryFuzzTestHasSeeds keeps fuzz tests from starting with nothing: a test has
// a seed in its code, by f.Add, or a file below testdata/fuzz. Ordinary test runs
// try both.
func TestEveryFuzzTestHasSeeds(t *testing.T) {
	files := map[string][]byte{}
	seeds := map[string]bool{}
	for _, name := range mustFiles(t) {
		switch folder := path.Dir(name); {
		case strings.HasSuffix(name, "_test.go"):
			files[name] = mustRead(t, name)
		case strings.Contains(folder, "testdata/fuzz/"):
			seeds[folder] = true
		}
	}
	problems, found := unseeded(files, seeds)
	report(t, problems)
	if found < 60 {
		t.Errorf("found %d fuzz tests, want at least 60: are they written in another way?", found)
	}
}

func TestSeedPolicyNoticesEveryBreach(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		seeds      map[string]bool
		want       int
	}{
		{"in the code", "func FuzzA(f *testing.F) {\n\tf.Add(1)\n}\n", nil, 0},
		{"in a file", "func FuzzA(f *testing.F) {\n}\n", map[string]bool{"p/testdata/fuzz/FuzzA": true}, 0},
		{"none", "func FuzzA(f *testing.F) {\n}\n\nfunc g() { f.Add(1) }\n", nil, 1},
		{"of another test", "func FuzzA(f *testing.F) {\n}\n\nfunc FuzzB(f *testing.F) {\n\tf.Add(1)\n}\n", map[string]bool{"q/testdata/fuzz/FuzzA": true}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := unseeded(map[string][]byte{"p/p_test.go": []byte(tt.code)}, tt.seeds); len(got) != tt.want {
				t.Errorf("unseeded = %q, want %d", got, tt.want)
			}
		})
	}
}

// unseeded returns the breaches in test files, and how many fuzz tests these have.
// seeds are the folders with seeds.
func unseeded(files map[string][]byte, seeds map[string]bool) (problems []string, found int) {
	for name, code := range files {
		for _, f := range fuzzTest.FindAllSubmatch(code, -1) {
			found++
			folder := path.Join(path.Dir(name), "testdata/fuzz", string(f[1]))
			if !seeds[folder] && !strings.Contains(string(f[0]), "f.Add(") {
				problems = append(problems, name+": "+string(f[1])+" has no seed; call f.Add, or put a file into "+folder)
			}
		}
	}
	return problems, found
}
