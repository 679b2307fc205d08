package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// installed are files that every package installs, with their modes.
var installed = map[string]os.FileMode{
	"usr/bin/modelgate": 0o755, "etc/modelgate/modelgate.yaml": 0o640, "etc/modelgate/environment": 0o600,
	"usr/share/man/man1/modelgate.1": 0o644, "usr/share/bash-completion/completions/modelgate": 0o644,
	"usr/share/zsh/site-functions/_modelgate": 0o644, "usr/share/fish/vendor_completions.d/modelgate.fish": 0o644,
	"usr/share/doc/modelgate/LICENSES.txt": 0o644,
}

const unit = "usr/lib/systemd/system/modelgate.service"

func TestDebianPackage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := file("modelgate-VERSION-" + runtime.GOARCH + ".deb")
	mustRun(t, dir, "dpkg-deb", "--extract", name, dir)
	for path, mode := range installed {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v, want the mode %v", path, info, err, mode)
		}
	}
	checkProgram(t, filepath.Join(dir, "usr/bin/modelgate"))
	mustRun(t, dir, filepath.Join(dir, "usr/bin/modelgate"), "check", filepath.Join(dir, "etc/modelgate/modelgate.yaml"))
	if got, want := mustRead(t, filepath.Join(dir, unit)), mustRead(t, filepath.Join(made.root, "deploy/systemd/modelgate.service")); !bytes.Equal(got, want) {
		t.Error("the unit is another one")
	}
	control := t.TempDir()
	mustRun(t, control, "dpkg-deb", "--control", name, control)
	if kept := string(mustRead(t, filepath.Join(control, "conffiles"))); kept != "/etc/modelgate/environment\n/etc/modelgate/modelgate.yaml\n" {
		t.Errorf("an upgrade keeps %q", kept)
	}
	fields := string(mustRead(t, filepath.Join(control, "control")))
	for _, want := range []string{"Package: modelgate\n", "Architecture: " + runtime.GOARCH + "\n", "Recommends: ca-certificates\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("the control file lacks %q:\n%s", want, fields)
		}
	}
	for _, script := range []string{"postinst", "prerm"} {
		mustRun(t, control, "sh", "-n", script)
	}
}

// The lists of the other packages are read with what every machine has: the one of Alpine is a
// sequence of compressed archives, and names are text in the head of the one of Red Hat.
func TestPackagesOfAlpineAndRedHat(t *testing.T) {
	t.Parallel()
	apk := listed(t, file("modelgate-VERSION-"+runtime.GOARCH+".apk"))
	for path, mode := range installed {
		if apk[path] != int64(mode) {
			t.Errorf("apk: %s has the mode %o, want %o", path, apk[path], mode)
		}
	}
	if _, ok := apk[unit]; ok {
		t.Error("apk: it has a unit for systemd, which Alpine does not have")
	}
	rpm := mustRead(t, file("modelgate-VERSION-"+runtime.GOARCH+".rpm"))
	if !bytes.HasPrefix(rpm, []byte{0xed, 0xab, 0xee, 0xdb}) {
		t.Fatal("rpm: it is not a package")
	}
	for _, path := range []string{"modelgate.service", "modelgate.yaml", "modelgate.1", "/usr/bin/", "LICENSES.txt"} {
		if !bytes.Contains(rpm[:min(len(rpm), 64<<10)], []byte(path)) {
			t.Errorf("rpm: %s is missing", path)
		}
	}
}

// listed returns the modes of the files in a package of Alpine.
func listed(t *testing.T, path string) map[string]int64 {
	t.Helper()
	source := bufio.NewReader(bytes.NewReader(mustRead(t, path)))
	found := map[string]int64{}
	z, err := gzip.NewReader(source)
	for ; err == nil; err = z.Reset(source) {
		z.Multistream(false)
		archive := tar.NewReader(z)
		for {
			h, err := archive.Next()
			if err != nil {
				break // the first parts have no end of their own
			}
			found[strings.TrimPrefix(h.Name, "./")] = h.Mode
		}
		if _, err := io.Copy(io.Discard, z); err != nil {
			t.Fatal(err)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return found
}

// The service may do little.
func TestUnitIsHardened(t *testing.T) {
	t.Parallel()
	out := mustRun(t, made.root, "systemd-analyze", "security", "--offline=true", "--no-pager", "deploy/systemd/modelgate.service")
	level := regexp.MustCompile(`Overall exposure level for modelgate.service: (\d+)\.\d`).FindStringSubmatch(out)
	if level == nil || level[1] > "2" {
		t.Errorf("the exposure is %v, want less than 3:\n%s", level, out)
	}
}
