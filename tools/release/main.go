// Command release builds what a release consists of into a folder: static binaries, packages
// for Linux distributions, for npm and for PyPI, an install script, a list of components, the
// terms of their licences, a statement of origin, and the checksums of all.
//
// The same commit and the same version of Go give the same bytes on any machine: nothing depends
// on time, user, path or order. It builds and writes, and publishes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platform is what a binary runs on, in Go's words.
type platform struct{ os, arch string }

// platforms are all that a release has binaries for.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// release is what is built.
type release struct {
	out       string
	version   string // semantic
	commit    string
	address   string    // where install.sh downloads from; empty if the user has to say
	time      time.Time // of the commit, which files in packages get
	platforms []platform
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	out := flags.String("out", "dist", "`folder` to write; it is emptied first")
	only := flags.String("platforms", "", "comma-separated `list` such as linux/amd64; empty builds all")
	address := flags.String("address", "", "https `address` that the files of this version will have, for install.sh")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := release{out: *out, address: strings.TrimSuffix(*address, "/"), platforms: platforms}
	if *only != "" {
		r.platforms = nil
		for name := range strings.SplitSeq(*only, ",") {
			i := slices.IndexFunc(platforms, func(p platform) bool { return p.os+"/"+p.arch == name })
			if i < 0 {
				return fmt.Errorf("%q is not a platform of releases; use %s", name, describePlatforms())
			}
			r.platforms = append(r.platforms, platforms[i])
		}
	}
	if err := r.describe(ctx); err != nil {
		return err
	}
	return r.build(ctx)
}

func describePlatforms() string {
	names := make([]string, len(platforms))
	for i, p := range platforms {
		names[i] = p.os + "/" + p.arch
	}
	return strings.Join(names, ", ")
}

// describe finds the version, the commit and its time.
func (r *release) describe(ctx context.Context) error {
	var err error
	if r.version, err = output(ctx, nil, "tools/version.sh"); err != nil {
		return err
	}
	r.time = time.Unix(0, 0).UTC()
	if r.commit, err = output(ctx, nil, "git", "rev-parse", "HEAD"); err != nil {
		r.commit = "" // a source archive without its history
		return nil
	}
	seconds, err := output(ctx, nil, "git", "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	var unix int64
	if _, err := fmt.Sscan(seconds, &unix); err != nil {
		return fmt.Errorf("the time of the commit is %q", seconds)
	}
	r.time = time.Unix(unix, 0).UTC()
	return nil
}

// build makes everything, each step from what earlier ones have written.
func (r *release) build(ctx context.Context) error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"binaries", r.buildBinaries}, {"licences", r.writeLicences}, {"manual", r.writeManual}, {"components", r.listComponents},
		{"packages", r.buildPackages}, {"npm", r.buildNodePackages}, {"wheels", r.buildWheels}, {"install script", r.writeInstaller},
		{"checksums", r.writeSums}, {"origin", r.writeOrigin},
	} {
		fmt.Println("release:", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// binary returns the path of the binary for a platform.
func (r *release) binary(p platform) string {
	name := fmt.Sprintf("modelgate-%s-%s-%s", r.version, p.os, p.arch)
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.out, name)
}

// buildBinaries builds the static binaries.
func (r *release) buildBinaries(ctx context.Context) error {
	for _, p := range r.platforms {
		if err := r.compile(ctx, p, r.binary(p)); err != nil {
			return err
		}
		fmt.Println("release:   " + filepath.Base(r.binary(p)))
	}
	return nil
}

// compile builds the program for a platform.
func (r *release) compile(ctx context.Context, p platform, to string) error {
	env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0"}
	_, err := output(ctx, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+r.version+" -X main.commit="+r.commit, "-o", to, "./cmd/modelgate")
	return err
}

// output runs a command and returns what it prints, without the last line break. The error
// has what it printed to standard error.
func output(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(append([]string{name}, args...), " "), err, failed.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
