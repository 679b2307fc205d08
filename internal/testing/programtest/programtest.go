// Package programtest provides the built program to test suites that run it as
// a process.
//
// It guarantees that the binary is not older than the sources, and that nothing
// of the developer's environment configures it. It does not start the program;
// each suite has its own way to.
package programtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Binary is the environment variable that names a binary to test instead of one
// built from the tree.
const Binary = "MODELGATE_BINARY"

// AllowStale is the environment variable that, if "on", allows a binary that is
// older than the sources, such as that of a release.
const AllowStale = "MODELGATE_BINARY_STALE"

// Previous is the environment variable that names the program of the version before. Without it,
// that is built from the commit or tag in previousFile.
const Previous = "MODELGATE_TEST_PREVIOUS"

const previousFile = "test/conformance/testdata/previous-version.txt"

// BuildPrevious returns the path of the program of the version before: the file that Previous
// names, or one that it builds in the folder dir from the history of the repository.
func BuildPrevious(dir string) (string, error) {
	if named := os.Getenv(Previous); named != "" {
		return named, nil
	}
	built := filepath.Join(dir, "previous", "bin", "modelgate")
	out, err := exec.Command("sh", "-c", `set -e
		mkdir -p "$0/previous/tree"
		top=$(git rev-parse --show-toplevel)
		git -C "$top" archive --output="$0/previous/tree.tar" "$(cat "$top/$1")"
		tar -xf "$0/previous/tree.tar" -C "$0/previous/tree"
		cd "$0/previous/tree"
		go build -trimpath -o "$2" ./cmd/modelgate`, dir, previousFile, built).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the version before, of %s: %w\n%s\nfetch the complete history, or name its program in %s", previousFile, err, out, Previous)
	}
	return built, nil
}

// Build returns the absolute path of the program to test: the file that Binary
// names, or one that it builds in the folder dir. It writes to log which one
// that is. A named binary must be at least as new as every file that it would be
// built from, unless AllowStale permits another.
func Build(dir string, log io.Writer) (string, error) {
	named := os.Getenv(Binary)
	if named == "" {
		path := filepath.Join(dir, "modelgate")
		if out, err := exec.Command("go", "build", "-o", path, "modelgate/cmd/modelgate").CombinedOutput(); err != nil {
			return "", fmt.Errorf("building modelgate: %w\n%s", err, out)
		}
		fmt.Fprintln(log, "TESTED BINARY: built from this tree")
		return path, nil
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", Binary, err)
	}
	fmt.Fprintf(log, "TESTED BINARY: %s, built at %s (from %s)\n", path, info.ModTime().Format(time.RFC3339), Binary)
	if os.Getenv(AllowStale) == "on" {
		return path, nil
	}
	files, err := sources()
	if err != nil {
		return "", err
	}
	return path, checkAge(path, info.ModTime(), files)
}

// checkAge returns an error if one of the files changed after the binary at path
// was built.
func checkAge(path string, built time.Time, files []string) error {
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.ModTime().After(built) {
			return fmt.Errorf("%s names %s, which is older than %s: build it again, or set %s=on to test it as it is", Binary, path, name,
				AllowStale)
		}
	}
	return nil
}

// sources returns the files of this module that the program is built from, those
// that it embeds included.
func sources() ([]string, error) {
	const format = `{{if and .Module .Module.Main}}{{$dir := .Dir}}{{.Module.GoMod}}
{{range .GoFiles}}{{$dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}
{{end}}{{end}}`
	out, err := exec.Command("go", "list", "-deps", "-f", format, "modelgate/cmd/modelgate").Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("listing the sources of modelgate: %w\n%s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the sources of modelgate: %w", err)
	}
	files := strings.Fields(string(out))
	slices.Sort(files)
	return slices.Compact(files), nil
}

// kept are the variables of the developer's environment that a program under
// test and the programs next to it need to run at all.
var kept = []string{"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "GOCOVERDIR", "GORACE", "GOTRACEBACK"}

// Env returns the environment for a program under test: the few variables that
// every program needs, then extra, each NAME=value. Settings of a gateway,
// credentials of clouds and proxies of the developer are not among them.
func Env(extra ...string) []string {
	var env []string
	for _, name := range kept {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}
