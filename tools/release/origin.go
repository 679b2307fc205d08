package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile has the checksums of all files of the release but originFile, which says where they
// come from.
const (
	sumsFile   = "SHA256SUMS"
	originFile = "provenance.json"
)

// writeSums writes the checksums.
func (r *release) writeSums(context.Context) error {
	var text strings.Builder
	err := r.eachFile(func(name, sum string) { fmt.Fprintf(&text, "%s  %s\n", sum, name) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(text.String()), 0o644)
}

// eachFile calls do with each file of the release and its SHA-256, in the order of their names.
func (r *release) eachFile(do func(name, sum string)) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == sumsFile || e.Name() == originFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		do(e.Name(), hex.EncodeToString(sum[:]))
	}
	return nil
}

// subject is a file whose origin is stated.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// writeOrigin writes where the files come from, in the form of SLSA (https://slsa.dev/provenance/v1):
// from which commit and with which version of Go, so that everybody can build them again. It is
// not signed; whoever publishes a release signs it.
func (r *release) writeOrigin(ctx context.Context) error {
	var subjects []subject
	if err := r.eachFile(func(name, sum string) { subjects = append(subjects, subject{name, map[string]string{"sha256": sum}}) }); err != nil {
		return err
	}
	toolchain, err := output(ctx, nil, "go", "env", "GOVERSION")
	if err != nil {
		return err
	}
	modules, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	locked := sha256.Sum256(modules)
	statement := map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          "https://slsa.dev/spec/v1.0/provenance#generic-command",
				"externalParameters": map[string]any{"command": "make release", "version": r.version},
				"internalParameters": map[string]any{"go": toolchain},
				"resolvedDependencies": []map[string]any{
					{"uri": "git+modelgate", "digest": map[string]string{"gitCommit": r.commit}},
					{"uri": "go.sum", "digest": map[string]string{"sha256": hex.EncodeToString(locked[:])}},
				},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "modelgate/tools/release"}},
		},
	}
	text, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, originFile), append(text, '\n'), 0o644)
}
