package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiler writes profiles of this process.
type profiler struct {
	dir string
	cpu *os.File
}

func (p *profiler) start(dir string) (err error) {
	if p.cpu, err = os.Create(filepath.Join(dir, "cpu.pprof")); err != nil {
		return err
	}
	p.dir = dir
	return pprof.StartCPUProfile(p.cpu)
}

func (p *profiler) stop() error {
	pprof.StopCPUProfile()
	err := p.cpu.Close()
	f, ferr := os.Create(filepath.Join(p.dir, "allocs.pprof"))
	if ferr != nil {
		return errors.Join(err, ferr)
	}
	return errors.Join(err, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}
