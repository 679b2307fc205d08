package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completionCase is a command line of which the last word is completed, and the words to
// which it is.
type completionCase struct {
	line string
	want []string
	not  []string
}

var completionCases = []completionCase{
	{"modelgate ke", []string{"keys"}, []string{"serve"}},
	{"modelgate keys ", []string{"create", "list", "revoke", "rotate-master"}, []string{"serve"}},
	{"modelgate keys cr", []string{"create"}, []string{"list"}},
	{"modelgate keys create --na", []string{"--name"}, []string{"--data"}},
	{"modelgate serve --log-level ", []string{"debug", "info", "warn", "error"}, nil},
	{"modelgate logs export --format p", []string{"parquet"}, []string{"csv"}},
	{"modelgate tail --provider open", []string{"openai", "openrouter"}, []string{"anthropic"}},
	{"modelgate keys create --providers openr", []string{"openrouter"}, []string{"openai"}},
	{"modelgate prices diff li", []string{"litellm"}, []string{"models-dev"}},
	{"modelgate schema ", []string{"settings", "config"}, nil},
	{"modelgate completion f", []string{"fish"}, []string{"bash"}},
	{"modelgate help keys rev", []string{"revoke"}, []string{"create"}},
}

// mustProgram returns a folder with this program under its name.
func mustProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "modelgate")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shells are the shells in which completion is tested if they are installed, with a
// script that completes a line: its arguments are the file of completion and the line.
var shells = []struct {
	name, script string
	needed       bool
}{
	{"bash", `
# What the package bash-completion provides.
_get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
}
source "$1"
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9
read -ra COMP_WORDS <<<"$2"
[[ $2 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete -p modelgate >&2 || exit 3
__start_modelgate 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"`, true},
	{"fish", `source $argv[1]; complete --do-complete $argv[2]`, false},
	{"zsh", "", false}, // completes at a terminal alone, so only its syntax is checked
}

func TestShellsCompleteCommandsFlagsAndValues(t *testing.T) {
	dir := mustProgram(t)
	for _, shell := range shells {
		path, err := exec.LookPath(shell.name)
		if err != nil && !shell.needed {
			t.Logf("%s is not installed", shell.name)
			continue
		}
		code, script, errs := invoke(t, nil, "", "completion", shell.name)
		if code != 0 {
			t.Fatalf("completion %s = %d: %s", shell.name, code, errs)
		}
		file, driver := filepath.Join(dir, "script."+shell.name), filepath.Join(dir, "driver."+shell.name)
		mustWrite(t, file, script)
		if shell.script == "" {
			if out, err := exec.CommandContext(t.Context(), path, "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s -n: %v\n%s", shell.name, err, out)
			}
			continue
		}
		mustWrite(t, driver, shell.script)
		for _, c := range completionCases {
			cmd := exec.CommandContext(t.Context(), path, driver, file, c.line)
			cmd.Env = append(os.Environ(), asCommand+"=on", "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %q: %v", shell.name, c.line, err)
			}
			checkCompletion(t, shell.name, c, string(out))
		}
	}
}

func checkCompletion(t *testing.T, shell string, c completionCase, out string) {
	t.Helper()
	var words []string // each line has a word and its description
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 0 {
			words = append(words, fields[0])
		}
	}
	for _, want := range c.want {
		if !slices.Contains(words, want) {
			t.Errorf("%s completes %q to %q, want %s", shell, c.line, words, want)
		}
	}
	for _, not := range c.not {
		if slices.Contains(words, not) {
			t.Errorf("%s completes %q to %q, which has %s", shell, c.line, words, not)
		}
	}
}

func TestEveryShellHasACompletionScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, errs := invoke(t, nil, "", "completion", shell)
		if code != 0 || !strings.Contains(out, "__complete") || errs != "" {
			t.Errorf("completion %s = %d, %d bytes, %q", shell, code, len(out), errs)
		}
	}
}

func TestValuesToCompleteAreAccepted(t *testing.T) {
	flags := make(map[string]bool)
	for _, c := range listed(newProgram().tree(nil, nil)) {
		for _, name := range flagNames(c) {
			flags[name] = true
		}
	}
	for name, list := range values {
		if !flags[name] || len(list()) < 2 {
			t.Errorf("--%s has the values %q, but no command has the flag: %t", name, list(), !flags[name])
		}
	}
	dir := t.TempDir()
	for _, tt := range []struct {
		flag string
		args []string
		says string
	}{
		{"log-level", []string{"serve", "--data", dir, "--config", "absent.yaml"}, "absent.yaml"},
		{"log-format", []string{"serve", "--data", dir, "--config", "absent.yaml"}, "absent.yaml"},
		{"secrets", []string{"export", "--data", dir + "/absent"}, ""},
		{"received-by", []string{"audit", "prune", "--days", "1", "--data", dir + "/absent"}, ""},
	} {
		for _, value := range values[tt.flag]() {
			code, _, errs := invoke(t, nil, "", append(tt.args, fmt.Sprintf("--%s=%s", tt.flag, value))...)
			if code == 2 || !strings.Contains(errs, tt.says) {
				t.Errorf("--%s %s = %d: %s", tt.flag, value, code, errs)
			}
		}
	}
}
