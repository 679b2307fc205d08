//go:build !linux

package bench

import (
	"errors"
	"runtime"
)

// residentBytes returns zeros: there is no common way to read them here.
func residentBytes() (now, peak int64, err error) { return 0, 0, nil }

func resetPeak() error { return nil }

func cpuModel() string { return runtime.GOARCH }

// cores is a set of cores, which can't be chosen here.
type cores struct{}

func (cores) list() []int { return nil }

func coresOf(...int) cores { return cores{} }

func affinity() (cores, error) { return cores{}, errors.ErrUnsupported }

func confine(cores) error { return errors.ErrUnsupported }

func startOn(_ cores, start func() error) error { return start() }
