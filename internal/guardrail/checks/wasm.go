package checks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"modelgate/internal/guardrail"
)

// Limits of WASM modules.
const (
	maxModule   = 8 << 20 // bytes of a module
	modulePages = 1024    // of 64 KiB
	maxModules  = 32      // compiled modules by name that are kept
)

func wasmChecks(s Services) []guardrail.Definition {
	w := &modules{services: s}
	return []guardrail.Definition{{
		ID: "default.wasm", On: both, All: true, Transforms: true, Timeout: time.Second, Compile: w.compile,
		Summary: "A WebAssembly module (WASI preview 1) returns the verdict `true`. It reads the same JSON from standard input as a webhook, with the member `parameters`, and writes the same reply to standard output. It has 64 MiB of memory, no files, no network and no environment.",
		Params: []guardrail.Param{
			param("code", guardrail.String, "", "The module in base64. Either this or `module` is required."),
			param("module", guardrail.String, "", "Name of a stored module."),
			param("parameters", guardrail.JSON, "", "Given to the module."),
		},
	}}
}

// modules runs WASM modules.
type modules struct {
	services Services
	mu       sync.Mutex
	known    map[[32]byte]*module // guarded by mu
}

// module is a compiled module with a runtime of its own.
type module struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
}

// compileModule compiles a module. It is closed when nothing refers to it.
func compileModule(code []byte) (*module, error) {
	if len(code) > maxModule {
		return nil, fmt.Errorf("must have at most %d bytes", maxModule)
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithMemoryLimitPages(modulePages).WithCloseOnContextDone(true))
	compiled, err := r.CompileModule(ctx, code)
	if err == nil {
		_, err = wasi_snapshot_preview1.Instantiate(ctx, r)
	}
	if err != nil {
		_ = r.Close(ctx)
		return nil, errors.New("must be a WebAssembly module that needs at most 64 MiB of memory")
	}
	for _, f := range compiled.ImportedFunctions() {
		if from, name, _ := f.Import(); from != wasi_snapshot_preview1.ModuleName {
			_ = r.Close(ctx)
			return nil, fmt.Errorf("must import only functions of %s, not %.60q", wasi_snapshot_preview1.ModuleName, from+"."+name)
		}
	}
	m := &module{r, compiled}
	runtime.AddCleanup(m, func(r wazero.Runtime) { _ = r.Close(context.Background()) }, r)
	return m, nil
}

func (w *modules) compile(p *guardrail.Params) (guardrail.Compiled, error) {
	name, parameters := p.String("module"), p.Raw("parameters")
	var own *module
	switch {
	case p.Has("code") == p.Has("module"):
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "code", Message: "must be set, or module, but not both"}
	case p.Has("module") && w.services.Module == nil:
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "module", Message: "cannot be used yet, as this gateway stores no modules; set code"}
	case p.Has("code"):
		code, err := base64.StdEncoding.DecodeString(p.String("code"))
		if err != nil {
			return guardrail.Compiled{}, &guardrail.ParamError{Path: "code", Message: "must be base64"}
		}
		if own, err = compileModule(code); err != nil {
			return guardrail.Compiled{}, &guardrail.ParamError{Path: "code", Message: err.Error()}
		}
	}
	run := func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		m := own
		if m == nil {
			var err error
			if m, err = w.find(ctx, in.Request, name); err != nil {
				return guardrail.Verdict{}, err
			}
		}
		body, err := describe(in)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		if parameters != nil {
			body = append(append(append(body[:len(body)-1], `,"parameters":`...), parameters...), '}')
		}
		reply, err := m.run(ctx, body)
		runtime.KeepAlive(m)
		if err != nil {
			return guardrail.Verdict{}, err
		}
		return readReply(reply, in, "the module")
	}
	return guardrail.Compiled{Run: run, Reach: guardrail.Reach{Whole: true}, Transforms: true, Remote: true}, nil
}

// find returns a stored module, compiled once for its content.
func (w *modules) find(ctx context.Context, r *guardrail.Request, name string) (*module, error) {
	code, err := w.services.Module(ctx, r, name)
	if err != nil {
		return nil, fmt.Errorf("the module %.60q is unavailable", name)
	}
	key := sha256.Sum256(code)
	w.mu.Lock()
	m := w.known[key]
	w.mu.Unlock()
	if m != nil {
		return m, nil
	}
	if m, err = compileModule(code); err != nil {
		return nil, fmt.Errorf("the module %.60q %w", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || len(w.known) >= maxModules {
		w.known = map[[32]byte]*module{}
	}
	w.known[key] = m
	return m, nil
}

// run gives the module its input and returns its output.
func (m *module) run(ctx context.Context, input []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &limited{left: maxBody, full: cancel}
	config := wazero.NewModuleConfig().WithName("").WithStdin(bytes.NewReader(input)).WithStdout(out).WithRandSource(rand.Reader)
	instance, err := m.runtime.InstantiateModule(ctx, m.code, config)
	if instance != nil {
		defer func() { _ = instance.Close(context.WithoutCancel(ctx)) }()
	}
	var exit *sys.ExitError
	switch {
	case out.left < 0:
		return nil, fmt.Errorf("the output of the module is larger than %d bytes", maxBody)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() == 0:
	case errors.As(err, &exit):
		return nil, fmt.Errorf("the module ended with the exit code %d", exit.ExitCode())
	case err != nil:
		return nil, errors.New("the module ended with a trap")
	}
	return out.data, nil
}

// limited collects at most a number of bytes.
type limited struct {
	data json.RawMessage
	left int
	full func() // ends the module
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		l.full()
		return 0, errors.New("too much output")
	}
	l.data = append(l.data, b...)
	return len(b), nil
}
