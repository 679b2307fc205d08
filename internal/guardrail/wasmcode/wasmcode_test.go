package wasmcode_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"modelgate/internal/guardrail/wasmcode"
)

// The test binary is also the process that compiles.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "compile" {
		if secret := os.Getenv("MODELGATE_MASTER_KEY"); secret != "" {
			os.Exit(9)
		}
		os.Exit(wasmcode.Main(os.Stdin, os.Args[2]))
	}
	os.Exit(m.Run())
}

func mustOpen(t *testing.T, o wasmcode.Options) *wasmcode.Compiler {
	t.Helper()
	c, err := wasmcode.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compiling(t *testing.T, folder, key string) wasmcode.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return wasmcode.Options{Command: []string{self, "compile"}, Folder: folder, Key: []byte(key)}
}

// module returns a module with a function.
func module(locals int, body string) []byte {
	number := func(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }
	section := func(id, content string) string { return id + number(len(content)) + content }
	body = "\x01" + number(locals) + "\x7f" + body + "\x0b"
	return []byte("\x00asm\x01\x00\x00\x00" + section("\x01", "\x01\x60\x00\x00") + section("\x03", "\x01\x00") +
		section("\x07", "\x01\x06_start\x00\x00") + section("\x0a", "\x01"+number(len(body))+body))
}

var (
	small = module(1, "")
	// Each loop passes on each variable that is read.
	huge = func() []byte {
		const n = 8000
		var reads []byte
		for i := range n {
			reads = append(binary.AppendUvarint(append(reads, 0x20), uint64(i)), 0x1a)
		}
		return module(n, strings.Repeat("\x03\x40", n)+string(reads)+strings.Repeat("\x0b", n))
	}()
)

func sum(module []byte) [sha256.Size]byte { return sha256.Sum256(module) }

func kept(t *testing.T, folder string) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestHostileModulesTakeLimitedMemoryOfAnotherProcess(t *testing.T) {
	folder := t.TempDir()
	c := mustOpen(t, compiling(t, folder, ""))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := c.Compile(ctx, sum(huge), huge)
	if err == nil || !strings.Contains(err.Error(), "512 MiB of memory") && !strings.Contains(err.Error(), "to compile") {
		t.Errorf("a module that takes gigabytes: %v", err)
	}
	var own, children syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children) != nil || syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		t.Fatal("no usage")
	}
	t.Logf("%v: at most %d MB in the process, %d MB here", err, children.Maxrss>>10, own.Maxrss>>10)
	if children.Maxrss>>10 > 900 || own.Maxrss>>10 > 400 {
		t.Errorf("%d MB in the process and %d MB here", children.Maxrss>>10, own.Maxrss>>10)
	}
	if names := kept(t, folder); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
	if _, err := c.Compile(ctx, sum(small), small); err != nil {
		t.Errorf("a small module after it: %v", err)
	}
}

