package security

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Who can write to the data folder can exchange the database: a folder that others can
// write to is mended when the gateway starts, with a line in the log.
func TestDataFolderIsNotWrittenByOthers(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]fs.FileMode{0o777: 0o755, 0o770: 0o750, 0o722: 0o700, 0o702: 0o700, 0o755: 0o755, 0o700: 0o700} {
		attack(t, "at rest", "a data folder of mode "+mode.String(), func(t *testing.T) {
			dir, err := os.MkdirTemp(scratch, "folder")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			g := launch(t, options{data: dir})
			g.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
			info, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("mode %04o, want %04o", got, want)
			}
			if mended := strings.Contains(g.output.String(), "other users could write to the data folder"); mended != (mode != want) {
				t.Errorf("the output has the line: %t, want %t:\n%s", mended, mode != want, g.output)
			}
		})
	}
}

// A user who owns the data folder, or a file in it, of a gateway that runs as root can
// exchange the database: the folder is taken from them. A link in it leads nowhere.
func TestDataFolderOfAnotherUserIsTaken(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("not tested: only root can give files away")
		return
	}
	const user = 12345
	for name, mode := range map[string]fs.FileMode{"private": 0o700, "readable": 0o755, "open": 0o777} {
		attack(t, "at rest", "a data folder that belongs to another user and is "+name, func(t *testing.T) {
			dir, err := os.MkdirTemp(scratch, "folder")
			if err != nil {
				t.Fatal(err)
			}
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.WriteFile(outside, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := newGateway(options{data: dir}) // makes the files of a data folder
			if err != nil {
				t.Fatal(err)
			}
			if err := g.stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			owned := []string{dir, filepath.Join(dir, "modelgate.db"), filepath.Join(dir, "ledger"), filepath.Join(dir, "link")}
			for _, path := range owned {
				if err := os.Lchown(path, user, user); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.Chown(outside, user, user), os.Chmod(dir, mode)); err != nil {
				t.Fatal(err)
			}
			again := launch(t, options{data: dir})
			again.as(t, rootKey, "GET", "/v1/auth/me", "").ok(t)
			for _, path := range append(owned, outside) {
				info, err := os.Lstat(path)
				if err != nil {
					t.Fatal(err)
				}
				want := uint32(0)
				if path == outside {
					want = user
				}
				if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
					t.Errorf("%s belongs to %d, want %d", path, got, want)
				}
			}
			if !strings.Contains(again.output.String(), "the data folder belonged to another user") {
				t.Errorf("the output does not say so:\n%s", again.output)
			}
		})
	}
}
