// Package wasmcode compiles WebAssembly modules to machine code and keeps the result.
//
// A [Compiler] starts a process for each module, which [Main] runs, so that a malicious
// module takes no memory of this process. It guarantees that the process ends within its
// limits of memory and time and with this process, and that machine code that was kept is
// used only if it is what the compiler wrote for the same module. It does not limit how
// many modules are compiled at a time; see checks.
package wasmcode

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// Limits of compiling a module.
const (
	MaxTime        = 30 * time.Second
	MaxMemory      = 512 << 20 // bytes, in addition to those of a process that does nothing
	MaxMachineCode = 128 << 20 // bytes

	modulePages = 1024 // of 64 KiB, of memory of a run
	workers     = 2
)

// ErrInvalid means that the module is not valid.
var ErrInvalid = errors.New("must be a WebAssembly module that needs at most 64 MiB of memory")

// Compiler compiles modules. The zero value compiles in this process and keeps nothing,
// for commands of the operator and tests. It is safe for concurrent use.
type Compiler struct {
	command []string // of the process, which runs Main; nil compiles in this process
	store   *files   // nil keeps nothing
}

// Options configure a [Compiler].
type Options struct {
	// Command is the program, and its arguments, that calls [Main] with one more
	// argument. Nil compiles in this process.
	Command []string
	// Folder has the machine code that is kept, and temporary files. It is created and
	// made private. Empty keeps nothing.
	Folder string
	// Key authenticates what is kept. Without one, only damage is noticed.
	Key []byte
}

// Open returns a compiler.
func Open(o Options) (*Compiler, error) {
	c := &Compiler{command: o.Command}
	if o.Folder == "" {
		return c, nil
	}
	var err error
	if c.store, err = openFiles(o.Folder, o.Key); err != nil {
		return nil, fmt.Errorf("opening the folder of compiled modules: %w", err)
	}
	return c, nil
}

// Program is a compiled module with a runtime of its own.
type Program struct {
	Runtime wazero.Runtime
	Module  wazero.CompiledModule
	cache   wazero.CompilationCache // nil for none
}

// Close releases the machine code.
func (p *Program) Close() {
	_ = p.Runtime.Close(context.Background())
	if p.cache != nil {
		_ = p.cache.Close(context.Background())
	}
}

// Load returns the program of a module that was kept with a hash. ok is false if there is
// none, or none that can be used, which is removed.
func (c *Compiler) Load(sum [sha256.Size]byte, module []byte) (p *Program, ok bool) {
	if c.store == nil {
		return nil, false
	}
	dir, err := c.store.extract(sum)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false
	}
	if err == nil {
		defer os.RemoveAll(dir)
		p, err = open(dir, module)
	}
	if err != nil {
		c.store.remove(sum)
		return nil, false
	}
	return p, true
}

// Compile compiles a module and keeps the machine code with a hash. An error says what
// the module must be, unless ctx has ended.
func (c *Compiler) Compile(ctx context.Context, sum [sha256.Size]byte, module []byte) (*Program, error) {
	if c.command == nil {
		return compileHere(ctx, module, nil)
	}
	dir, err := c.temporary()
	if err != nil {
		return nil, fmt.Errorf("cannot be compiled now: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := c.run(ctx, dir, module); err != nil {
		return nil, err
	}
	p, err := open(dir, module)
	if err != nil {
		return nil, errors.New("cannot be compiled by this gateway; restart it if its program was replaced")
	}
	if c.store != nil {
		// What cannot be kept is compiled again after the next start.
		_ = c.store.keep(sum, dir)
	}
	return p, nil
}

// Remove removes the machine code that was kept with a hash. Programs that run are not
// affected.
func (c *Compiler) Remove(sum [sha256.Size]byte) {
	if c.store != nil {
		c.store.remove(sum)
	}
}

// temporary creates a private folder, which the caller removes.
func (c *Compiler) temporary() (string, error) {
	if c.store != nil {
		return c.store.temporary()
	}
	return os.MkdirTemp("", temporaryPrefix)
}

// open returns the program of a module that was compiled into the folder dir. It does not
// compile: the context of the compiler has ended.
func open(dir string, module []byte) (*Program, error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, err := compileHere(ctx, module, cache)
	if err != nil {
		_ = cache.Close(context.Background())
	}
	return p, err
}

// compileHere compiles a module in this process, or finds it in the cache.
func compileHere(ctx context.Context, module []byte, cache wazero.CompilationCache) (*Program, error) {
	o := wazero.NewRuntimeConfig().WithMemoryLimitPages(modulePages).WithCloseOnContextDone(true)
	if cache != nil {
		o = o.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(context.Background(), o)
	// Only with several workers does the compiler look at the context.
	code, err := r.CompileModule(experimental.WithCompilationWorkers(ctx, workers), module)
	if err != nil {
		_ = r.Close(context.Background())
		return nil, ErrInvalid
	}
	return &Program{r, code, cache}, nil
}

// machineCode returns the path below dir of the only file that the compiler wrote.
func machineCode(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("the compiler wrote %d files", len(found))
	}
	if err != nil {
		return "", err
	}
	return filepath.Rel(dir, found[0])
}
