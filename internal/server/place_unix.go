//go:build unix

package server

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// fileNumbers returns the numbers of a file's inode and of its device. Empty means
// unknown.
func fileNumbers(f *os.File) (inode, device string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", "", err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(s.Ino), 10), strconv.FormatUint(uint64(s.Dev), 10), nil
	}
	return "", "", nil
}

// ownerOf returns the owner of a folder or file.
func ownerOf(info fs.FileInfo) folderOwner {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return folderOwner{known: true, user: int(s.Uid), group: int(s.Gid)}
	}
	return folderOwner{}
}

// thisProcess returns the user and the groups of this process.
func thisProcess() folderOwner {
	groups, _ := os.Getgroups()
	return folderOwner{known: true, user: os.Geteuid(), group: os.Getegid(), groups: groups}
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
