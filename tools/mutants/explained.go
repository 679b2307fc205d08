package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// explanation says why a mutant may survive. It holds for every mutant of the
// function with the same expression and operator.
type explanation struct {
	Package  string `yaml:"package"`  // its folder
	File     string `yaml:"file"`     // base name
	Function string `yaml:"function"` // empty outside of functions
	Before   string `yaml:"before"`   // the expression
	After    string `yaml:"after"`    // the operator in it that makes no difference
	Reason   string `yaml:"reason"`
}

// readExplained reads a list of explanations. The path is relative to root; an
// empty one is an empty list.
func readExplained(root, path string) ([]explanation, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	var list []explanation
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, e := range list {
		if e.Package == "" || e.File == "" || e.Before == "" || e.After == "" || e.Reason == "" {
			return nil, fmt.Errorf("%s: entry %d: package, file, before, after and reason are required", path, i+1)
		}
	}
	return list, nil
}

// find returns the reason why a mutant may survive, empty for none.
func find(list []explanation, folder string, m mutant) string {
	for _, e := range list {
		if e.Package == folder && e.File == m.file && e.Function == m.function && e.Before == m.before && e.After == m.after {
			return e.Reason
		}
	}
	return ""
}
