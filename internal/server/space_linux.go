package server

import (
	"os"
	"syscall"
)

// noSpace reports whether the disk of a folder is known to be full for this process.
func noSpace(dir string) bool {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil || st.Blocks == 0 { // some file systems do not say
		return false
	}
	if os.Geteuid() == 0 { // may use the blocks reserved for root
		return st.Bfree == 0
	}
	return st.Bavail == 0
}
