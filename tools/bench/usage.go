package bench

import (
	"runtime/metrics"
)

// usage is what a process has used so far.
type usage struct {
	CPUMicros int64  `json:"cpu_us"`
	RSS       int64  `json:"rss"`  // bytes; 0 where the system does not tell
	Peak      int64  `json:"peak"` // highest RSS since the start or the last reset
	Allocs    uint64 `json:"allocs"`
	Error     string `json:"error,omitempty"`
}

func readUsage() (u usage, err error) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/tiny/allocs:objects"}}
	metrics.Read(s)
	u.Allocs = s[0].Value.Uint64() + s[1].Value.Uint64()
	if u.CPUMicros, err = cpuMicros(); err != nil {
		return u, err
	}
	u.RSS, u.Peak, err = residentBytes()
	return u, err
}
