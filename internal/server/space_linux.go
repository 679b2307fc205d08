package server

import (
	"os"
	"syscall"
)

// space returns how many bytes of the disk of a folder this process may still write, and its
// size. A size of zero means that the file system does not say.
func space(dir string) (free, size uint64) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0, 0
	}
	block := uint64(max(st.Bsize, 1))
	if os.Geteuid() == 0 { // may use the blocks reserved for root
		return st.Bfree * block, st.Blocks * block
	}
	return st.Bavail * block, st.Blocks * block
}
