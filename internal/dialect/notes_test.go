package dialect_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestDialectsHaveNoNotesOfTheirOwn guarantees that equal changes have equal notes:
// those of notes.go. A literal is the name or the value that is sent.
func TestDialectsHaveNoNotesOfTheirOwn(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range append(files, own...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, note := range notesIn(n) {
				found++
				if text := sentenceIn(note); text != "" {
					t.Errorf("%s: the note %s is not in notes.go", positions.Position(note.Pos()), text)
				}
			}
			return true
		})
	}
	if found < 100 {
		t.Errorf("found %d notes, want those of all dialects", found)
	}
}

// notesIn returns the notes that a call, an assignment or a member sets.
func notesIn(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		if set := map[string]bool{"Adapt": true, "AdaptNamed": true, "adapt": true, "announce": true, "record": true}; set[nameOf(n.Fun)] {
			return n.Args[len(n.Args)-1:]
		}
	case *ast.KeyValueExpr:
		if nameOf(n.Key) == "Note" {
			return []ast.Expr{n.Value}
		}
	case *ast.AssignStmt:
		var notes []ast.Expr
		for i, to := range n.Lhs {
			if strings.HasSuffix(strings.ToLower(nameOf(to)), "note") && len(n.Rhs) == len(n.Lhs) {
				notes = append(notes, n.Rhs[i])
			}
		}
		return notes
	}
	return nil
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// sentenceIn returns the first literal of an expression that is more than one word.
func sentenceIn(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && nameOf(call.Fun) == "SentIn" {
			return false // the member's name may have several words
		}
		if l, ok := n.(*ast.BasicLit); ok && text == "" && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
			text = l.Value
		}
		return true
	})
	return text
}
