//go:build !linux

package diagnosis

import "errors"

// disk is a file system.
type disk struct {
	free, total      uint64
	freeFiles, files uint64
	kind             string
	network          bool
}

func diskOf(string) (disk, error) { return disk{}, errors.ErrUnsupported }
