//go:build !unix

package inflight

import "time"

// processorTime returns zero: a [Governor] leaves the limit as it is.
func processorTime() time.Duration { return 0 }
