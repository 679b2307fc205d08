package main

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

// packageText describes the packages for Linux distributions.
//
//go:embed nfpm.yaml
var packageText string

// manualFolder returns where the manual pages and the completions for shells are while packages
// are built.
func (r *release) manualFolder() string { return filepath.Join(r.out, ".manual") }

// writeManual writes the manual pages and the completions.
func (r *release) writeManual(ctx context.Context) error {
	folder := r.manualFolder()
	if err := os.MkdirAll(filepath.Join(folder, "man"), 0o755); err != nil {
		return err
	}
	here := platform{runtime.GOOS, runtime.GOARCH}
	program := r.binary(here)
	if !slices.Contains(r.platforms, here) {
		program = filepath.Join(folder, "modelgate")
		if err := r.compile(ctx, here, program); err != nil {
			return err
		}
	}
	dated := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
	if _, err := output(ctx, dated, program, "man", filepath.Join(folder, "man")); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := output(ctx, nil, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error { // the time is that of the commit in packages
		if err != nil {
			return err
		}
		return os.Chtimes(path, r.time, r.time)
	})
}

// buildPackages builds the packages for Debian, Red Hat and Alpine, and their relatives.
func (r *release) buildPackages(ctx context.Context) error {
	defer os.RemoveAll(r.manualFolder())
	text, err := template.New("nfpm.yaml").Option("missingkey=error").Parse(packageText)
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		var config strings.Builder
		if err := text.Execute(&config, map[string]string{
			"Arch": p.arch, "Version": r.version, "Summary": summary, "Binary": r.binary(p), "Manual": r.manualFolder(),
			"Licences": filepath.Join(r.out, "LICENSES.txt"), "Time": r.time.Format("2006-01-02T15:04:05Z"),
		}); err != nil {
			return err
		}
		file := filepath.Join(r.manualFolder(), "nfpm.yaml")
		if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
			return err
		}
		for _, kind := range []string{"deb", "rpm", "apk"} {
			env := []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()), "GOFLAGS=", "GOOS=", "GOARCH="}
			if _, err := output(ctx, env, "go", "tool", releaseTools, "nfpm", "package", "--config", file, "--packager", kind,
				"--target", filepath.Join(r.out, fmt.Sprintf("modelgate-%s-%s.%s", r.version, p.arch, kind))); err != nil {
				return err
			}
		}
	}
	return nil
}
