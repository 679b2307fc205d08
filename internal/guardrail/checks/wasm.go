package checks

import (
	"bytes"
	"cmp"
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
	"weak"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"modelgate/internal/guardrail"
	"modelgate/internal/guardrail/wasmcode"
)

// Limits of WebAssembly modules.
const (
	MaxModule = 8 << 20 // bytes of a module

	// maxSaved is the number of modules of saved guardrails and configs that are
	// compiled at a time. An organisation gets half.
	maxSaved = 2
)

// Modules compiles and runs WebAssembly modules. Each module is compiled once while
// it is in use, whoever uses it. The zero value compiles in this process. It is safe for
// concurrent use.
type Modules struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]weak.Pointer[module] // guarded by mu

	compiler *wasmcode.Compiler // nil compiles in this process

	compiling sync.Once
	compilers places        // of new modules that are compiled; call start first
	saved     places        // of others that are compiled; call start first
	patience  time.Duration // for compiling; zero means wasmcode.MaxTime

	runs places
}

// NewModules returns modules that are compiled by c.
func NewModules(c *wasmcode.Compiler) *Modules { return &Modules{compiler: c} }

// start returns the places for compiling modules that are new.
func (w *Modules) start() *places {
	w.compiling.Do(func() {
		full := errors.New("cannot be compiled now, as others are; try again shortly")
		w.compilers.size, w.compilers.full = max(2, runtime.GOMAXPROCS(0)/2), full
		w.saved.size, w.saved.full = maxSaved, full
		if w.compiler == nil {
			w.compiler = new(wasmcode.Compiler)
		}
	})
	return &w.compilers
}

func (w *Modules) checks() []guardrail.Definition {
	return []guardrail.Definition{{
		ID: "default.wasm", On: both, All: true, Transforms: true, Timeout: time.Second, Compile: w.compile,
		Summary: "A WebAssembly module (WASI preview 1) returns the verdict `true`. It reads the same JSON from standard input as a webhook, with the member `parameters`, and writes the same reply to standard output. It has 64 MiB of memory, no files, no network and no environment.",
		Params: []guardrail.Param{
			param("code", guardrail.String, "", "The module in base64. Either this or `module` is required."),
			param("module", guardrail.String, "", "Id or slug of a [stored module](guardrails.md#your-own-checks), in a saved guardrail."),
			param("parameters", guardrail.JSON, "", "Given to the module."),
		},
	}}
}

// module is a compiled module with a runtime of its own.
type module struct{ *wasmcode.Program }

// Check returns the names of the functions that a module of an organisation exports, at
// most 100. An error says what the module must be.
func (w *Modules) Check(organisation string, code []byte) (exports []string, err error) {
	_, exports, err = w.admit(organisation, code)
	return exports, err
}

func (w *Modules) compile(p *guardrail.Params) (guardrail.Compiled, error) {
	if p.Has("code") == p.Has("module") {
		return guardrail.Compiled{}, &guardrail.ParamError{Path: "code", Message: "must be set, or module, but not both"}
	}
	out := guardrail.Compiled{Reach: guardrail.Reach{Complete: true}, Transforms: true, Remote: true, Bodies: true}
	if p.Compilation().Skip {
		return out, nil
	}
	m, err := w.open(p)
	if err != nil {
		return guardrail.Compiled{}, err
	}
	parameters := p.Raw("parameters")
	out.Run = func(ctx context.Context, in *guardrail.Input) (guardrail.Verdict, error) {
		v, err := w.check(ctx, m, parameters, in)
		if err != nil { // a module depends on nothing but what was sent
			return guardrail.Verdict{}, guardrail.NewIncomplete("%v", err)
		}
		return v, nil
	}
	return out, nil
}

// check runs a module on an input.
func (w *Modules) check(ctx context.Context, m *module, parameters json.RawMessage, in *guardrail.Input) (guardrail.Verdict, error) {
	body, err := describe(in)
	if err != nil {
		return guardrail.Verdict{}, err
	}
	if parameters != nil {
		body = append(append(append(body[:len(body)-1], `,"parameters":`...), parameters...), '}')
	}
	leave, err := w.runs.enter(ctx, in.Request.Organisation)
	if err != nil {
		return guardrail.Verdict{}, err
	}
	response, err := m.run(ctx, body)
	runtime.KeepAlive(m)
	leave()
	if err != nil {
		return guardrail.Verdict{}, err
	}
	return readWebhookResponse(response, in, "the module")
}

