package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDeployTools runs the tests in tools/deploy, a module of its own, so that nothing of Helm,
// Kubernetes and Compose is among the modules of the program: they check the chart and the files
// for Compose. Its modules are downloaded once, from the Go module proxy.
func TestDeployTools(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "./..."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = "../../tools/deploy"
		cmd.Env = append(os.Environ(), "MODELGATE_BINARY="+filepath.Join(image.root, "usr/bin/modelgate"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %q: %v\n%s", args, err, out)
		}
	}
}
