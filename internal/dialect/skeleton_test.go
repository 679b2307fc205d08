package dialect_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// jobs are the files of a dialect package: what each declares where the dialect
// does the job. A file that has grown is split by a suffix, as in
// decode_stream_calls.go. The file named after the package has the rest of Dialect.
var jobs = []struct {
	file    string
	typ     string   // the type that does it
	methods []string // those of Dialect
}{
	{file: "check", methods: []string{"Check", "Defaults"}},
	{file: "decode_request", typ: "requestDecoder", methods: []string{"DecodeRequest"}},
	{file: "encode_response", methods: []string{"EncodeResponse"}},
	{file: "encode_stream", typ: "streamEncoder", methods: []string{"NewEncoder"}},
	{file: "tap", typ: "tap", methods: []string{"NewTap"}},
	{file: "cut_stream", typ: "cutter", methods: []string{"NewCutter"}},
	{file: "error", methods: []string{"Error", "ErrorEvent", "ProviderError"}},
	{file: "encode_request", typ: "requestEncoder", methods: []string{"EncodeRequest"}},
	{file: "decode_response", methods: []string{"DecodeResponse"}},
	{file: "decode_stream", typ: "streamDecoder", methods: []string{"NewDecoder"}},
	{file: "continue", methods: []string{"Delta", "WithDelta", "Continue"}},
	{file: "clean", methods: []string{"Clean"}},
	{file: "count", methods: []string{"DecodeCountRequest", "EncodeCountResponse", "EncodeCountRequest", "DecodeCountResponse"}},
	{file: "translate", methods: []string{"Translator"}},
	{file: "translate_client", methods: []string{"ClientTranslator"}},
	{file: "job", methods: []string{"ReadJob"}},
	{file: "usage"},
	{file: "stop"},
	{file: "model"},
	{file: "reader", typ: "reader"},
	{file: "writer", typ: "writer"},
	{file: "names"},
	{file: "media"},
	{file: "citations"},
	{file: "signature"},
	{file: "invoke", typ: "Invoke"},
}

// sides are the files that a dialect has together.
var sides = map[string][]string{
	"decode_request": {"check", "encode_response", "encode_stream", "tap", "cut_stream", "error"},
	"encode_request": {"decode_response", "decode_stream"},
}

func TestDialectPackagesHaveOneSkeleton(t *testing.T) {
	dirs, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]map[string]declared{}
	for _, path := range dirs {
		pkg, file := filepath.Dir(path), strings.TrimSuffix(filepath.Base(path), ".go")
		if pkg == "dialecttest" || strings.HasSuffix(file, "_test") {
			continue
		}
		if files[pkg] == nil {
			files[pkg] = map[string]declared{}
		}
		files[pkg][file] = mustParse(t, path)
	}
	for pkg, list := range files {
		for file, has := range list {
			checkFile(t, pkg, file, has)
		}
		for file, others := range sides {
			for _, other := range others {
				_, one := list[file]
				if _, both := list[other]; one && !both {
					t.Errorf("%s has %s.go but no %s.go", pkg, file, other)
				}
			}
		}
	}
	if len(files) < 9 {
		t.Errorf("found %d dialect packages, want 9 or more", len(files))
	}
}

// checkFile reports a file without a job, and declarations that belong elsewhere.
func checkFile(t *testing.T, pkg, file string, has declared) {
	t.Helper()
	known := file == pkg
	for _, job := range jobs {
		known = known || file == job.file || strings.HasPrefix(file, job.file+"_")
		if file == job.file {
			for _, m := range job.methods {
				if !slices.Contains(has.methods, m) && !optional[m] {
					t.Errorf("%s/%s.go does not declare the method %s of Dialect", pkg, file, m)
				}
			}
			if job.typ != "" && !slices.Contains(has.types, job.typ) {
				t.Errorf("%s/%s.go does not declare the type %s", pkg, file, job.typ)
			}
			continue
		}
		for _, m := range job.methods {
			if slices.Contains(has.methods, m) {
				t.Errorf("%s/%s.go declares the method %s of Dialect; move it to %s.go", pkg, file, m, job.file)
			}
		}
		if job.typ != "" && slices.Contains(has.types, job.typ) {
			t.Errorf("%s/%s.go declares the type %s; move it to %s.go", pkg, file, job.typ, job.file)
		}
	}
	if !known {
		t.Errorf("%s/%s.go is not a file of the skeleton; name it after its job", pkg, file)
	}
}

// optional are methods that a dialect may lack although it does the job: converse
// has no clients that count tokens.
var optional = map[string]bool{"DecodeCountRequest": true, "EncodeCountResponse": true}

// declared are the types of a file and the methods that it gives Dialect.
type declared struct{ types, methods []string }

func mustParse(t *testing.T, path string) declared {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var has declared
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			if of, ok := d.Recv.List[0].Type.(*ast.Ident); ok && of.Name == "Dialect" {
				has.methods = append(has.methods, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					has.types = append(has.types, s.Name.Name)
				}
			}
		}
	}
	return has
}
