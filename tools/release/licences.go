package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a module whose code is in a binary.
type module struct{ Path, Version, Dir string }

// moduleLine is a line of go list for the module of a package.
const moduleLine = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"

// modules returns those of all binaries of the release, and where their sources are.
func (r *release) modules(ctx context.Context) ([]module, error) {
	found := map[string]module{}
	for _, p := range r.platforms {
		env := []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS=-mod=readonly"}
		text, err := output(ctx, env, "go", "list", "-deps", "-f", moduleLine, "./cmd/modelgate")
		if err != nil {
			return nil, err
		}
		listed := map[string]module{}
		for line := range strings.Lines(text) {
			if path, rest, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				version, dir, _ := strings.Cut(rest, "\t")
				listed[path] = module{path, version, dir}
			}
		}
		info, err := buildinfo.ReadFile(r.binary(p))
		if err != nil {
			return nil, err
		}
		for _, d := range info.Deps {
			m := listed[d.Path]
			if d.Replace != nil || m.Version != d.Version || m.Dir == "" {
				return nil, fmt.Errorf("the binary has %s %s, which is not the module that is listed", d.Path, d.Version)
			}
			found[d.Path] = m
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// licenceFile matches the names of files with the terms of a module.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// writeLicences writes the licences of everything that is in the binaries: their terms
// ask for it. A module without one is an error.
func (r *release) writeLicences(ctx context.Context) error {
	list, err := r.modules(ctx)
	if err != nil {
		return err
	}
	root, err := output(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	list = append([]module{{Path: "Go", Dir: root}}, list...)
	var text bytes.Buffer
	own, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "modelgate is licensed under these terms:\n\n%s\nIt contains the software below under their own terms.\n", own)
	for _, m := range list {
		n := 0
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() || !licenceFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			terms, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
			if err != nil {
				return err
			}
			name := strings.TrimSpace(m.Path + " " + m.Version)
			fmt.Fprintf(&text, "\n%s\n%s (%s)\n\n%s\n", strings.Repeat("=", 80), name, e.Name(), bytes.TrimSpace(terms))
			n++
		}
		if n == 0 {
			return fmt.Errorf("the module %s has no licence", m.Path)
		}
	}
	return os.WriteFile(filepath.Join(r.out, "LICENSES.txt"), text.Bytes(), 0o644)
}
