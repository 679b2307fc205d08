package pipeline_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/config"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/routing"
)

var update = flag.Bool("update", false, "write golden files again")

func TestTreesReadAsTheyAreCompiled(t *testing.T) {
	files, err := filepath.Glob("testdata/trees/*.json")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d configs in testdata/trees, %v; want at least 12", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			root, err := config.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c := pipeline.Compiler{Engine: &attempt.Engine{}, State: new(routing.State)}
			got := c.Compile(root, routing.Key(root)).String()
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; run go test with -update and review what it writes", err)
			}
			if got != string(want) {
				t.Errorf("the tree reads\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(got, "never shown") {
				t.Errorf("a credential is shown:\n%s", got)
			}
		})
	}
}