// open returns the compiled module of a check.
func (w *Modules) open(p *guardrail.Params) (*module, error) {
	if p.Has("module") {
		stored, err := p.Module("module")
		if err != nil {
			return nil, err
		}
		m, err := w.openStored(p.Compilation(), stored)
		if err != nil {
			return nil, &guardrail.ParamError{Path: "module", Message: err.Error()}
		}
		return m, nil
	}
	by := p.Compilation()
	if by.NoCode {
		return nil, &guardrail.ParamError{Path: "code",
			Message: "can be used only in a saved guardrail or a saved config, or with a key that may create guardrails; save this config"}
	}
	code, err := base64.StdEncoding.DecodeString(p.String("code"))
	if err != nil {
		return nil, &guardrail.ParamError{Path: "code", Message: "must be base64"}
	}
	var m *module
	if by.Admitted {
		m, err = w.openStored(by, guardrail.Module{Sum: sha256.Sum256(code), Code: func() ([]byte, error) { return code, nil }})
	} else {
		m, _, err = w.admit(by.Organisation, code)
	}
	if err != nil {
		return nil, &guardrail.ParamError{Path: "code", Message: err.Error()}
	}
	return m, nil
}

// openStored returns the module of a saved guardrail or config. It was admitted when it
// was saved, so it does not wait for modules that are new.
func (w *Modules) openStored(by guardrail.Compilation, stored guardrail.Module) (*module, error) {
	if m := w.find(stored.Sum); m != nil {
		return m, nil
	}
	code, err := stored.Code()
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(code) != stored.Sum {
		return nil, errors.New("is damaged; upload the module again")
	}
	safe, _, err := inspectModule(code)
	if err != nil {
		return nil, err
	}
	w.start()
	return w.compileFrom(&w.saved, by, stored.Sum, safe)
}

// admit compiles a module of an organisation that may be malicious.
func (w *Modules) admit(organisation string, code []byte) (*module, []string, error) {
	if len(code) > MaxModule {
		return nil, nil, fmt.Errorf("must have at most %d bytes", MaxModule)
	}
	safe, exports, err := inspectModule(code)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(code)
	if m := w.find(sum); m != nil {
		return m, exports, nil
	}
	m, err := w.compileFrom(w.start(), guardrail.Compilation{Organisation: organisation}, sum, safe)
	return m, exports, err
}

// compileFrom compiles a module in one of the places, within a limited time, unless it
// was compiled before. The time includes that of waiting, unless by is patient.
func (w *Modules) compileFrom(p *places, by guardrail.Compilation, sum [sha256.Size]byte, safe []byte) (*module, error) {
	patience := cmp.Or(w.patience, wasmcode.MaxTime)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	waiting := ctx
	if by.Patient {
		waiting = context.Background()
	}
	leave, err := p.enter(waiting, by.Organisation)
	if by.Patient {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), patience)
	}
	defer cancel()
	if err != nil {
		return nil, err
	}
	if m := w.find(sum); m != nil {
		leave()
		return m, nil
	}
	type result struct {
		program *wasmcode.Program
		err     error
	}
	done := make(chan result, 1)
	// The compiler in this process compiles a function without interruption, so the
	// goroutine may end later than the request. It keeps its place until then.
	go func() {
		defer leave()
		var r result
		var ok bool
		if r.program, ok = w.compiler.Load(sum, safe); !ok {
			r.program, r.err = w.compiler.Compile(ctx, sum, safe)
		}
		done <- r
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
	}
	switch {
	case r.program != nil:
		return w.add(sum, r.program)
	case ctx.Err() != nil: // also the cause of an error of the compiler
		return nil, fmt.Errorf("takes more than %s to compile; use a simpler module", patience)
	}
	return nil, r.err
}

// Remove removes from the disk what the module with the hash sum was compiled to. If it is
// used after the next start, it is compiled again.
func (w *Modules) Remove(sum [sha256.Size]byte) {
	w.start()
	w.compiler.Remove(sum)
}

// find returns a module that is in use, nil for none.
func (w *Modules) find(sum [sha256.Size]byte) *module {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[sum].Value()
}

// add returns the module of a program, or the module with the same code that another has
// added before. The program is closed when nothing refers to its module.
func (w *Modules) add(sum [sha256.Size]byte, p *wasmcode.Program) (*module, error) {
	if _, err := wasi_snapshot_preview1.Instantiate(context.Background(), p.Runtime); err != nil {
		p.Close()
		return nil, errNotModule
	}
	m := &module{p}
	runtime.AddCleanup(m, (*wasmcode.Program).Close, p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.known[sum].Value(); before != nil {
		return before, nil
	}
	if w.known == nil {
		w.known = make(map[[sha256.Size]byte]weak.Pointer[module])
	}
	w.known[sum] = weak.Make(m)
	runtime.AddCleanup(m, w.forget, sum)
	return m, nil
}

// forget removes a module that is not in use.
func (w *Modules) forget(sum [sha256.Size]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[sum].Value() == nil {
		delete(w.known, sum)
	}
}

// run gives the module its input and returns its output.
func (m *module) run(ctx context.Context, input []byte) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &limited{left: maxBody, full: cancel}
	config := wazero.NewModuleConfig().WithName("").WithStdin(bytes.NewReader(input)).WithStdout(out).WithRandSource(rand.Reader)
	instance, err := m.Runtime.InstantiateModule(ctx, m.Module, config)
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
		return nil, errors.New("the module ended with a trap, such as for want of memory; send less text, or correct the module")
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
