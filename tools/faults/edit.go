package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

// edit is one fault: the changes that make it and the statements that it breaks.
type edit struct {
	Statements []string `yaml:"statements"`
	Fault      string   `yaml:"fault"`
	Changes    []change `yaml:"changes"`
	Tests      []string `yaml:"tests"` // nil means those that the page names
}

// change replaces a text that a file holds exactly once.
type change struct {
	File string `yaml:"file"` // relative to the root
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// readEdits reads a list of edits from a file, or from standard input for "-".
func readEdits(path string) ([]edit, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var list []edit
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: the file has no edits", path)
	}
	for i, e := range list {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: edit %d: %w", path, i+1, err)
		}
	}
	return list, nil
}

// check returns what an edit lacks.
func (e edit) check() error {
	switch {
	case len(e.Statements) == 0:
		return errors.New("statements is required")
	case e.Fault == "":
		return errors.New("fault is required")
	case len(e.Changes) == 0:
		return errors.New("changes is required")
	}
	for _, c := range e.Changes {
		if c.File == "" || c.Old == "" {
			return errors.New("each change needs file and old")
		}
		if !filepath.IsLocal(c.File) {
			return fmt.Errorf("%s must be a path inside the repository", c.File)
		}
	}
	return nil
}

// overlay writes the edited files and the overlay that the go command reads them
// by into the folder dir, under their paths, and returns the overlay's path. It returns an error
// when a text is not in its file exactly once.
func (e edit) overlay(root, dir string) (string, error) {
	edited := map[string]string{}
	for _, c := range e.Changes {
		text, ok := edited[c.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, c.File))
			if err != nil {
				return "", err
			}
			text = string(b)
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return "", fmt.Errorf("%s: the text is there %d times, must be once", c.File, n)
		}
		edited[c.File] = strings.Replace(text, c.Old, c.New, 1)
	}
	replace := map[string]string{}
	for file, text := range edited {
		copied := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}
