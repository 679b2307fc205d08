package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is one change of an operator.
type mutant struct {
	id       int    // its switch, from 1
	reached  int    // the switch that reports when its expression is evaluated
	file     string // base name
	line     int
	function string // that it is in; empty outside of functions
	before   string // the expression with its operator
	after    string // the operator that takes its place
}

// change returns the expression and the operator that it gets.
func (m mutant) change() string { return m.before + " with " + m.after }

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s", m.file, m.line, m.function, m.change())
}

var (
	boundaries = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	negations  = map[token.Token]string{token.EQL: "!=", token.NEQ: "==", token.LSS: ">=", token.LEQ: ">", token.GTR: "<=", token.GEQ: "<"}
	inverses   = map[token.Token]string{token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*", token.REM: "*"}
)

// source is a parsed package with its mutants.
type source struct {
	set     *token.FileSet
	files   map[string]*ast.File // by path
	texts   map[string][]byte    // by path
	info    *types.Info
	mutants []mutant
	first   map[ast.Node]int // the first switch of each changed node; a node of two mutants has the next one too
}

// load parses and checks the package of a folder and finds its mutants.
func load(root, folder string) (*source, error) {
	s := &source{
		set: token.NewFileSet(), files: map[string]*ast.File{}, texts: map[string][]byte{},
		info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}, first: map[ast.Node]int{},
	}
	listed, err := command(root, "go", "list", "-f", `{{.Dir}}{{range .GoFiles}}{{"\n"}}{{.}}{{end}}`, "./"+folder)
	if err != nil {
		return nil, err
	}
	dir, names, _ := strings.Cut(strings.TrimSpace(string(listed)), "\n")
	var files []*ast.File
	for name := range strings.FieldsSeq(names) {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(s.set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files[path], s.texts[path] = file, text
		files = append(files, file)
	}
	exports, err := exportData(root, folder)
	if err != nil {
		return nil, err
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(s.set, "gc", open)}
	if _, err := conf.Check(folder, s.set, files, s.info); err != nil {
		return nil, err
	}
	for _, file := range files {
		s.find(file)
	}
	return s, nil
}

// exportData returns the files of export data of a package's imports.
func exportData(root, folder string) (map[string]string, error) {
	out, err := command(root, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./"+folder)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 2 {
			exports[words[0]] = words[1]
		}
	}
	return exports, nil
}

// find adds the mutants of a file.
func (s *source) find(file *ast.File) {
	for _, decl := range file.Decls {
		function := ""
		if f, ok := decl.(*ast.FuncDecl); ok {
			function = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if s.isFixed(n) {
					return true
				}
				s.add(n, function, boundaries[n.Op], negations[n.Op], inverses[n.Op])
			case *ast.UnaryExpr:
				if n.Op == token.SUB && !s.isFixed(n) {
					s.add(n, function, "no sign")
				}
			case *ast.IncDecStmt:
				after := "--"
				if n.Tok == token.DEC {
					after = "++"
				}
				s.add(n, function, after)
			}
			return true
		})
	}
}

// isFixed reports whether an expression is a constant or a string, whose
// operators are not changed.
func (s *source) isFixed(e ast.Expr) bool {
	t := s.info.Types[e]
	if t.Type == nil || t.Value != nil {
		return true
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}

// add adds a mutant of a node for each operator that is not empty.
func (s *source) add(n ast.Node, function string, operators ...string) {
	p := s.set.Position(n.Pos())
	for _, after := range operators {
		if after == "" {
			continue
		}
		id := len(s.mutants) + 1
		if s.first[n] == 0 {
			s.first[n] = id
		}
		s.mutants = append(s.mutants, mutant{
			id: id, reached: s.first[n], file: filepath.Base(p.Filename), line: p.Line, function: function,
			before: s.text(n.Pos(), n.End()), after: after,
		})
	}
}

// text returns the source between two positions of one file.
func (s *source) text(from, to token.Pos) string {
	a, b := s.set.Position(from), s.set.Position(to)
	return string(s.texts[a.Filename][a.Offset:b.Offset])
}

// command runs a command in a folder and returns what it prints.
func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, args[0], err, errs.String())
	}
	return out, nil
}
