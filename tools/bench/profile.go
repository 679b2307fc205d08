package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// profiler writes profiles of this process: first of its CPU, then of its
// allocations, since noting every allocation costs CPU.
type profiler struct {
	cpu *os.File
}

func (p *profiler) startCPU(dir string) (err error) {
	if p.cpu, err = os.Create(filepath.Join(dir, "cpu.pprof")); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.cpu)
}

func (p *profiler) stopCPU() error {
	pprof.StopCPUProfile()
	runtime.MemProfileRate = 4 << 10 // bytes; a few seconds allocate too little for the default
	return p.cpu.Close()
}

func (p *profiler) writeAllocs(dir string) error {
	f, err := os.Create(filepath.Join(dir, "allocs.pprof"))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
