package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// switchesFile declares the functions that changed expressions call. A text, not
// Go source of this package: it becomes a file of the package that is changed.
//
//go:embed switches.txt
var switchesFile string

// calls are the functions of switches.txt that take the place of operators.
var calls = map[token.Token]string{
	token.LSS: "mutantLess", token.LEQ: "mutantAtMost", token.GTR: "mutantMore", token.GEQ: "mutantAtLeast",
	token.ADD: "mutantSum", token.SUB: "mutantDifference", token.MUL: "mutantProduct", token.QUO: "mutantQuotient", token.REM: "mutantRest",
}

// render returns a file's source in which every mutant can be switched on.
func (s *source) render(path string) string {
	f := s.set.File(s.files[path].FileStart)
	return s.span(s.files[path], f.Pos(0), f.Pos(f.Size()))
}

// span returns the source between two positions with the changed nodes of root
// in it replaced. Lines stay where they are, unless an expression has several.
func (s *source) span(root ast.Node, from, to token.Pos) string {
	var b strings.Builder
	at := from
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil || s.first[n] == 0 {
			return true
		}
		b.WriteString(s.text(at, n.Pos()))
		b.WriteString(s.replacement(n))
		at = n.End()
		return false
	})
	b.WriteString(s.text(at, to))
	return b.String()
}

// replacement returns the source of a changed node.
func (s *source) replacement(n ast.Node) string {
	id := s.first[n]
	part := func(e ast.Expr) string { return s.span(e, e.Pos(), e.End()) }
	switch n := n.(type) {
	case *ast.BinaryExpr:
		x, y := part(n.X), part(n.Y)
		if n.Op == token.EQL || n.Op == token.NEQ {
			return fmt.Sprintf("((%s %s %s) != mutantOn(%d))", x, n.Op, y, id)
		}
		return fmt.Sprintf("%s(%d, %s, %s)", calls[n.Op], id, x, y)
	case *ast.UnaryExpr:
		return fmt.Sprintf("mutantNegative(%d, %s)", id, part(n.X))
	case *ast.IncDecStmt:
		operator := "+="
		if n.Tok == token.DEC {
			operator = "-="
		}
		x := s.text(n.X.Pos(), n.X.End())
		return fmt.Sprintf("%s %s mutantStep(%d, %s)", x, operator, id, x)
	}
	panic(fmt.Sprintf("no replacement of a %T", n))
}
