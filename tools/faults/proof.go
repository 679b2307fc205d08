package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
)

// proof records that a test of a statement failed with a fault, or why the
// statement has no such record yet.
type proof struct {
	Statement string `yaml:"statement"`
	Open      string `yaml:"open,omitempty"` // the reason; the other fields are empty then
	Fault     string `yaml:"fault,omitempty"`
	Case      string `yaml:"case,omitempty"` // TestX/sub of the conformance suite, test/security.TestX/sub of another package
	Message   string `yaml:"message,omitempty"`
}

// addProofs adds proofs to a file, in order of statements. A proof replaces
// another of the same statement and fault, and the reason that its statement is
// open. A file that is missing is created.
func addProofs(path string, proofs []proof) error {
	var list []proof
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
			return err
		}
	}
	for _, p := range proofs {
		i := slices.IndexFunc(list, func(o proof) bool { return o.Statement == p.Statement && (o.Fault == p.Fault || o.Open != "") })
		if i >= 0 {
			list[i] = p
			continue
		}
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b proof) int { return cmp.Compare(a.Statement, b.Statement) })
	return os.WriteFile(path, format(list), 0o644)
}

// format returns proofs as YAML. Texts are always quoted, so that a new proof
// changes no line of another.
func format(list []proof) []byte {
	var b bytes.Buffer
	for _, p := range list {
		fmt.Fprintf(&b, "- statement: %s\n", p.Statement)
		for _, f := range [][2]string{{"open", p.Open}, {"fault", p.Fault}, {"case", p.Case}, {"message", p.Message}} {
			if f[1] != "" {
				fmt.Fprintf(&b, "  %s: %q\n", f[0], f[1])
			}
		}
	}
	return b.Bytes()
}
