package checks

import (
	"errors"
	"fmt"
)

// Limits of the functions of a module. The runtime has none. Compiling takes memory and
// time that grow with the number of local variables times the depth of blocks, as each
// block may pass on each variable.
const (
	maxFunction   = 128 << 10 // bytes
	maxSignature  = 1000      // parameters or results of a function
	maxLocals     = 20_000    // of a function
	maxAllLocals  = 4 << 20   // of all functions, each a byte
	maxComplexity = 1 << 19   // local variables times depth of blocks of a function
	leastLocals   = 32        // that a function counts with: its depth is limited too
)

// types checks the signatures, and returns the largest number of parameters.
func (r *moduleReader) types() (most uint64) {
	for n := r.number(); n > 0 && r.err == nil; n-- {
		if r.byte() != 0x60 {
			r.fail(errNotModule)
		}
		for i := range 2 {
			values := r.number()
			if r.bytes(values); values > maxSignature && r.err == nil {
				r.fail(fmt.Errorf("must have functions of at most %d parameters and results", maxSignature))
			}
			if i == 0 {
				most = max(most, values)
			}
		}
	}
	return most
}

// checkFunctions fails if a function is too long or too complex. Each may have as many
// parameters as given.
func (r *moduleReader) checkFunctions(parameters uint64) {
	var all uint64
	for n := r.number(); n > 0 && r.err == nil; n-- {
		size := r.number()
		body := moduleReader{rest: r.bytes(size)}
		if size > maxFunction && r.err == nil {
			r.fail(fmt.Errorf("must have functions of at most %d bytes; one has %d", maxFunction, size))
		}
		if r.err != nil {
			return
		}
		locals := body.locals()
		if all += locals; all > maxAllLocals && body.err == nil {
			body.fail(fmt.Errorf("must have at most %d local variables in all functions", maxAllLocals))
		}
		depth := body.depth()
		if have := max(locals+parameters, leastLocals) * depth; have > maxComplexity && body.err == nil {
			body.fail(fmt.Errorf("must have functions of at most %d local variables times depth of nested blocks; one has %d; split the function",
				maxComplexity, have))
		}
		if body.err != nil {
			r.fail(body.err)
		}
	}
}

// locals returns the number of local variables of a function.
func (r *moduleReader) locals() (all uint64) {
	for n := r.number(); n > 0 && r.err == nil; n-- {
		if all += r.number(); all > maxLocals {
			r.fail(fmt.Errorf("must have functions of at most %d local variables", maxLocals))
		}
		r.byte() // type
	}
	return all
}

var errInstruction = errors.New("must have only instructions of WebAssembly 2.0")

// depth returns the depth of blocks in the instructions that are left.
func (r *moduleReader) depth() (deepest uint64) {
	depth := uint64(1)
	for len(r.rest) > 0 && r.err == nil {
		switch code := r.byte(); {
		case code == 0x0b: // end
			depth--
		case code >= 0x02 && code <= 0x04: // block, loop, if
			depth++
			r.skipNumbers(1)
		default:
			r.skipOperands(code)
		}
		deepest = max(deepest, depth)
		if depth == 0 && len(r.rest) > 0 {
			r.fail(errNotModule)
		}
	}
	return deepest
}

// skipOperands skips the operands of an instruction.
// https://webassembly.github.io/spec/core/binary/instructions.html
func (r *moduleReader) skipOperands(code byte) {
	switch {
	case code <= 0x01, code == 0x05, code == 0x0f, code == 0x1a, code == 0x1b, code >= 0x45 && code <= 0xc4, code == 0xd1: // none
	case code == 0x0c, code == 0x0d, code == 0x10, code >= 0x20 && code <= 0x26, code >= 0x3f && code <= 0x42, code == 0xd0, code == 0xd2:
		r.skipNumbers(1)
	case code == 0x0e: // br_table
		r.skipNumbers(r.number())
		r.skipNumbers(1)
	case code == 0x11, code >= 0x28 && code <= 0x3e: // call_indirect, load, store
		r.skipNumbers(2)
	case code == 0x1c: // select
		r.bytes(r.number())
	case code == 0x43:
		r.bytes(4)
	case code == 0x44:
		r.bytes(8)
	case code == 0xfc:
		r.skipBulk(r.number())
	case code == 0xfd:
		r.skipVector(r.number())
	default:
		r.fail(errInstruction)
	}
}

// skipBulk skips the operands of instructions that convert numbers or work on memories
// and tables.
func (r *moduleReader) skipBulk(code uint64) {
	switch {
	case code <= 7:
	case code == 8, code == 10, code == 12, code == 14:
		r.skipNumbers(2)
	case code <= 17:
		r.skipNumbers(1)
	default:
		r.fail(errInstruction)
	}
}

// skipVector skips the operands of instructions of 128 bits.
func (r *moduleReader) skipVector(code uint64) {
	switch {
	case code <= 11, code == 92, code == 93: // load, store
		r.skipNumbers(2)
	case code == 12, code == 13: // const, shuffle
		r.bytes(16)
	case code >= 21 && code <= 34: // of a lane
		r.bytes(1)
	case code >= 84 && code <= 91: // of a lane in memory
		r.skipNumbers(2)
		r.bytes(1)
	case code > 255:
		r.fail(errInstruction)
	}
}

// skipNumbers skips n numbers of any size and sign.
func (r *moduleReader) skipNumbers(n uint64) {
	for ; n > 0 && r.err == nil; n-- {
		for r.byte()&0x80 != 0 {
		}
	}
}
