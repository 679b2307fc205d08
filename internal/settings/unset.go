package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"modelgate/internal/base/secret"
)

// unsetVariables finds environment variables and remembers those that are not set, so that
// all of them can be reported at once.
type unsetVariables struct {
	lookup func(name string) (string, bool)
	names  map[string]bool
}

// standIn is the value of a variable that is not set. The file is rejected, so nothing uses it.
const standIn = "not-set"

// find returns the value of a variable, as Env of a [SecretResolver].
func (u *unsetVariables) find(name string) (string, bool) {
	text, ok := u.lookup(name)
	if v, err := secret.Parse(text); ok && (err != nil || !v.Empty()) {
		return text, true
	}
	if u.names == nil {
		u.names = make(map[string]bool)
	}
	u.names[name] = true
	return standIn, true
}

// report returns an error for each place in the file that names a variable that is not set.
func (u *unsetVariables) report(file string, root ast.Node) error {
	if len(u.names) == 0 {
		return nil
	}
	p := &places{unset: maps.Clone(u.names), file: file}
	ast.Walk(p, root)
	for _, name := range slices.Sorted(maps.Keys(u.names)) {
		if p.unset[name] { // not written as plain text, but by an anchor for example
			p.add(&FileError{Problem: unsetProblem(name)})
		}
	}
	return errors.Join(p.list...)
}

func unsetProblem(name string) string {
	return fmt.Sprintf("the environment variable %s is not set", name)
}

// places collects an error for each text that names an unset variable.
type places struct {
	unset map[string]bool // false once a place was found
	file  string
	list  []error
}

func (p *places) add(e *FileError) {
	e.File = p.file
	p.list = append(p.list, e)
}

// Visit implements ast.Visitor.
func (p *places) Visit(n ast.Node) ast.Visitor {
	text, ok := n.(*ast.StringNode)
	if !ok {
		return p
	}
	m := envForm.FindStringSubmatch(text.Value)
	if m == nil {
		return p
	}
	if _, unset := p.unset[m[1]]; unset {
		p.unset[m[1]] = false
		line, column := position(n)
		p.add(&FileError{Line: line, Column: column, Path: strings.TrimPrefix(n.GetPath(), "$."), Problem: unsetProblem(m[1])})
	}
	return p
}
