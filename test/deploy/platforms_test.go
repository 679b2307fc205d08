package deploy

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImagesOfBothPlatforms builds images of a small program for two platforms: what they are
// of is in their descriptions and in the manifest, so that a machine gets the one that it runs.
func TestImagesOfBothPlatforms(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for arch := range machines {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "modelgate-"+arch), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	// The names of the images are those of other tests, so the storage is another one.
	storage := filepath.Join(folder, "storage.conf")
	text := "[storage]\ndriver = \"vfs\"\ngraphroot = \"" + folder + "/graph\"\nrunroot = \"" + folder + "/run\"\n"
	if err := os.WriteFile(storage, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(slices.Clone(image.env), "CONTAINERS_STORAGE_CONF="+storage, "BINARIES="+folder)
		out, err := cmd.Output()
		if err != nil {
			var stderr []byte
			if e, ok := err.(*exec.ExitError); ok {
				stderr = e.Stderr
			}
			t.Fatalf("%s %q: %v\n%s", name, args, err, stderr)
		}
		return strings.TrimSpace(string(out))
	}
	for range 2 { // the second build replaces the manifest of the first
		run("../../tools/image.sh")
	}
	name := strings.TrimSuffix(image.name, image.name[strings.LastIndexByte(image.name, '-'):])
	var manifest struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	if err := json.Unmarshal([]byte(run("buildah", "manifest", "inspect", name)), &manifest); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range manifest.Manifests {
		found = append(found, m.Platform.OS+"/"+m.Platform.Architecture)
	}
	slices.Sort(found)
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(found, want) {
		t.Errorf("the manifest has %q, want %q", found, want)
	}
	for arch, machine := range machines {
		var description struct {
			Docker struct{ OS, Architecture string }
		}
		if err := json.Unmarshal([]byte(run("buildah", "inspect", "--type", "image", name+"-"+arch)), &description); err != nil {
			t.Fatal(err)
		}
		if d := description.Docker; d.OS != "linux" || d.Architecture != arch {
			t.Errorf("the image of %s is of %s/%s", arch, d.OS, d.Architecture)
		}
		container := run("buildah", "from", "--pull-never", "--arch", arch, name+"-"+arch)
		f, err := elf.Open(filepath.Join(run("buildah", "mount", container), "usr/bin/modelgate"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine {
			t.Errorf("the program of %s is for %v", arch, f.Machine)
		}
		f.Close()
		run("buildah", "rm", container)
	}
}
