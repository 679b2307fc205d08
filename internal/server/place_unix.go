//go:build unix

package server

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// filePlace returns the number of a file's inode, which a copy of the file does not
// have. Empty means unknown.
func filePlace(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(s.Ino), 10), nil
	}
	return "", nil
}

// lockFile locks a file until it is closed, also by the end of the process. It returns
// false if another process, or another part of this one, has locked it.
func lockFile(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