func TestCompilingEndsWithItsContext(t *testing.T) {
	folder := t.TempDir()
	c := mustOpen(t, compiling(t, folder, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Compile(ctx, sum(huge), huge); err == nil || !strings.Contains(err.Error(), "to compile") {
		t.Errorf("after the end: %v", err)
	}
}

func TestTheProcessEndsWhenItsInputIsClosed(t *testing.T) {
	o := compiling(t, "", "")
	p := exec.CommandContext(t.Context(), o.Command[0], o.Command[1], t.TempDir())
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Write(binary.BigEndian.AppendUint64(nil, uint64(len(huge))))
	_, _ = in.Write(huge)
	in.Close()
	if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != 1 {
		t.Errorf("the process ended with %v, want exit code 1", err)
	}
}

func TestMachineCodeIsKept(t *testing.T) {
	t.Setenv("MODELGATE_MASTER_KEY", "the process must not see it")
	folder := filepath.Join(t.TempDir(), "modules")
	c := mustOpen(t, compiling(t, folder, "k"))
	if _, ok := c.Load(sum(small), small); ok {
		t.Error("a module that was not compiled is loaded")
	}
	p, err := c.Compile(t.Context(), sum(small), small)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	again := mustOpen(t, wasmcode.Options{Command: []string{"/nonexistent"}, Folder: folder, Key: []byte("k")})
	p, ok := again.Load(sum(small), small)
	if !ok {
		t.Fatal("the module is not loaded after a restart")
	}
	if _, err := p.Runtime.InstantiateModule(t.Context(), p.Module, wazero.NewModuleConfig()); err != nil {
		t.Errorf("running it: %v", err)
	}
	p.Close()
	if names := kept(t, folder); len(names) != 1 {
		t.Errorf("%q are in the folder, want one file", names)
	}
	again.Remove(sum(small))
	if _, ok := again.Load(sum(small), small); ok || len(kept(t, folder)) > 0 {
		t.Error("a removed module is loaded")
	}
}

func TestMachineCodeOfOthersIsNotUsed(t *testing.T) {
	other := module(2, "\x01")
	for name, tt := range map[string]struct {
		key    string
		change func(t *testing.T, path string)
	}{
		"changed":           {"k", func(t *testing.T, path string) { flip(t, path, -40) }},
		"changed name":      {"k", func(t *testing.T, path string) { flip(t, path, 33) }},
		"changed code":      {"k", func(t *testing.T, path string) { flip(t, path, 0) }},
		"changed, no key":   {"", func(t *testing.T, path string) { flip(t, path, -40) }},
		"empty":             {"k", func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }},
		"cut":               {"k", func(t *testing.T, path string) { must(t, os.Truncate(path, 100)) }},
		"of another module": {"k", func(t *testing.T, path string) { must(t, os.Rename(compileTo(t, "k", other), path)) }},
		"with another key":  {"k", func(t *testing.T, path string) { must(t, os.Rename(compileTo(t, "other", small), path)) }},
		"without a key":     {"k", func(t *testing.T, path string) { must(t, os.Rename(compileTo(t, "", small), path)) }},
		"a folder":          {"k", func(t *testing.T, path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }},
	} {
		t.Run(name, func(t *testing.T) {
			path := compileTo(t, tt.key, small)
			tt.change(t, path)
			c := mustOpen(t, compiling(t, filepath.Dir(path), tt.key))
			if _, ok := c.Load(sum(small), small); ok {
				t.Fatal("it is loaded")
			}
			if _, err := c.Compile(t.Context(), sum(small), small); err != nil {
				t.Fatal(err)
			}
			if _, ok := c.Load(sum(small), small); !ok {
				t.Error("it is not loaded after it was compiled again")
			}
		})
	}
	path := compileTo(t, "k", small)
	if _, ok := mustOpen(t, compiling(t, filepath.Dir(path), "k")).Load(sum(small), other); ok {
		t.Error("machine code is loaded for another module")
	}
}

// compileTo returns the file with the machine code of a module.
func compileTo(t *testing.T, key string, module []byte) string {
	t.Helper()
	folder := t.TempDir()
	p, err := mustOpen(t, compiling(t, folder, key)).Compile(t.Context(), sum(module), module)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	names := kept(t, folder)
	if len(names) != 1 {
		t.Fatalf("%q are in the folder, want one file", names)
	}
	return names[0]
}

// flip changes a byte, counted from the end if at is negative.
func flip(t *testing.T, path string, at int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	whence := io.SeekStart
	if at < 0 {
		whence = io.SeekEnd
	}
	offset, err := f.Seek(int64(at), whence)
	must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, offset)
	must(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, offset)
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheFolderIsPrivateAndBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "modules")
	must(t, os.MkdirAll(filepath.Join(folder, "compiling-1", "x"), 0o777))
	must(t, os.Chmod(folder, 0o777))
	used := filepath.Join(folder, "compiling-2")
	must(t, os.Mkdir(used, 0o700))
	old := filepath.Join(folder, "old")
	must(t, os.WriteFile(old, nil, 0o600))
	long := time.Now().Add(-31 * 24 * time.Hour)
	must(t, os.Chtimes(old, long, long))
	must(t, os.Chtimes(filepath.Join(folder, "compiling-1"), long, long))
	large := filepath.Join(folder, "large") // sparse
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 1<<30+1))
	mustOpen(t, wasmcode.Options{Folder: folder})
	info, err := os.Stat(folder)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has the mode %o, want 700", info.Mode().Perm())
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(used) {
		t.Errorf("%v are left, %v, want the folder in use", entries, err)
	}
	link := filepath.Join(t.TempDir(), "modules")
	must(t, os.Symlink(folder, link))
	if _, err := wasmcode.Open(wasmcode.Options{Folder: link}); err == nil {
		t.Error("a link to another folder is used")
	}
}

func TestInvalidModulesAreRefused(t *testing.T) {
	for name, code := range map[string][]byte{"empty": nil, "cut": small[:len(small)-3], "type": module(1, "\x20\x00\x6a")} {
		if _, err := mustOpen(t, compiling(t, t.TempDir(), "")).Compile(t.Context(), sum(code), code); err == nil || err.Error() != wasmcode.ErrInvalid.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := wasmcode.Options{Command: []string{"/nonexistent"}}
	if _, err := mustOpen(t, o).Compile(t.Context(), sum(small), small); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("without a process: %v", err)
	}
}
