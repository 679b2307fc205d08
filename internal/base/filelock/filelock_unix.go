//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks f, which no other open file may have locked then. The error is [ErrLocked] if
// another has; it does not wait.
func TryLock(f *os.File) error { return lock(f, syscall.LOCK_EX) }

// TryShare locks f together with others that share it, and returns [ErrLocked] if one has it
// for itself; it does not wait.
func TryShare(f *os.File) error { return lock(f, syscall.LOCK_SH) }

func lock(f *os.File, how int) error {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
