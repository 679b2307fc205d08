package security

import (
	"io/fs"
	"os"
	"strings"
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
