package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is a module whose code is in a binary.
type module struct{ Path, Version, Dir string }

// modules returns those of all binaries of the release, and where their sources are.
func (r *release) modules(ctx context.Context) ([]module, error) {
	found := map[string]module{}
	for _, p := range r.platforms {
		info, err := buildinfo.ReadFile(r.binary(p))
		if err != nil {
			return nil, err
		}
		for _, d := range info.Deps {
			if d.Replace != nil {
				return nil, fmt.Errorf("%s is replaced", d.Path)
			}
			found[d.Path] = module{Path: d.Path, Version: d.Version}
		}
	}
	text, err := output(ctx, []string{"GOFLAGS=-mod=mod"}, "go", "list", "-m", "-json", "all")
	if err != nil {
		return nil, err
	}
	var list []module
	for all := json.NewDecoder(strings.NewReader(text)); ; {
		var m module
		if err := all.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if have, ok := found[m.Path]; ok && have.Version == m.Version {
			list = append(list, m)
		}
	}
	if len(list) != len(found) {
		return nil, fmt.Errorf("%d of %d modules have no source here; run go mod download", len(found)-len(list), len(found))
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
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
