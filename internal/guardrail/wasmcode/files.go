package wasmcode

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of what is kept.
const (
	maxKept = 1 << 30             // bytes of all machine code
	maxAge  = 30 * 24 * time.Hour // after the last use

	maxCompiling = time.Hour // after which a process does not use its folder

	temporaryPrefix = "compiling-"
)

// files keeps machine code in a private folder: a file for each module, named by its
// hash. It begins with a code that authenticates the rest, followed by the
// name that the runtime looks for and a zero byte.
type files struct {
	folder string
	key    []byte

	mu sync.Mutex // one change at a time
}

// openFiles makes the folder private. Several processes can use it.
func openFiles(folder string, key []byte) (*files, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New(folder + " must be a folder, not a link or a file; remove it")
	}
	if err := os.Chmod(folder, 0o700); err != nil { // fails for a folder of another user
		return nil, err
	}
	f := &files{folder: folder, key: key}
	f.trim()
	return f, nil
}

func (f *files) path(sum [sha256.Size]byte) string {
	return filepath.Join(f.folder, hex.EncodeToString(sum[:]))
}

func (f *files) temporary() (string, error) { return os.MkdirTemp(f.folder, temporaryPrefix) }

// authenticate returns the code for what is kept of a module.
func (f *files) authenticate(sum [sha256.Size]byte, content []byte) []byte {
	h := hmac.New(sha256.New, f.key)
	h.Write(sum[:])
	h.Write(content)
	return h.Sum(nil)
}

// keep keeps the machine code in the folder dir.
func (f *files) keep(sum [sha256.Size]byte, dir string) error {
	name, err := machineCode(dir)
	if err != nil {
		return err
	}
	code, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	content := slices.Concat([]byte(filepath.ToSlash(name)), []byte{0}, code)
	temporary := filepath.Join(dir, "kept")
	if err := os.WriteFile(temporary, append(f.authenticate(sum, content), content...), 0o600); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err = os.Rename(temporary, f.path(sum))
	f.trim()
	return err
}

// extract writes the machine code of a module into a new folder, as the compiler did. The
// caller removes the folder.
func (f *files) extract(sum [sha256.Size]byte) (dir string, err error) {
	content, err := f.read(sum)
	if err != nil {
		return "", err
	}
	name, code, found := bytes.Cut(content, []byte{0})
	path := filepath.FromSlash(string(name))
	if !found || !filepath.IsLocal(path) {
		return "", errors.New("is damaged")
	}
	if dir, err = f.temporary(); err != nil {
		return "", err
	}
	path = filepath.Join(dir, path)
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = os.WriteFile(path, code, 0o600)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// read returns what is kept of a module, after its code.
func (f *files) read(sum [sha256.Size]byte) ([]byte, error) {
	file, err := os.Open(f.path(sum))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := io.ReadAll(io.LimitReader(file, MaxMachineCode+4<<10))
	if err != nil {
		return nil, err
	}
	if len(all) < sha256.Size || !hmac.Equal(all[:sha256.Size], f.authenticate(sum, all[sha256.Size:])) {
		return nil, errors.New("is damaged")
	}
	now := time.Now()
	_ = os.Chtimes(f.path(sum), now, now)
	return all[sha256.Size:], nil
}

// remove removes what is kept of a module.
func (f *files) remove(sum [sha256.Size]byte) { _ = os.Remove(f.path(sum)) }

// trim removes what ended processes left, the files that were not used for maxAge, and then those that were not used
// for longest, until the rest has at most maxKept bytes.
func (f *files) trim() {
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return
	}
	var kept []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil: // removed since
		case !strings.HasPrefix(e.Name(), temporaryPrefix):
			kept = append(kept, info)
		case time.Since(info.ModTime()) > maxCompiling:
			_ = os.RemoveAll(filepath.Join(f.folder, e.Name()))
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var bytes int64
	for _, info := range kept {
		if bytes += info.Size(); bytes > maxKept || time.Since(info.ModTime()) > maxAge {
			_ = os.Remove(filepath.Join(f.folder, info.Name()))
		}
	}
}
