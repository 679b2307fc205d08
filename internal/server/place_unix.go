//go:build unix

package server

import (
	"os"
	"strconv"
	"syscall"
)

// filePlace returns the number of a file's inode, which a copy of the file does not
// have. Empty means unknown.
func filePlace(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(s.Ino), 10), nil
	}
	return "", nil
}
