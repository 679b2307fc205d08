package checks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"modelgate/internal/guardrail/wasmcode"
)

// Limits of what a module declares. The runtime has none for tables.
const (
	maxTables      = 8
	maxTableLength = 64 << 10 // elements
	maxExports     = 100      // that are listed
)

// Sections of a module.
const (
	customSection = 0
	typeSection   = 1
	importSection = 2
	tableSection  = 4
	exportSection = 7
	codeSection   = 10
)

var errNotModule = wasmcode.ErrInvalid

// inspectModule returns a module without custom sections and with limits for its
// tables, and the functions that it exports, at most maxExports. The runtime checks
// everything else.
func inspectModule(code []byte) (safe []byte, exports []string, err error) {
	const header = "\x00asm\x01\x00\x00\x00"
	if len(code) < len(header) || string(code[:len(header)]) != header {
		return nil, nil, errNotModule
	}
	r := moduleReader{code[len(header):], nil}
	safe = append(make([]byte, 0, len(code)+16), header...)
	var parameters uint64 // of a function, at most
	for len(r.rest) > 0 && r.err == nil {
		id := r.byte()
		content := r.bytes(r.number())
		in := moduleReader{rest: content}
		switch id {
		case customSection: // names and debug information
			continue
		case typeSection:
			parameters = max(parameters, in.types())
		case importSection:
			in.checkImports()
		case tableSection:
			content = in.limitTables()
		case exportSection:
			exports = append(exports, in.exports()...)
		case codeSection:
			in.checkFunctions(parameters)
		}
		if r.err == nil {
			r.err = in.err
		}
		safe = append(binary.AppendUvarint(append(safe, id), uint64(len(content))), content...)
	}
	switch {
	case r.err != nil:
		return nil, nil, r.err
	case !slices.Contains(exports, "_start"):
		return nil, nil, errors.New("must export the function _start, as commands of WASI preview 1 do")
	}
	return safe, exports[:min(len(exports), maxExports)], nil
}

// moduleReader reads the binary format of modules. After an error it returns zero
// values.
type moduleReader struct {
	rest []byte
	err  error
}

func (r *moduleReader) byte() byte {
	b := r.bytes(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (r *moduleReader) bytes(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.rest)) {
		r.fail(errNotModule)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// number reads an unsigned number of 32 bits.
func (r *moduleReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		r.fail(errNotModule)
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// fail keeps the first error and ends reading.
func (r *moduleReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.rest = nil
}

// checkImports fails unless all imports are functions of WASI.
func (r *moduleReader) checkImports() {
	for n := r.number(); n > 0 && r.err == nil; n-- {
		from, name := string(r.bytes(r.number())), string(r.bytes(r.number()))
		if kind := r.byte(); r.err == nil && (kind != 0 || from != wasi_snapshot_preview1.ModuleName) {
			r.fail(fmt.Errorf("must import only functions of %s, not %.60q", wasi_snapshot_preview1.ModuleName, from+"."+name))
		}
		r.number() // of the type
	}
}

// limitTables returns the section with a maximum for each table.
func (r *moduleReader) limitTables() []byte {
	count := r.number()
	if count > maxTables {
		r.fail(fmt.Errorf("must have at most %d tables", maxTables))
	}
	out := binary.AppendUvarint(nil, count)
	for ; count > 0 && r.err == nil; count-- {
		kind, flags, least := r.byte(), r.byte(), r.number()
		most := max(least, 1<<10)
		if flags == 1 {
			most = min(r.number(), maxTableLength)
		}
		if flags > 1 {
			r.fail(errNotModule)
		}
		if least > maxTableLength {
			r.fail(fmt.Errorf("must have tables of at most %d elements", maxTableLength))
		}
		out = append(out, kind, 1)
		out = binary.AppendUvarint(binary.AppendUvarint(out, least), most)
	}
	return out
}

// exports returns the names of the exported functions.
func (r *moduleReader) exports() (names []string) {
	for n := r.number(); n > 0 && r.err == nil; n-- {
		name, kind := string(r.bytes(r.number())), r.byte()
		r.number() // of the function, table, memory or global
		if kind == 0 && r.err == nil {
			names = append(names, name)
		}
	}
	return names
}
