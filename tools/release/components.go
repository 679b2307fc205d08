package main

import (
	"context"
	"path/filepath"
)

// releaseTools are the modules of the programs that releases are made with, which stay out of
// those of the program itself.
const releaseTools = "-modfile=tools/release.mod"

// listComponents writes the list of all modules in the binaries with their licences (SBOM), in the
// form of CycloneDX. It derives from one of the binaries: all have the same modules, except for
// what only Windows needs.
func (r *release) listComponents(ctx context.Context) error {
	_, err := output(ctx, []string{"GOFLAGS=", "GOOS=", "GOARCH="}, "go", "tool", releaseTools, "cyclonedx-gomod", "bin", "-json", "-licenses",
		"-noserial", "-notimestamp", "-version", r.version, "-output", filepath.Join(r.out, "sbom.cdx.json"), r.binary(r.platforms[0]))
	return err
}
