package wasmcode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/tetratelabs/wazero"
)

// Exit codes of the process. Go itself uses 2.
const (
	exitInvalid = 3
	exitMemory  = 4
	exitTime    = 5
)

const maxModule = 64 << 20 // bytes that the process reads; its caller has a lower limit

var errTime = fmt.Errorf("takes more than %s to compile; use a simpler module", MaxTime)

// run compiles a module in a process into the folder dir.
func (c *Compiler) run(ctx context.Context, dir string, module []byte) error {
	p := exec.CommandContext(ctx, c.command[0], append(c.command[1:len(c.command):len(c.command)], dir)...)
	p.Dir, p.Env = dir, []string{"GOMAXPROCS=2"} // no secret of this process's environment
	p.WaitDelay = time.Second
	in, err := p.StdinPipe()
	if err != nil {
		return fmt.Errorf("cannot be compiled now: %w", err)
	}
	if err := p.Start(); err != nil && ctx.Err() != nil {
		return errTime
	} else if err != nil {
		return errors.New("cannot be compiled now, as the gateway cannot start another process; try again later")
	}
	// The pipe stays open, as the process ends when it is closed.
	_, err = io.Copy(in, io.MultiReader(bytes.NewReader(binary.BigEndian.AppendUint64(nil, uint64(len(module)))), bytes.NewReader(module)))
	if waitErr := p.Wait(); waitErr != nil {
		err = waitErr
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil || exit != nil && exit.ExitCode() == exitTime:
		return errTime
	case exit != nil && exit.ExitCode() == exitInvalid:
		return ErrInvalid
	case err != nil:
		return fmt.Errorf("cannot be compiled in %d MiB of memory to at most %d MiB; use a simpler module", MaxMemory>>20, MaxMachineCode>>20)
	}
	return nil
}

// Main compiles the module that it reads from in, after its length, into the folder dir,
// and returns the exit code of the process. It ends the process itself when a limit is
// reached or in is closed.
func Main(in io.Reader, dir string) int {
	time.AfterFunc(MaxTime, func() { os.Exit(exitTime) })
	debug.SetMemoryLimit(MaxMemory * 3 / 4)
	limitProcess()
	go watchMemory(heldMemory() + MaxMemory)
	var size [8]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return 1
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > maxModule {
		return exitInvalid
	}
	module := make([]byte, n)
	if _, err := io.ReadFull(in, module); err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return 1
	}
	if _, err := compileHere(context.Background(), module, cache); err != nil {
		return exitInvalid
	}
	return 0
}

// watchMemory ends the process when it holds more than limit bytes.
func watchMemory(limit uint64) {
	for range time.Tick(10 * time.Millisecond) {
		if heldMemory() > limit {
			os.Exit(exitMemory)
		}
	}
}

// heldMemory returns the bytes that the process has of the system.
func heldMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
